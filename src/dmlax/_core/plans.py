"""The base of plans."""


class BasePlan:
    """Everything static that a lowering reads; a subclass is a frozen dataclass."""

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []
