"""A control: answers every case with no outputs, so every case must fail."""

from .base import Array, Case


class Nothing:
    """Answers without outputs, whatever the question."""

    name = "nothing"
    variants: tuple[str, ...] = ("eager",)
    capabilities = frozenset({"descriptors", "strides"})

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Return no outputs."""
        return {}
