"""Reports: what is written can be read back, adds up, and says what went wrong."""

import base64
import hashlib
import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
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
from dmlax_conformance.oracle import exact
from dmlax_conformance.oracle.calls import with_elements
from dmlax_conformance.paths import schema_file
from dmlax_conformance.reports import compare, expected, html, junit, lines, reading, values
from dmlax_conformance.reports.lines import Report
from dmlax_conformance.runner import repeat
from dmlax_conformance.runner import run as runner
from dmlax_conformance.runner.compare import Outcome
from dmlax_conformance.runner.run import VERDICTS, Result


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
    """Return the command `run` for the broken adapter, in this process and with known vectors."""
    monkeypatch.setattr(broken, "unasked", [], raising=False)
    monkeypatch.setattr(adapters, "started", lambda *_: nullcontext(broken))
    monkeypatch.setattr(vectors, "load_all", lambda *folder: suite)

    def run(*arguments: object) -> int:
        chosen = ("--implementation", "broken", "--max-shown", "0")
        return cli.main(["run", *chosen, *map(str, arguments)])

    return run


def test_a_report_reads_back_as_it_was_and_adds_up(report: Report, tmp_path: Path) -> None:
    schema = schema_file().with_name(f"{lines.FORMAT}.json").read_text(encoding="utf-8")
    assert schema == dumps(json.loads(schema))
    path = tmp_path / "report.jsonl"
    lines.write(path, report)
    assert reading.read(path) == report
    *_, footer = map(json.loads, path.read_text().splitlines())
    assert footer == report.footer
    assert {result["verdict"] for result in report.results} >= {"exact", "fail", "error"}
    assert footer["total"] == len(report.results) == sum(footer[name] for name in VERDICTS)
    assert footer["applicable"] == footer["total"] - footer["unsupported"] > 0


def test_a_failure_holds_its_values_as_the_suite_writes_them(
    report: Report, broken_results: list[Result]
) -> None:
    checked, strided = 0, 0
    for line, result in zip(report.results, broken_results, strict=True):
        if line["verdict"] in ("exact", "unsupported"):
            assert "got" not in line
            continue
        for name, tensor in result.vector.inputs.items():
            if {"data", "bits"} & line["inputs"][name].keys():
                assert tensors.decode(line["inputs"][name], "") == tensor
        for name, want in line["expect"].get("outputs", {}).items():
            have, (key,) = line["got"].get(name), {"data", "bits"} & want.keys() or {""}
            if have is None or key not in have:
                continue
            assert have["sizes"] == want["sizes"]
            pairs = zip(want[key], have[key], strict=want["compare"] != "exact_rows")
            wrong = [at for at, (a, b) in enumerate(pairs) if a != b and not are_nan(want, a, b)]
            assert wrong == line["differs"].get(name, [])
            checked += bool(wrong)
            strided += "desc" in line and bool(wrong)
    assert checked > 20
    assert strided


def are_nan(tensor: Any, *words: Any) -> bool:
    return "bits" in tensor and all(exact.is_nan(int(word, 16), tensor["dtype"]) for word in words)


def test_large_tensors_are_left_out_but_not_their_few_defined_rows(report: Report) -> None:
    key = ("nonzero-large-257x257", "eager")
    (line,) = (each for each in report.results if (each["id"], each["variant"]) == key)
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
    operators = {result.vector.operator for _, result in large}
    assert operators == {"nonzero_coordinates", "element_wise_dequantize_linear"}
    for first, result in large:
        ((name, places),) = first.items()
        want: Any = with_elements(result.vector).expect
        assert len(want[name].words) > values.MOST or result.vector.has_digests
        read = partial(int, base=16) if want[name].dtype.startswith("float") else int
        shown = [(x["index"], read(x["expected"]), read(x["got"])) for x in places]
        words = tensors.from_numpy(result.outcome.answer[name]).words
        places = enumerate(zip(want[name].words, words, strict=False))
        wrong = [(at, a, b) for at, (a, b) in places if a != b]
        assert shown == wrong[: values.FIRST]


