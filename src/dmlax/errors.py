"""Errors of a wrong call, and of an implementation that cannot run a right one."""

from typing import Literal, NamedTuple, get_args

Code = Literal[
    "data_type",
    "dimension_count",
    "sizes",
    "strides",
    "byte_size",
    "alignment",
    "flags",
    "feature_level",
    "missing_tensor",
    "option",
    "value",
]
CODES: tuple[str, ...] = get_args(Code)


class Violation(NamedTuple):
    """One broken rule.

    Attributes:
      rule: the rule's name.
      code: the kind of rule, one of `dmlax.errors.CODES`.
      field: DirectML's name of the tensor or field, or the argument's where it has none.
      message: the operator, the field, the value, and the rule.
    """

    rule: str
    code: Code
    field: str
    message: str


class SpecError(ValueError):
    """The call breaks a rule of its operator, on every backend.

    Attributes:
      code: the kind of rule, one of `dmlax.errors.CODES`.
      field: DirectML's name of the tensor or field, or the argument's where it has none.
      violations: every broken rule of a desc, of which this error reports the first; empty
        outside of `dmlax.directml`, where checking stops at the first.
    """

    def __init__(
        self, message: str, code: Code, field: str, violations: tuple[Violation, ...] = ()
    ) -> None:
        super().__init__(message, code, field, violations)
        self.code = code
        self.field = field
        self.violations = violations
        for other in violations[1:]:
            self.add_note(other.message)

    def __str__(self) -> str:
        return str(self.args[0])


class UnsupportedError(NotImplementedError):
    """The call is valid, but the implementation that it names, or any, cannot run it.

    Attributes:
      code: "option"; "sizes" of a call that is too large; "data_type" from `create_operator`.
      field: "implementation", or the tensor or field.
    """

    def __init__(self, message: str, code: Code = "option", field: str = "implementation") -> None:
        super().__init__(message, code, field)
        self.code = code
        self.field = field

    def __str__(self) -> str:
        return str(self.args[0])
