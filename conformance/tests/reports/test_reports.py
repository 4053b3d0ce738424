"""Reports: what is written can be read back, adds up, and says what went wrong."""

import base64
import hashlib
import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import tensors, vectors
from dmlax_conformance.format.canonical import dumps
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators.answer import with_elements
from dmlax_conformance.paths import schema_file
from dmlax_conformance.reports import compare, expected, html, junit, lines, reading, values
from dmlax_conformance.reports.lines import Report
from dmlax_conformance.suite import repeat, runner
from dmlax_conformance.suite.compare import Outcome
from dmlax_conformance.suite.runner import VERDICTS, Result

BAD = frozenset({"fail", "error"})


@pytest.fixture(scope="session")
def report(broken_results: list[Result]) -> Report:
    return lines.of_run(broken_results, "broken:Adapter")


@pytest.fixture(scope="session")
def small(broken_results: list[Result]) -> Report:
    """Return three results, so that every line can be damaged."""
    return lines.of_run(broken_results[:3], "broken:Adapter")


@pytest.fixture
def run_broken(
    monkeypatch: pytest.MonkeyPatch, broken: Oracle, suite: list[Vector]
) -> Callable[..., int]:
    """Return the command `run` for the broken adapter, with vectors that are read already."""
    monkeypatch.setattr(adapters, "start", lambda *name: broken)
    monkeypatch.setattr(vectors, "load_all", lambda *folder: suite)

    def run(*arguments: object) -> int:
        chosen = ("--implementation", "broken", "--max-shown", "0")
        return cli.main(["run", *chosen, *map(str, arguments)])

    return run


# JSON lines


def test_the_schema_is_in_canonical_form() -> None:
    text = schema_file().with_name(f"{lines.FORMAT}.json").read_text(encoding="utf-8")
    assert text == dumps(json.loads(text))


