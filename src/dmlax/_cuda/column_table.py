"""The table of a block's output columns in shared memory: what turns their sums into outputs."""

from collections.abc import Callable
from typing import NamedTuple

from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.ir import Value
from dmlax._cuda.requantize import Factor, Ratio


class Column(NamedTuple):
    """An output column's constants."""

    offset: Value  # added to a sum: the bias and the zero points' terms
    zero_point: Value  # right's zero point; its product with the sum of left's row is subtracted
    multiplier: Value  # the multiplier of the column's Factor
    rounding: Value
    product: Value  # this and what follows is its Ratio, read for near ties only
    rest: Value
    divisor: Value


class ColumnTable:
    """Arrays in shared memory, one for every constant of `Column`."""

    def __init__(self, address: Value, count: int) -> None:
        self._address, self._count = address, count

    @staticmethod
    def bytes_of(count: int) -> int:
        """Bytes of shared memory; 16 divides them."""
        return len(Column._fields) * 4 * count

    @property
    def end(self) -> Value:
        """The address after the table."""
        return self._address + self.bytes_of(self._count)

    def places(self, threads: int) -> list[Value]:
        """The places that a thread writes; some may be beyond the last."""
        return [ir.thread() + first for first in range(0, self._count, threads)]

    def write_at(self, place: Value, make: Callable[[], Column]) -> None:
        """Writes the column at a place, if there is one; a barrier must follow.

        The condition is hidden: the compiler would move into it what was loaded long before.
        """
        with ir.when(ir.hide(place) < self._count):
            for address, value in zip(self._addresses(place), make(), strict=True):
                ir.store_shared(address, value)

    def load_four(self, name: str, first: Value) -> list[Value]:
        """Loads a constant of four columns side by side."""
        return ir.load_shared(getattr(self._addresses(first), name), 4)

    def load(self, name: str, place: Value) -> Value:
        """Loads a constant of a column."""
        return ir.load_shared(getattr(self._addresses(place), name), 1)[0]

    def load_factors(self, first: Value, arithmetic: Arithmetic) -> list[Factor]:
        """Loads the factors of four columns side by side."""
        multipliers, roundings = self.load_four("multiplier", first), [ir.constant(0)] * 4
        if arithmetic == "exact":
            roundings = self.load_four("rounding", first)
        return list(map(Factor, multipliers, roundings))

    def load_ratio(self, place: Value) -> Ratio:
        """Loads the ratio of a column."""
        return Ratio(*(self.load(name, place) for name in Ratio._fields))

    def _addresses(self, place: Value) -> Column:
        start, size = self._address + place * 4, 4 * self._count
        return Column(*(start + i * size for i in range(len(Column._fields))))
