"""A control: crashes on every case, so every case is an error and none a refusal."""

from .base import Array, Case


class Raising:
    """Raises what is neither a refusal nor "unsupported", whatever the question."""

    name = "raising"
    variants: tuple[str, ...] = ("eager",)
    capabilities = frozenset({"descriptors", "strides"})

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Crash."""
        raise RuntimeError("this implementation always crashes")
