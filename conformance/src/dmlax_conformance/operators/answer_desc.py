"""The answer of an operator to a desc, a feature level and the buffers it describes."""

from collections.abc import Mapping
from typing import Any

from ..errors import SpecViolation
from ..format.descs import DTYPES, gather, scatter
from ..format.tensors import Tensor
from ..format.vectors import Request
from .answer import Answer, Inputs, compute
from .desc_rules import violations
from .descs import tensor_descs

Desc = Mapping[str, Any]


def answer_desc(operator: str, desc: Desc, feature_level: str, buffers: Inputs) -> Answer:
    """Return the output buffers, their gaps 0, or raise `SpecViolation`."""
    for rule, code, field in violations(operator, desc, feature_level):
        raise SpecViolation(code, field, rule)
    results = logical_answer(operator, desc, buffers)
    return {name: scatter(desc[name], tensor.words, 0) for name, tensor in results.items()}


def logical_answer(operator: str, desc: Desc, buffers: Inputs) -> Answer:
    """Return the outputs of a desc that keeps every rule, in the desc's sizes."""
    given: dict[str, Tensor] = {name: gather(desc[name], held) for name, held in buffers.items()}
    return compute(operator, desc, given, requests(operator, desc))


def requests(operator: str, desc: Desc) -> dict[str, Request]:
    """Return what the desc asks of its outputs."""
    wanted = tensor_descs(operator, desc, "outputs")
    return {k: Request(DTYPES[v["DataType"]], tuple(v["Sizes"])) for k, v in wanted.items()}
