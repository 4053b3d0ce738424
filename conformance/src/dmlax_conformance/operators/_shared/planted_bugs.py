"""Tables of planted bugs: by clause and place, the name of each bug and what it does there."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...suite.bugs.record import Bug, in_output, in_part
from ...suite.bugs.refusals import accept, in_refusals, refuse

Ways = Mapping[str, Any]
Steps = Mapping[tuple[str, str, str], Ways]  # clause, part and step
Outputs = Mapping[tuple[str, str], Ways]  # clause and tensor
Answers = Mapping[tuple[str, str, str, str], Ways]  # clause, accept or refuse, code and field


def plant(operator: str, steps: Steps, outputs: Outputs, answers: Answers) -> Iterator[Bug]:
    """Yield the bugs that replace a step, change an output, or answer some calls wrongly."""
    for (clause, part, step), ways in steps.items():
        yield from in_part(operator, clause, part, step, ways)
    for (clause, tensor), ways in outputs.items():
        yield from in_output(operator, clause, tensor, ways)
    for (clause, answer, code, field), ways in answers.items():
        made = accept if answer == "accept" else refuse
        yield from in_refusals(operator, clause, made, code, field, ways)
