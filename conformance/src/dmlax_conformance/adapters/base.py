"""The names that an adapter needs."""

from ..errors import SpecViolation, Unsupported
from ..format.vectors import Request
from ..runner.adapter import Adapter, Array, Case

__all__ = ["Adapter", "Array", "Case", "Request", "SpecViolation", "Unsupported"]
