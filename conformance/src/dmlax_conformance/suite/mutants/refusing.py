"""Ways to answer wrongly which calls are refused: accepting, refusing, blaming."""

from collections.abc import Callable
from dataclasses import replace

from ...operators._shared.convolution import Windows
from .implementation import Implementation, Refusal
from .record import HONEST, Mutant, mutant
from .steps import Call, Sizes

When = Callable[[Call], bool]


def always(call: Call) -> bool:
    """Say yes."""
    return True


def accepts(code: str, field: str, when: When = always) -> Implementation:
    """Let calls pass that must be refused with this code on this field."""

    def refuse(call: Call, refusal: Refusal | None) -> Refusal | None:
        return None if refusal == (code, field) and when(call) else refusal

    return replace(HONEST, refuse=refuse)


def refuses(code: str, field: str, when: When) -> Implementation:
    """Refuse calls that keep every rule."""

    def refuse(call: Call, refusal: Refusal | None) -> Refusal | None:
        return (code, field) if refusal is None and when(call) else refusal

    return replace(HONEST, refuse=refuse)


def blames(change: Callable[[str, str], Refusal]) -> Implementation:
    """Refuse the right calls for the wrong reason."""

    def refuse(call: Call, refusal: Refusal | None) -> Refusal | None:
        return refusal and change(*refusal)

    return replace(HONEST, refuse=refuse)


def blames_code(old: str, new: str, fields: str = "") -> Implementation:
    """Give another code, on some fields or all."""

    def change(code: str, field: str) -> Refusal:
        return (new if code == old and (not fields or field in fields.split()) else code), field

    return blames(change)


def blames_field(old: str, new: str, codes: str = "") -> Implementation:
    """Name another field, with some codes or all."""

    def change(code: str, field: str) -> Refusal:
        return code, (new if field == old and (not codes or code in codes.split()) else field)

    return blames(change)


def sizes(name: str) -> Callable[[Call], Sizes]:
    """Return a reader of a tensor's sizes."""
    return lambda call: call.inputs[name].shape


def has(name: str, *dtypes: str) -> When:
    """Say whether a tensor is there, and of one of these types if any are named."""
    return lambda call: (
        name in call.inputs and (not dtypes or call.inputs[name].dtype.name in dtypes)
    )


def is_long(name: str) -> When:
    """Say whether a parameter has more than one element."""
    return lambda call: name in call.inputs and call.inputs[name].size > 1


def rank(name: str, *ranks: int) -> When:
    """Say whether a tensor is there and has one of these ranks."""
    return lambda call: name in call.inputs and call.inputs[name].ndim in ranks


def windows(test: Callable[[Windows], bool]) -> When:
    """Ask something about the windows of a call that keeps every rule."""
    return lambda call: test(Windows.of(call.attributes))


def entries(field: str, test: Callable[[list[int], int], bool]) -> When:
    """Ask something about an attribute's entries, given the number of spatial axes."""
    return lambda call: test(call.attributes[field], call.inputs["InputTensor"].ndim - 2)


Row = tuple[str, str, str, Implementation]


def rows(operator: str, found: list[Row]) -> list[Mutant]:
    """Return a mutant for each (name, clause, description, implementation)."""
    return [mutant(operator, *row) for row in found]