def test_answers_of_other_kinds_are_written_too(suite: list[Vector]) -> None:
    vector = next(each for each in suite if each.id == "quantize-ties-int32")

    def line(answer: Any) -> Any:
        result = Result(vector, "eager", Outcome("fail", (), answer), 0.0)
        return lines.of_run([result], "any").results[0]

    assert line(None)["got"] == line([1, 2])["got"] == {}
    odd = line({"OutputTensor": "text", "Other": [1.5], "Ragged": [[1], [1, 2]]})
    assert odd["differs"] == {}
    assert odd["got"] == {
        "Other": {"dtype": "float64", "sizes": [1], "bits": ["3ff8000000000000"]},
        "OutputTensor": {"dtype": "str128", "sizes": []},
        "Ragged": {"dtype": "object", "sizes": []},
    }


Damage = Callable[[list[str]], list[str]]


def edited(number: int, **changes: Any) -> Damage:
    def edit(written: list[str]) -> list[str]:
        line = json.loads(written[number - 1]) | changes
        return [*written[: number - 1], json.dumps(line), *written[number:]]

    return edit


DAMAGE: dict[str, tuple[int, Damage]] = {  # the line that is named, and what is done to five lines
    "nothing left": (1, lambda _: []),
    "header only": (1, lambda x: x[:1]),
    "no footer": (4, lambda x: x[:-1]),
    "no header": (1, lambda x: x[1:]),
    "cut in a line": (3, lambda x: [*x[:2], x[2][:90]]),
    "a line lost": (4, lambda x: [*x[:2], *x[3:]]),
    "a line twice": (3, lambda x: [*x[:2], *x[1:]]),
    "more after the footer": (5, lambda x: [*x, x[1]]),
    "a blank line": (3, lambda x: [*x[:2], "", *x[2:]]),
    "not an object": (3, lambda x: [*x[:2], "[]", *x[2:]]),
    "a number that is none": (3, edited(3, seconds=float("nan"))),
    "another format": (1, edited(1, report="report-2")),
    "another kind": (2, edited(2, kind="remark")),
    "an unknown key": (3, edited(3, more=1)),
    "an unknown verdict": (3, edited(3, verdict="fine")),
    "an unknown variant": (3, edited(3, variant="later")),
    "a failure without values": (3, edited(3, verdict="fail")),
    "a reason without cause": (3, edited(3, reason="why not")),
    "sums of others": (5, edited(5, total=4)),
    "sums that hide a failure": (5, edited(5, exact=0, fail=3)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_report_is_refused_by_line(name: str, small: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.jsonl"
    lines.write(path, only_exact(small))
    reading.read(path)
    number, damage = DAMAGE[name]
    path.write_text("".join(f"{line}\n" for line in damage(path.read_text().splitlines())))
    with pytest.raises(Malformed) as caught:
        reading.read(path)
    assert (caught.value.position, caught.value.file) == (f"line {number}", str(path))
    assert cli.main(["compare", str(path), str(path)]) == 3
    assert cli.main(["html", str(path), "--output", str(tmp_path / "page.html")]) == 3
    path.write_bytes(b"\xff\xfe")
    for wrong in (path, tmp_path / "none.jsonl"):
        with pytest.raises(Malformed):
            reading.read(wrong)


def only_exact(report: Report) -> Report:
    evidence = ("attributes", "inputs", "outputs", "expect", "got", "differs")
    results = [{k: v for k, v in each.items() if k not in evidence} for each in report.results]
    return Report(report.header, tuple(each | {"verdict": "exact"} for each in results))


def test_the_command_repeats_a_result() -> None:
    start = repeat.start_of_command("a module:Class", Path("/a folder"), 2.5)
    assert repeat.command(start, "a variant", "an-id") == (
        "dmlax-conformance run --implementation 'a module:Class' --vectors '/a folder' "
        "--time-limit 2.5 --variant 'a variant' --id an-id"
    )
    again = repeat.command(repeat.start_of_command("nothing"), "eager", "quantize-ties-int32")
    assert cli.main(shlex.split(again)[1:]) == 1


BAD = frozenset({"fail", "error"})
JUNIT = Path(__file__).with_name("junit.xml")


def test_junit_has_the_form_that_tools_read(report: Report, tmp_path: Path) -> None:
    facts = {"implementation": "mine", "suite": 1, "python": 3, "machine": "M"}
    usual = {"variant": "jit", "topic": "ties", "comment": "why", "seconds": 0.5, "operator": "a"}
    usual["valid"] = True
    verdicts = {"permitted": "listed", "fail": "Y: 1, not 0", "error": "</script> & \x00"}
    verdicts |= {"expected": "once", "unsupported": "no int8"}
    results = [
        {"id": f"{number}", **usual, "verdict": verdict, "details": [text], "reason": "known"}
        for number, (verdict, text) in enumerate(verdicts.items(), 1)
    ]
    mine = Report({**facts, "repeat": "run mine"}, tuple(results))
    path = tmp_path / "junit.xml"
    junit.write(path, mine, BAD)
    assert f"{path.read_text()}\n" == JUNIT.read_text()
    assert junit.root(mine, BAD | {"permitted"}).get("failures") == "2"
    root = junit.root(report, BAD)
    assert [suite.get("name") for suite in root] == sorted({r["operator"] for r in report.results})
    assert len([*root.iter("testcase")]) == len(report.results)


def of(*verdicts: tuple[str, str], rev: int = 1) -> Report:
    """Return a report of ids and verdicts."""
    header = {"kind": "header", "variants": ["eager"], **dict.fromkeys(compare.FACTS, "same")}
    usual = {"variant": "eager", "details": [], "rev": rev}
    return Report(header, tuple({"id": i, "verdict": v, **usual} for i, v in verdicts))


PASSED = ("exact", "permitted")
WORSE = {
    *itertools.product((*PASSED, "expected", "unsupported"), ("fail", "error")),
    *itertools.product((*PASSED, "unsupported"), ["expected"]),
    *itertools.product(PASSED, ["unsupported"]),
    *((verdict, None) for verdict in VERDICTS),
    (None, "fail"),
    (None, "error"),
}


def test_every_change_has_a_name_and_only_some_are_worse() -> None:
    for before, after in itertools.product((*VERDICTS, None), repeat=2):
        old, new = (of(*([("a", verdict)] if verdict else [])) for verdict in (before, after))
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
    assert re.findall(r"^[a-z ]+: \d$", text, re.MULTILINE) == heads
    assert "b[eager]: exact -> fail" in text
    assert text.endswith("4 results before, 4 now, 1 with the same verdict")


def test_compare_tells_by_its_exit_code(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = Report(report.header, tuple(r for r in report.results if r["verdict"] == "fail")[:3])
    passed = only_exact(failed)
    declined = tuple({**each, "verdict": "unsupported"} for each in passed.results)
    reports = {"good": passed, "bad": failed, "none": Report(report.header, declined)}
    paths = {name: str(tmp_path / name) for name in reports}
    for name, each in reports.items():
        lines.write(Path(paths[name]), each)
    for old, new, code, text in [
        ("good", "good", 0, "3 with the same verdict"),
        ("bad", "good", 0, "fixed: 3"),
        ("good", "bad", 1, "newly failing: 3"),
        ("none", "none", 3, "no applicable case"),
    ]:
        assert cli.main(["compare", paths[old], paths[new]]) == code
        assert text in "".join(capsys.readouterr())


QUICK = ["--id", "dequantize-int8-float32", "--id", "dequantize-uint8-float32", "--variant", "jit"]


def excuses(tmp_path: Path, value: object) -> list[str]:
    path = tmp_path / "expected.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return ["--expected-failures", str(path)]


def test_expected_failures_are_counted_apart(
    run_broken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {f"dequantize-{name}-float32[jit]": "a known bug" for name in ("int8", "uint8")}
    path = tmp_path / "report.jsonl"
    assert run_broken(*QUICK, "--report", path, *excuses(tmp_path, known)) == 3
    shown, complaint = capsys.readouterr()
    assert "FAIL" not in shown
    assert complaint == "dmlax-conformance: 0 values, needed 1\n"
    report = reading.read(path)
    assert report.footer["expected"] == report.footer["total"] == 2
    assert {(each["was"], each["reason"]) for each in report.results} == {("fail", "a known bug")}
    assert all(each["differs"] for each in report.results)


def test_an_excuse_for_what_does_not_fail_is_an_error(
    run_broken: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for known, chosen, code, said in [
        ("nonzero-int8-extremes", "nonzero-int8-extremes", 1, "to fail, and is exact"),
        ("nonzero-int64-high-word", "nonzero-int64-high-word", 1, "and is unsupported"),
        ("qconv-bias-each", "nonzero-int8-extremes", 0, ""),
        ("no-such-vector", "nonzero-int8-extremes", 2, "expected failures: "),
    ]:
        options = excuses(tmp_path, {f"{known}[jit]": "once wrong"})
        assert run_broken("--id", chosen, "--variant", "jit", *options) == code
        assert said in capsys.readouterr().err


def test_a_file_of_expected_failures_is_strict(tmp_path: Path) -> None:
    known = {"an-id[jit]", "an-id[eager]"}
    _, path = excuses(tmp_path, {"an-id[jit]": "reason"})
    assert expected.load(Path(path), known) == {"an-id[jit]": "reason"}
    for wrong in [
        *({"no-such-vector[jit]": "reason"}, {"an-id[later]": "reason"}, {"an-id": "reason"}),
        *({"an-id[jit]": ""}, {"an-id[jit]": "  "}, {"an-id[jit]": None}),
        *('{"an-id[jit]": "one", "an-id[jit]": "two"}', ["an-id[jit]"], "not json"),
    ]:
        excuses(tmp_path, wrong)
        with pytest.raises(Malformed, match=re.escape(path)):
            expected.load(Path(path), known)


def test_a_permitted_answer_can_be_excused_only_where_it_fails(
    broken_results: list[Result],
) -> None:
    first = replace(broken_results[0], outcome=Outcome("permitted", ("listed",)))
    reasons = {expected.key_of(first.vector.id, first.variant): "one off"}
    assert len(expected.apply([first], reasons, BAD)[1]) == 1
    (excused,), complaints = expected.apply([first], reasons, BAD | {"permitted"})
    assert (excused.verdict, complaints) == ("expected", [])
    assert lines.of_run([excused], "any").results[0]["was"] == "permitted"


def failures_of(page: str) -> list[str]:
    """Return the ids of the failures that a page shows, in order."""
    return re.findall(r'<article id="([^"]+)">', page)


def test_the_page_has_the_totals_and_the_failures_in_order(
    report: Report, suite: list[Vector]
) -> None:
    page = html.page({"one": report, "two": report}, suite)
    for variant in report.header["variants"]:
        own = [result for result in report.results if result["variant"] == variant]
        sums = Report(report.header, tuple(own)).footer
        shown = [verdict for verdict in VERDICTS if report.footer[verdict]]
        cells = (sums["total"], sums["applicable"], *(sums[verdict] for verdict in shown))
        row = "".join(f"<td>{number}</td>" for number in cells)
        assert f'<th scope="row">two {variant}</th>{row}' in page
    failed = [each for each in report.results if each["verdict"] in compare.FAILED]
    failed = runner.in_turns(failed, lines.rank, lambda result: result["operator"])
    first = [each for each in failed if lines.rank(each) == lines.rank(failed[0])]
    operators = {each["operator"] for each in first}
    assert len(operators) > 1
    assert {each["operator"] for each in first[: len(operators)]} == operators  # they take turns
    shown = re.findall(r"<h3>. (\S+) ", page)
    assert shown == 2 * [result["id"] for result in failed[: html.MOST]]
    assert failures_of(page) == [*dict.fromkeys(shown)]  # an id is the address of its first failure
    assert {"wrong value", "error"} <= {*map(lines.kind, failed)} <= {*runner.KINDS}
    refusal = {"verdict": "fail", "valid": False, "details": []}
    assert lines.kind(refusal) == "wrong refusal"
    unproved = {"verdict": "fail", "valid": True, "details": [runner.BESIDE]}
    assert lines.kind(unproved) == "unproved answer"
    wrong = [each for each in failed if lines.kind(each) in ("wrong value", "error")]
    assert max(map(lines.rank, wrong)) < lines.rank(refusal) < lines.rank(unproved)
    assert page.count(f": {runner.totals(Counter(map(lines.kind, failed)))}</h2>") == 2
    own = ("nonzero_coordinates", "eager", "fail")
    bad = sum((r["operator"], r["variant"], r["verdict"]) == own for r in failed)
    row = page.split('<th scope="row">nonzero_coordinates</th>')[1].split("</tr>")[0]
    assert row.count(f">✗ {bad} fail</span>") == 2
    for kind in html.ROWS_OF:
        assert f"<summary>by {kind}</summary>" in page


def test_a_failure_has_its_numbers_and_their_operands(report: Report, suite: list[Vector]) -> None:
    articles = {}
    ids = ("nonzero-page-order", "dequantize-elements-999")
    report = Report(report.header, tuple(r for r in report.results if r["id"] in ids))
    for article in html.page({"one": report}, suite).split("<article")[1:]:
        articles.setdefault(re.findall(r"<h3>. (\S+) ", article)[0], article)
    order = articles["nonzero-page-order"]
    assert "<td>0</td><td>1</td>" in order
    assert re.search(
        r"<h4>OutputCoordinatesTensor uint32 [^:]*: \d+ of \d+ elements differ</h4>", order
    )
    assert "<li>OutputCoordinatesTensor[" not in order  # the table has the elements
    assert "Repeat: <code>dmlax-conformance run --implementation broken:Adapter --variant" in order
    large = articles["dequantize-elements-999"]
    assert "<summary>Operands of element [0, 0]</summary>" in large
    assert len(re.findall(r'<span class="muted">\w+Tensor \[', large)) >= 3
    assert re.search(r"\(0x[0-9a-f]{8}\)", large)
    assert "Operands of" not in html.page({"one": report})  # the vectors are not known


@pytest.mark.parametrize("size", [4, 256, 257])
def test_a_tensor_of_few_elements_is_shown_however_it_is_written(size: int) -> None:
    recipe = {"name": "splitmix64", "seed": "1", "low": 7, "high": 7, "one_in": 1}
    shown = html._figure("x", {"dtype": "int8", "sizes": [size], "recipe": recipe})
    assert shown.count("7") - shown.split("</figcaption>")[0].count("7") == size * (size <= 256)


def test_nothing_in_a_report_is_markup_and_no_script_runs(broken_results: list[Result]) -> None:
    hostile = '</title><script>alert(1)</script><!-- & " {{data}}'
    (wrong, *_) = (r for r in broken_results if r.verdict == "fail")
    wrong = replace(
        wrong,
        vector=replace(wrong.vector, comment=hostile),
        outcome=replace(wrong.outcome, details=(hostile,)),
    )
    page = html.page({hostile: lines.of_run([wrong], hostile)})
    assert "<script" not in page
    assert page.count("<title>") == page.count("</title>") == 1
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"
    assert not re.search("https?://", page)


def test_reports_of_one_implementation_are_told_apart(
    small: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, output = (str(tmp_path / name) for name in ("old.jsonl", "new.jsonl", "page.html"))
    lines.write(Path(old), small)
    lines.write(Path(new), small)
    assert cli.main(["html", old, new, "--output", output]) == 0
    title = "Conformance of broken:Adapter (old), broken:Adapter (new)"
    assert f"<title>{title}</title>" in Path(output).read_text()
    assert cli.main(["html", old, old, "--output", output]) == 2
    assert "different names" in capsys.readouterr().err


def test_one_run_writes_all_three(run_broken: Callable[..., int], tmp_path: Path) -> None:
    asked = [f"--{name}={tmp_path / name}" for name in ("report", "junit", "html")]
    assert run_broken(*QUICK, *asked) == 1
    assert len(reading.read(tmp_path / "report").results) == 2
    assert ElementTree.parse(tmp_path / "junit").getroot().get("failures") == "2"
    assert len(failures_of((tmp_path / "html").read_text())) == 2


def test_a_place_that_cannot_be_written_stops_the_run_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run", lambda *arguments: pytest.fail("the run has started"))
    for option in ("--report", "--junit", "--html"):
        for place in (tmp_path, tmp_path / "no" / "such" / "file"):
            assert cli.main(["run", "--implementation", "oracle", option, str(place)]) == 2
