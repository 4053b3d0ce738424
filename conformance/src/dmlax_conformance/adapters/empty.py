"""A control: supports nothing, so a run of it has no applicable case."""

from .base import Array, Case, Unsupported


class Empty:
    """Declines every case."""

    name = "empty"
    variants: tuple[str, ...] = ("eager",)

    def run(self, case: Case, variant: str) -> dict[str, Array]:
        """Decline."""
        raise Unsupported("this implementation is empty")