def test_a_report_reads_back_as_it_was(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    lines.write(path, report)
    assert reading.read(path) == report
    *_, footer = map(json.loads, path.read_text().splitlines())
    assert footer == report.footer
    assert {result["verdict"] for result in report.results} >= {"exact", "fail", "error"}


def test_the_sums_add_up(report: Report, broken_results: list[Result]) -> None:
    footer = report.footer
    assert footer["total"] == len(broken_results) == sum(footer[name] for name in VERDICTS)
    assert footer["applicable"] == footer["total"] - footer["unsupported"] > 0


def test_a_failure_holds_its_values_as_the_suite_writes_them(
    report: Report, broken_results: list[Result]
) -> None:
    checked = 0
    for line, result in zip(report.results, broken_results, strict=True):
        if line["verdict"] in ("exact", "unsupported"):
            assert "got" not in line
            continue
        for name, tensor in result.vector.inputs.items():
            written = line["inputs"][name]
            if "data" in written or "bits" in written:
                assert tensors.decode(written, "") == tensor
        checked += check_differences(line)
    assert checked > 30


def check_differences(line: Any) -> int:
    """Check that got and expected differ exactly where the line says."""
    checked = 0
    for name, want in line["expect"].get("outputs", {}).items():
        have, (key,) = line["got"].get(name), {"data", "bits"} & want.keys() or {""}
        if have is None or key not in have or have["sizes"] != want["sizes"]:
            continue
        pairs = zip(want[key], have[key], strict=want["compare"] != "exact_rows")
        wrong = [index for index, (a, b) in enumerate(pairs) if a != b and not both_nan(want, a, b)]
        assert wrong == line["differs"].get(name, [])
        checked += bool(wrong)
    return checked


def both_nan(tensor: Any, *words: Any) -> bool:
    if "bits" not in tensor:
        return False
    raw = tensors.Tensor(tensor["dtype"], (2,), tuple(int(word, 16) for word in words))
    array = tensors.to_numpy(raw)
    return bool((array != array).all())


def test_large_tensors_are_left_out_but_not_their_few_defined_rows(report: Report) -> None:
    (line,) = (
        result
        for result in report.results
        if (result["id"], result["variant"]) == ("nonzero-large-257x257", "eager")
    )
    assert line["inputs"]["InputTensor"].keys() == {"dtype", "sizes", "recipe", "sha256"}
    got = line["got"]["OutputCoordinatesTensor"]
    assert got["sizes"] == [66049, 2]
    assert len(got["data"]) == 2 * line["expect"]["outputs"]["OutputCoordinatesTensor"]["rows"]
    assert max(len(json.dumps(each)) for each in report.results) < 40_000


def test_the_first_wrong_elements_of_a_large_output_are_kept(
    report: Report, broken_results: list[Result]
) -> None:
    pairs = zip(report.results, broken_results, strict=True)
    large = [(line["first"], result) for line, result in pairs if line.get("first")]
    operators = Counter(result.vector.operator for _, result in large)
    assert operators.keys() == {"nonzero_coordinates", "element_wise_dequantize_linear"}
    for first, result in large:
        (name, places), want = first.popitem(), with_elements(result.vector).expect
        assert not first
        assert isinstance(want, dict)
        words = want[name].words
        assert len(words) > values.MOST or result.vector.has_digests
        given = tensors.from_numpy(result.outcome.answer[name]).words
        wrong = [i for i, (a, b) in enumerate(zip(words, given, strict=False)) if a != b]
        assert [each["index"] for each in places] == wrong[: values.FIRST]
        hexadecimal = want[name].dtype.startswith("float")  # floats are written by their bits
        for each in places:
            read = partial(int, base=16) if hexadecimal else int
            assert read(each["expected"]) == words[each["index"]]
            assert read(each["got"]) == given[each["index"]]


def test_a_strided_output_is_shown_as_its_tensor(report: Report) -> None:
    shown = [
        (line["expect"]["outputs"]["OutputTensor"], line["got"]["OutputTensor"])
        for line in report.results
        if "desc" in line and "OutputTensor" in line["got"] and line["verdict"] == "fail"
    ]
    assert shown
    assert all(want["sizes"] == have["sizes"] for want, have in shown)


def test_answers_of_other_kinds_are_written_too(suite: list[Vector]) -> None:
    vector = next(each for each in suite if each.id == "quantize-ties-int32")

    def line(answer: Any) -> Any:
        result = Result(vector, "eager", Outcome("fail", (), answer), 0.0)
        return lines.of_run([result], "any").results[0]

    assert line(None)["got"] == line([1, 2])["got"] == {}
    odd = {"OutputTensor": "text", "Other": [1.5], "Ragged": [[1], [1, 2]]}
    assert line(odd)["got"]["Other"] == {
        "dtype": "float64",
        "sizes": [1],
        "bits": ["3ff8000000000000"],
    }
    assert line(odd)["got"]["OutputTensor"] == {"dtype": "str128", "sizes": []}
    assert line(odd)["got"]["Ragged"] == {"dtype": "object", "sizes": []}
    assert line(odd)["differs"] == {}


Damage = Callable[[list[str]], list[str]]


def edited(number: int, **changes: Any) -> Damage:
    def edit(written: list[str]) -> list[str]:
        line = json.loads(written[number - 1]) | changes
        return [*written[: number - 1], json.dumps(line), *written[number:]]

    return edit


DAMAGE: dict[str, tuple[Damage, str]] = {
    "nothing left": (lambda written: [], "line 1"),
    "header only": (lambda written: written[:1], "line 1"),
    "no footer": (lambda written: written[:-1], "line 4"),
    "no header": (lambda written: written[1:], "line 1"),
    "cut in a line": (lambda written: [*written[:2], written[2][:90]], "line 3"),
    "a line lost": (lambda written: [*written[:2], *written[3:]], "line 4"),
    "a line twice": (lambda written: [*written[:2], written[1], *written[2:]], "line 3"),
    "more after the footer": (lambda written: [*written, written[1]], "line 5"),
    "a blank line": (lambda written: [*written[:2], "", *written[2:]], "line 3"),
    "not an object": (lambda written: [*written[:2], "[]", *written[2:]], "line 3"),
    "a number that is none": (edited(3, seconds=float("nan")), "line 3"),
    "another format": (edited(1, report="report-2"), "line 1"),
    "another kind": (edited(2, kind="remark"), "line 2"),
    "an unknown key": (edited(3, more=1), "line 3"),
    "an unknown verdict": (edited(3, verdict="fine"), "line 3"),
    "an unknown variant": (edited(3, variant="later"), "line 3"),
    "a failure without values": (edited(3, verdict="fail"), "line 3"),
    "a reason without cause": (edited(3, reason="why not"), "line 3"),
    "sums of others": (edited(5, total=4), "line 5"),
    "sums that hide a failure": (edited(5, exact=0, fail=3), "line 5"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_report_is_refused_by_line(name: str, small: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    lines.write(path, only_exact(small))
    reading.read(path)
    damage, position = DAMAGE[name]
    path.write_text("".join(f"{line}\n" for line in damage(path.read_text().splitlines())))
    with pytest.raises(Malformed) as caught:
        reading.read(path)
    assert (caught.value.position, caught.value.file) == (position, str(path))
    assert cli.main(["compare", str(path), str(path)]) == 3
    assert cli.main(["html", str(path), "--output", str(tmp_path / "page.html")]) == 3


def only_exact(report: Report) -> Report:
    evidence = ("attributes", "inputs", "outputs", "expect", "got", "differs")
    results = [{k: v for k, v in each.items() if k not in evidence} for each in report.results]
    return Report(report.header, tuple(each | {"verdict": "exact"} for each in results))


def test_what_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    path.write_bytes(b"\xff\xfe")
    for wrong in (path, tmp_path / "none.jsonl"):
        with pytest.raises(Malformed):
            reading.read(wrong)


def test_the_command_repeats_a_result(suite: list[Vector], tmp_path: Path) -> None:
    start = repeat.start_of_command("a module:Class", tmp_path / "a folder")
    words = shlex.split(repeat.command(start, "a variant", "an-id"))
    assert words[:4] == ["dmlax-conformance", "run", "--implementation", "a module:Class"]
    assert words[4:6] == ["--vectors", str(tmp_path / "a folder")]
    assert words[6:] == ["--variant", "a variant", "--id", "an-id"]
    limited = repeat.start_of_command("process:mine --fast", None, 2.5)
    assert shlex.split(limited)[-2:] == ["--time-limit", "2.5"]
    again = repeat.command(repeat.start_of_command("nothing"), "eager", "quantize-ties-int32")
    assert cli.main(shlex.split(again)[1:]) == 1


# JUnit XML

ALLOWED = {
    "testsuites": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"properties", "testcase"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": (
        {"classname", "name", "time"},
        {"failure", "error", "skipped", "system-out"},
    ),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}


def test_junit_has_the_form_that_tools_read(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    junit.write(path, report, BAD)
    root = ElementTree.parse(path).getroot()
    for element in root.iter():
        attributes, children = ALLOWED[element.tag]
        assert element.keys() == attributes or set(element.keys()) == attributes
        assert {child.tag for child in element} <= children
        assert element.tag != "testcase" or len(element) <= 1
    for counted in (root, *root.iter("testsuite")):
        tags = Counter(child.tag for case in counted.iter("testcase") for child in case)
        assert int(counted.get("tests", "")) == len(list(counted.iter("testcase")))
        assert int(counted.get("failures", "")) == tags["failure"]
        assert int(counted.get("errors", "")) == tags["error"]
        assert int(counted.get("skipped", "")) == tags["skipped"]


def test_junit_says_what_the_report_says(report: Report) -> None:
    root = junit.root(report, BAD)
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert len(cases) == len(report.results)
    tags = {"fail": "failure", "error": "error", "unsupported": "skipped"}
    for result in report.results:
        case = cases[f"{result['id']}[{result['variant']}]"]
        assert case.get("classname") == f"{result['operator']}.{result['topic']}"
        tag = tags.get(result["verdict"])
        assert [child.tag for child in case if child.tag != "system-out"] == [tag] * bool(tag)
        if tag in ("failure", "error"):
            assert f"--variant {result['variant']} --id {result['id']}" in (case[0].text or "")
    assert [suite.get("name") for suite in root] == sorted({r["operator"] for r in report.results})


def test_junit_of_other_verdicts(small: Report) -> None:
    first, second, _ = small.results
    excused = {**first, "verdict": "expected", "was": "fail", "reason": "known"}
    permitted = {**second, "verdict": "permitted", "details": ["listed"]}
    changed = Report(small.header, (excused, permitted))
    (tolerant,) = junit.root(changed, BAD)
    skipped, passed = tolerant.iter("testcase")
    assert skipped[0].get("message") == "expected failure: known"
    assert passed[0].tag == "system-out"
    (strict,) = junit.root(changed, BAD | {"permitted"})
    assert [child.tag for case in strict.iter("testcase") for child in case] == [
        "skipped",
        "failure",
    ]


def test_junit_escapes_what_xml_cannot_hold(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    junit.write(path, report, BAD)
    crash = next(ElementTree.parse(path).iter("error"))
    assert crash.get("message") == "ValueError: crashed in </script> & \\x00"


# What changed


def of(*verdicts: tuple[str, str], rev: int = 1) -> Report:
    """Return a report of ids and verdicts."""
    header = {"kind": "header", "variants": ["eager"], **dict.fromkeys(compare.FACTS, "same")}
    results = [
        {"id": name, "variant": "eager", "verdict": verdict, "details": [], "rev": rev}
        for name, verdict in verdicts
    ]
    return Report(header, tuple(results))


PASSED = ("exact", "permitted")
WORSE = {
    *itertools.product((*PASSED, "expected", "unsupported"), ("fail", "error")),
    *itertools.product((*PASSED, "unsupported"), ["expected"]),
    *itertools.product(PASSED, ["unsupported"]),
    *((verdict, None) for verdict in VERDICTS),
    (None, "fail"),
    (None, "error"),
}


@pytest.mark.parametrize(
    ("before", "after"), [*itertools.product((*VERDICTS, None), (*VERDICTS, None))]
)
def test_every_change_has_a_name_and_only_some_are_worse(
    before: str | None, after: str | None
) -> None:
    old = of(*([("a", before)] if before else []))
    new = of(*([("a", after)] if after else []))
    found = compare.changes(old, new)
    assert len(found) == (before != after)
    assert bool(compare.worse(found)) == ((before, after) in WORSE)
    stricter = (before, after) in WORSE or (before, after) == PASSED
    assert bool(compare.worse(found, strict=True)) == stricter


def test_the_changes_are_printed_worst_first() -> None:
    old = of(("a", "fail"), ("b", "exact"), ("c", "exact"), ("d", "exact"))
    new = of(("a", "exact"), ("b", "fail"), ("c", "exact"), ("e", "exact"), rev=2)
    text = "\n".join(compare.lines(old, new, compare.changes(old, new)))
    heads = ["newly failing: 1", "vanished: 1", "fixed: 1", "appeared: 1", "rev changed: 3"]
    assert [line for line in text.splitlines() if re.fullmatch(r"[a-z ]+: \d", line)] == heads
    assert "b[eager]: exact -> fail" in text
    assert text.endswith("4 results before, 4 now, 1 with the same verdict")


def test_compare_tells_by_its_exit_code(
    run_broken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, none = (tmp_path / f"{name}.jsonl" for name in ("good", "bad", "none"))
    run_broken("--report", bad, *QUICK)
    results = [{**each, "verdict": "exact"} for each in reading.read(bad).results]
    lines.write(good, Report(reading.read(bad).header, tuple(results)))
    declined = [{**each, "verdict": "unsupported"} for each in results]
    lines.write(none, Report(reading.read(bad).header, tuple(declined)))
    capsys.readouterr()
    assert cli.main(["compare", str(good), str(good)]) == 0
    assert cli.main(["compare", str(bad), str(good)]) == 0
    assert "fixed: " in capsys.readouterr().out
    assert cli.main(["compare", str(good), str(bad)]) == 1
    assert "newly failing: " in capsys.readouterr().out
    assert cli.main(["compare", str(none), str(none)]) == 3
    assert "no applicable case" in capsys.readouterr().err


# Expected failures

QUICK = ["--id", "dequantize-int8-float32", "--id", "dequantize-uint8-float32", "--variant", "jit"]


def excuses(tmp_path: Path, value: object) -> list[str]:
    path = tmp_path / "expected.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return ["--expected-failures", str(path)]


def test_expected_failures_are_counted_apart(
    run_broken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_broken(*QUICK) == 1
    known = {f"dequantize-{name}-float32[jit]": "a known bug" for name in ("int8", "uint8")}
    path = tmp_path / "report.jsonl"
    capsys.readouterr()
    assert run_broken(*QUICK, "--report", path, *excuses(tmp_path, known)) == 3
    shown, complaint = capsys.readouterr()
    assert "FAIL" not in shown
    assert complaint == "dmlax-conformance: 0 values, needed 1\n"
    report = reading.read(path)
    assert report.footer["expected"] == report.footer["total"] == 2
    assert {(each["was"], each["reason"]) for each in report.results} == {("fail", "a known bug")}
    assert all(each["differs"] for each in report.results)


def test_an_expected_failure_that_does_not_fail_is_an_error(
    run_broken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = excuses(tmp_path, {"nonzero-int8-extremes[jit]": "once wrong"})
    assert run_broken("--id", "nonzero-int8-extremes", "--variant", "jit", *known) == 1
    assert "nonzero-int8-extremes[jit] is expected to fail, and is exact" in capsys.readouterr().err
    declined = excuses(tmp_path, {"nonzero-int64-high-word[jit]": "once wrong"})
    chosen = ["--operator", "nonzero_coordinates", "--flag", "WideType", "--variant", "jit"]
    assert run_broken(*chosen, *declined) == 1
    assert "and is unsupported" in capsys.readouterr().err


def test_an_expected_failure_that_was_not_run_is_no_error(
    run_broken: Callable[..., int], tmp_path: Path
) -> None:
    known = excuses(tmp_path, {"qconv-bias-each[jit]": "not asked for here"})
    assert run_broken("--id", "nonzero-int8-extremes", "--variant", "jit", *known) == 0


@pytest.mark.parametrize(
    "value",
    [
        {"no-such-vector[jit]": "reason"},
        {"an-id[later]": "reason"},
        {"an-id": "reason"},
        {"an-id[jit]": ""},
        {"an-id[jit]": "  "},
        {"an-id[jit]": None},
        '{"an-id[jit]": "one", "an-id[jit]": "two"}',
        ["an-id[jit]"],
        "not json",
    ],
)
def test_a_file_of_expected_failures_is_strict(value: object, tmp_path: Path) -> None:
    known = {"an-id[jit]", "an-id[eager]"}
    _, good = excuses(tmp_path, {"an-id[jit]": "reason"})
    assert expected.load(Path(good), known) == {"an-id[jit]": "reason"}
    _, bad = excuses(tmp_path, value)
    with pytest.raises(Malformed, match=re.escape(bad)):
        expected.load(Path(bad), known)


def test_a_wrong_file_of_expected_failures_stops_the_run(
    run_broken: Callable[..., int], tmp_path: Path
) -> None:
    assert run_broken(*QUICK, *excuses(tmp_path, {"no-such-vector[jit]": "reason"})) == 2
    assert run_broken(*QUICK, "--expected-failures", tmp_path / "none.json") == 2


def test_a_permitted_answer_can_be_excused_only_where_it_fails(
    broken_results: list[Result],
) -> None:
    first = replace(broken_results[0], outcome=Outcome("permitted", ("listed",)))
    reasons = {expected.key_of(first.vector.id, first.variant): "one off"}
    _, complaints = expected.apply([first], reasons, BAD)
    assert len(complaints) == 1
    (excused,), complaints = expected.apply([first], reasons, BAD | {"permitted"})
    assert (excused.verdict, complaints) == ("expected", [])
    assert lines.of_run([excused], "any").results[0]["was"] == "permitted"


# The page, as text; `test_page.py` looks at it in a browser


def embedded(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def test_the_page_holds_each_vector_once_and_every_result(
    report: Report, suite: list[Vector], broken_results: list[Result]
) -> None:
    data = embedded(html.page({"one": report, "two": report}, suite))
    assert len(data["vectors"]) == len({result.vector.id for result in broken_results})
    assert len(data["results"]) == 2 * len(report.results)
    assert [column["variant"] for column in data["columns"]] == ["eager", "jit"] * 2
    assert all("expect" in vector for vector in data["vectors"])
    for row, result in zip(data["results"], [*report.results] * 2, strict=True):
        assert data["vectors"][row[0]]["id"] == result["id"]
        assert data["verdicts"][row[2]] == result["verdict"]


def test_the_page_does_not_need_the_suite(report: Report) -> None:
    data = html.data({"one": report})
    shown = {vector["id"] for vector in data["vectors"] if "expect" in vector}
    bad = {r["id"] for r in report.results if r["verdict"] not in ("exact", "unsupported")}
    assert shown == bad


def test_a_vector_of_another_revision_is_not_shown_as_this_one(
    suite: list[Vector], broken_results: list[Result]
) -> None:
    exact = next(result for result in broken_results if result.verdict == "exact")
    later = [replace(vector, rev=vector.rev + 1) for vector in suite]
    data = html.data({"one": lines.of_run([exact], "any")}, later)
    assert "expect" not in data["vectors"][0]


def test_nothing_in_a_report_ends_the_script(broken_results: list[Result]) -> None:
    hostile = "</script><script>alert(1)</script><!-- & {{data}} \u2028"
    result = broken_results[0]
    vector = replace(result.vector, comment=hostile)
    report = lines.of_run([replace(result, vector=vector)], hostile)
    page = html.page({hostile: report})
    assert page.count("<script") == page.count("</script>") == 2
    assert embedded(page)["vectors"][0]["comment"] == hostile
    assert "<title>Conformance of &lt;/script&gt;" in page


def test_the_policy_lets_only_these_blocks_run(report: Report) -> None:
    page = html.page({"one": report})
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page.split('id="data"')[0])


def test_reports_of_one_implementation_are_told_apart(
    small: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name for name in ("old.jsonl", "new.jsonl")]
    for path in paths:
        lines.write(path, small)
    assert html.names(paths, [small, small]) == ["broken:Adapter (old)", "broken:Adapter (new)"]
    output = tmp_path / "page.html"
    assert cli.main(["html", *map(str, paths), "--output", str(output)]) == 0
    assert [each["name"] for each in embedded(output.read_text())["reports"]] == html.names(
        paths, [small, small]
    )
    assert cli.main(["html", str(paths[0]), str(paths[0]), "--output", str(output)]) == 2
    assert "different names" in capsys.readouterr().err


# The command `run`


def test_one_run_writes_all_three(run_broken: Callable[..., int], tmp_path: Path) -> None:
    paths = {name: tmp_path / f"out.{name}" for name in ("report", "junit", "html")}
    asked = [word for name, path in paths.items() for word in (f"--{name}", path)]
    assert run_broken(*QUICK, *asked) == 1
    report = reading.read(paths["report"])
    assert int(ElementTree.parse(paths["junit"]).getroot().get("failures", "")) == 2
    assert len(embedded(paths["html"].read_text())["results"]) == len(report.results) == 2


@pytest.mark.parametrize("option", ["--report", "--junit", "--html"])
def test_a_place_that_cannot_be_written_stops_the_run_before_it_starts(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run", lambda *arguments: pytest.fail("the run has started"))
    command = ["run", "--implementation", "oracle", option]
    assert cli.main([*command, str(tmp_path / "no" / "such" / "file")]) == 2
    assert cli.main([*command, str(tmp_path)]) == 2


# What the README says


def test_the_readme_says_what_is_so(tmp_path: Path, suite: list[Vector]) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert all(f"\n| {verdict} | " in text for verdict in VERDICTS)
    assert f"more\n  than {values.MOST} elements" in text
    assert f"{', '.join(compare.WORSE[:-1])} or {compare.WORSE[-1]};" in text.replace("\n", " ")
    (example,) = re.findall(r"```json\n(\{\"[a-z0-9-]+\[.*?)\n```", text)
    path = tmp_path / "expected.json"
    path.write_text(example)
    known = {expected.key_of(vector.id, "jit") for vector in suite}
    assert len(expected.load(path, known)) == 1
