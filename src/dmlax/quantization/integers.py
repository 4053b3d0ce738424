"""Which steps run in integers, and whose quantization each value of bytes has."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dmlax.quantization.plan import Planner, Step, batched
from dmlax.quantization.program import Equation
from dmlax.quantization.rules import LAYERS, Rule

_JOINS = ("sum", "multiplication", "concatenation")


class Integers:
    """Chooses the steps that run in integers, in order.

    Attributes:
      steps: those that run, with the lookups that others need.
      roots: whose quantization each value of bytes has.
      rules: the rule that gives each quantization.
    """

    def __init__(
        self, planner: Planner, steps: Sequence[Step], by_layer: Mapping[int, Rule | None]
    ) -> None:
        self.planner, self.program = planner, planner.program
        self.steps: list[Step] = []
        self.roots: dict[int, int] = {}
        self.rules: dict[int, Rule] = {}
        self.made = {x: each for each in self.program.equations for x in each.results}
        read = _read_by_integers(planner)
        for step in steps:
            self._choose(step, by_layer.get(step.result), read)
        self.steps = [*_live(self.steps, self.program.outputs)]
        alive = {x for each in self.steps for x in (*each.operands, each.result)}
        self.rules = {x: rule for x, rule in self.rules.items() if x in alive}
        self.roots = {x: root for x, root in self.roots.items() if x in alive}
        self._fuse()

    def _fuse(self) -> None:
        """Gives a sum the layer of its first operand, or else of its second, if it alone reads it.

        These are the rules of the passes that fuse an ONNX model's sums.
        """
        made, shapes = {step.result: step for step in self.steps}, self.program.shapes
        reads = Counter([x for step in self.steps for x in step.reads] + self.program.outputs)
        for step in self.steps:
            same = len({shapes[x] for x in step.operands}) == 1
            if step.kind == "sum" and step.is_integer and same:
                layers = [made[x] for x in step.operands if x in made and reads[x] == 1]
                step.fused = next(filter(_is_fusible, layers), None)

    def _choose(self, step: Step, rule: Rule | None, read: set[int]) -> None:
        """Decides for a step whose operands are decided."""
        first, root = step.operands[:1], step.result
        if rule is not None and rule.to_float:
            step.why = "a rule"
            self.steps.append(step)
            return
        if step.kind in LAYERS and rule is not None:
            for x in step.operands:
                if not self._are_bytes([x], rule):
                    self.roots[x], self.rules[x] = x, rule
        elif step.kind in ("move", "max") and self._are_bytes(first):
            root = self.roots[first[0]]
        elif step.kind == "average" and step.result in read and self._are_bytes(first):
            rule = rule or self._rule(first)
        elif step.kind in _JOINS and (rule or root in read) and self._are_bytes(step.operands):
            rule = rule or self._rule(step.operands)
            for x in step.operands:
                if step.kind == "sum" and x in self.program.constants:
                    self.roots[x], self.rules[x] = x, rule
        else:
            if step.kind in _JOINS and {*step.operands} <= {*self.roots}:
                step.why = "only floats read it"
            self.steps.append(step)
            return
        step.is_integer, self.roots[step.result] = True, root
        if root == step.result and rule is not None:
            self.rules[root] = rule
        self.steps.append(step)

    def _rule(self, operands: Sequence[int]) -> Rule:
        """The rule of the first value of bytes."""
        return self.rules[next(self.roots[x] for x in operands if x in self.roots)]

    def _are_bytes(self, operands: Sequence[int], rule: Rule | None = None) -> bool:
        """If values are bytes or constants, after lookups for those that are functions of bytes."""
        loose = [x for x in operands if x not in self.program.constants]
        source = self.planner.sources
        if not loose or any(x not in self.roots and source.get(x) not in self.roots for x in loose):
            return False
        for x in dict.fromkeys(loose):
            if x not in self.roots:
                chain = [*self._chain(source[x], x, set())]
                step = Step("lookup", chain[-1], (source[x],), x, is_integer=True, absorbed=chain)
                step.name = step.place
                self.steps.append(step)
                self.roots[x], self.rules[x] = x, rule or self._rule([source[x]])
        return True

    def _chain(self, source: int, number: int, seen: set[int]) -> Iterator[Equation]:
        """The equations from one value to another, in order."""
        if number == source or number in seen or number in self.program.constants:
            return
        seen.add(number)
        equation = self.made[number]
        for x in equation.operands:
            yield from self._chain(source, x, seen)
        yield equation


def _is_fusible(step: Step) -> bool:
    """If a step is a convolution, or a product of rows with a matrix of parameters."""
    if step.kind == "product" and (step.swapped or batched(step)[0]):
        return False
    return step.is_integer and step.weights >= 0


def _read_by_integers(planner: Planner) -> set[int]:
    """Outputs, and values that layers read, maybe after functions of one value and sums.

    A mean that only statistics read stays float: a variance of bytes would be rounding alone. So
    does a residual sum that only a layer normalization and the next sum read: in bytes every block
    would round it once more, with one scale for tokens of all sizes, and save nothing.
    """
    program, read = planner.program, set(planner.program.outputs)
    for equation in reversed(program.equations):
        loose = [x for x in equation.operands if x not in program.constants]
        is_layer = equation.name in ("conv_general_dilated", "dot_general")
        passes = len(set(loose)) == 1 or equation.name in ("add", "mul", "concatenate")
        if is_layer or (passes and read.intersection(equation.results)):
            read.update(loose)
        read.update(
            planner.sources[x] for x in equation.results if x in read and x in planner.sources
        )
    return read


def _live(steps: Sequence[Step], outputs: Sequence[int]) -> Iterator[Step]:
    """The steps whose results are read, in order. A lookup gives bytes alone."""
    needed, kept = {(x, False) for x in outputs}, []
    for step in reversed(steps):
        equations = (step.equation, *step.absorbed)
        results = [x for each in equations for x in each.results]
        if step.kind == "lookup":
            kept.append(step)
            needed.discard((step.result, True))
        elif not results or any((x, is_byte) in needed for x in results for is_byte in (0, 1)):
            kept.append(step)
        else:
            continue
        needed |= {(x, step.is_integer) for x in step.reads}
    return reversed(kept)
