"""A run as JUnit XML: one suite for each operator, one case for each vector and variant."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from xml.etree import ElementTree

from ..suite.repeat import command
from .expected import key_of
from .lines import Json, Report

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(path: Path, report: Report, bad: Collection[str]) -> None:
    """Write a report; the verdicts `bad` are failures, except `error`."""
    tree = ElementTree.ElementTree(root(report, bad))
    ElementTree.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def root(report: Report, bad: Collection[str]) -> ElementTree.Element:
    """Return the element `testsuites`."""
    name = str(report.header["implementation"])
    top = ElementTree.Element("testsuites", name=_legal(f"dmlax-conformance {name}"))
    for operator in sorted({result["operator"] for result in report.results}):
        own = [result for result in report.results if result["operator"] == operator]
        top.append(_suite(report, operator, own, bad))
    _count(top, list(top.iter("testcase")), report.results)
    return top


def _suite(
    report: Report, operator: str, results: Sequence[Json], bad: Collection[str]
) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=operator)
    properties = ElementTree.SubElement(suite, "properties")
    for name in ("suite", "implementation", "python", "machine"):
        value = _legal(str(report.header[name]))
        ElementTree.SubElement(properties, "property", name=name, value=value)
    suite.extend(_case(report, result, bad) for result in results)
    _count(suite, list(suite.iter("testcase")), results)
    return suite


def _count(
    element: ElementTree.Element, cases: Sequence[ElementTree.Element], results: Sequence[Json]
) -> None:
    element.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(result['seconds'] for result in results):.6f}")


def _case(report: Report, result: Json, bad: Collection[str]) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=f"{result['operator']}.{result['topic']}",
        name=_legal(key_of(result["id"], result["variant"])),
        time=f"{result['seconds']:.6f}",
    )
    tag, message = _outcome(result, bad)
    if tag:
        child = ElementTree.SubElement(case, tag, message=_legal(message))
        if tag != "skipped":
            child.set("type", result["verdict"])
            child.text = _legal(_text(report, result))
    elif result["details"]:
        ElementTree.SubElement(case, "system-out").text = _legal(_text(report, result))
    return case


def _outcome(result: Json, bad: Collection[str]) -> tuple[str, str]:
    """Return the tag of a case that is not plainly passed, and its message."""
    verdict, first = result["verdict"], (result["details"] or [""])[0]
    if verdict == "unsupported":
        return "skipped", f"unsupported: {first}"
    if verdict == "expected":
        return "skipped", f"expected failure: {result['reason']}"
    if verdict in bad:
        return ("error" if verdict == "error" else "failure"), first
    return "", ""


def _text(report: Report, result: Json) -> str:
    repeat = command(report.header["repeat"], result["variant"], result["id"])
    return "\n".join([result["comment"], *result["details"], f"repeat: {repeat}"])


def _legal(text: str) -> str:
    """Write characters that XML has no place for as escapes."""
    return _FORBIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
