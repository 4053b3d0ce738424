"""A run as JUnit XML: one suite for each operator, one case for each vector and variant."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from ..runner.repeat import command
from ..runner.run import FAILED, KINDS
from .expected import key_of
from .lines import Json, Report, rank

LAST = (len(KINDS), False)  # the rank of what is no failure
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(path: Path, report: Report, bad: Collection[str]) -> None:
    """Write a report; the verdicts `bad` are failures, except `error`."""
    tree = ElementTree(root(report, bad))
    indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def root(report: Report, bad: Collection[str]) -> Element:
    """Return the element `testsuites`."""
    name = str(report.header["implementation"])
    top = Element("testsuites", name=_legal(f"dmlax-conformance {name}"))
    for operator in sorted({result["operator"] for result in report.results}):
        suite = SubElement(top, "testsuite", name=operator)
        properties = SubElement(suite, "properties")
        for fact in ("suite", "implementation", "python", "machine"):
            value = _legal(str(report.header[fact]))
            SubElement(properties, "property", name=fact, value=value)
        results = [result for result in report.results if result["operator"] == operator]
        results.sort(key=lambda each: rank(each) if each["verdict"] in FAILED else LAST)
        suite.extend(_case(report, result, bad) for result in results)
        _count(suite, results)
    _count(top, report.results)
    return top


def _count(element: Element, results: Sequence[Json]) -> None:
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(result['seconds'] for result in results):.6f}")


def _case(report: Report, result: Json, bad: Collection[str]) -> Element:
    case = Element(
        "testcase",
        classname=f"{result['operator']}.{result['topic']}",
        name=_legal(key_of(result["id"], result["variant"])),
        time=f"{result['seconds']:.6f}",
    )
    verdict, first = result["verdict"], (result["details"] or [""])[0]
    repeat = command(report.header["repeat"], result["variant"], result["id"])
    text = _legal("\n".join([result["comment"], *result["details"], f"repeat: {repeat}"]))
    if verdict in ("unsupported", "expected"):
        reason = first if verdict == "unsupported" else result["reason"]
        kind = "unsupported" if verdict == "unsupported" else "expected failure"
        SubElement(case, "skipped", message=_legal(f"{kind}: {reason}"))
    elif verdict in bad:
        tag = "error" if verdict == "error" else "failure"
        SubElement(case, tag, message=_legal(first), type=verdict).text = text
    elif result["details"]:
        SubElement(case, "system-out").text = text
    return case


def _legal(text: str) -> str:
    """Write characters that XML has no place for as escapes."""
    return _FORBIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
