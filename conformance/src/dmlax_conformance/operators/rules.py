"""The rules of a call, by operator."""

from . import OPERATORS

RULES = {name: operator.check for name, operator in OPERATORS.items()}
