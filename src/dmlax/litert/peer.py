"""LiteRT's interpreter, for comparisons; the package `ai-edge-litert` is needed here alone."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dmlax.litert.schema import BUILTINS, RESOURCE

_EXTRA = "it needs ai-edge-litert: pip install ai-edge-litert"
FOLLOWS = "2.3.0"
"""The release of LiteRT whose bits `arithmetic` has."""


class Peer:
    """An interpreter of a file, whose every computed tensor is an output.

    Custom operators of the names `without`, and what needs them, are left out. `shapes` are those
    of inputs by dmlax's names, if not the file's.
    """

    def __init__(
        self,
        data: bytes,
        resolver: str,
        without: Collection[str] = (),
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        try:
            from ai_edge_litert import interpreter
        except ImportError:
            raise ImportError(_EXTRA) from None
        types = interpreter.OpResolverType
        kinds = {"xnnpack": types.AUTO, "reference": types.BUILTIN_REF}
        self._names, changed = _with_every_output(data, without)
        options = {"experimental_op_resolver_type": kinds.get(resolver, types.BUILTIN_REF)}
        self._runtime = interpreter.Interpreter(model_content=changed, **options)
        for detail in self._runtime.get_input_details():
            if shape := (shapes or {}).get(self._names[detail["index"]]):
                self._runtime.resize_tensor_input(detail["index"], shape)
        self._runtime.allocate_tensors()

    @property
    def names(self) -> list[str]:
        """dmlax's names of the tensors that `run` returns."""
        return [self._names[x["index"]] for x in self._runtime.get_output_details()]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes the tensors by dmlax's names; the interpreter keeps variables."""
        for detail in self._runtime.get_input_details():
            self._runtime.set_tensor(detail["index"], inputs[self._names[detail["index"]]])
        self._runtime.invoke()
        details = self._runtime.get_output_details()
        return {
            self._names[x["index"]]: self._runtime.get_tensor(x["index"]).copy() for x in details
        }


def _with_every_output(data: bytes, without: Collection[str]) -> tuple[list[str], bytes]:
    """The tensors' names, and the file with outputs of all tensors that an operator computes.

    XNNPACK folds dequantized weights, and leaves tensors of them empty.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    from dmlax.litert.read import unique_names

    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    graph = model.subgraphs[0]
    names = unique_names(
        [(x.name or b"").decode("utf-8", "backslashreplace") for x in graph.tensors]
    )
    folded = {BUILTINS.index("DEQUANTIZE"), BUILTINS.index("DENSIFY")}
    written, operators, lost = [int(i) for i in graph.outputs], [], set[int]()
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        if (code.customCode or b"").decode() in without or lost.intersection(operator.inputs):
            lost.update(operator.outputs)
            continue
        operators.append(operator)
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        is_float = number in folded and graph.tensors[operator.inputs[0]].type < 2
        if not is_float:
            written += [int(i) for i in operator.outputs if graph.tensors[i].type != RESOURCE]
    graph.operators = operators
    graph.outputs = np.array([i for i in dict.fromkeys(written) if i not in lost], np.int32)
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return names, bytes(builder.Output())
