"""The HTML page in Chromium, which a script in the page drives: it reports what it sees as JSON."""

import html as text
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.reports import html, lines
from dmlax_conformance.runner.run import Result

pytestmark = pytest.mark.browser

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--virtual-time-budget=60000", "--dump-dom"),
)
HOSTILE = "<img src=x onerror=document.title='ran'></script><script>document.title='ran'</script>"
WRONG_ORDER, FLOATS, LARGE = "nonzero-page-order", "dequantize-int8-float32", "nonzero-length-1071"
SCRIPT = "<script>document.title = 'ran'</script>"  # the page's policy does not let it run
ROWS = "OutputCoordinatesTensor"
DRIVER = (Path(__file__).parent / "page_driver.js").read_text(encoding="utf-8")

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def results(broken_results: list[Result]) -> list[Result]:
    """Return results, one of whose vectors tries to run a script."""

    def hostile(result: Result) -> Result:
        vector = replace(result.vector, comment=HOSTILE)
        return replace(result, vector=vector, outcome=replace(result.outcome, details=(HOSTILE,)))

    return [hostile(r) if r.vector.id == "nonzero-int8-extremes" else r for r in broken_results]


@pytest.fixture
def look(tmp_path: Path, results: list[Result], suite: list[Vector]) -> Run:
    """Return a function that runs statements in the page, and returns what they return."""
    good = [replace(r, variant="eager") for r in reversed(results) if r.verdict == "exact"]
    first = {result.vector.id: result for result in good}
    reports = {
        "broken:Adapter": lines.of_run(results, "broken:Adapter"),
        "good": lines.of_run([*first.values()], "good"),
    }
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("the page is tested in Chromium, and there is no program `chromium`")

    def run(statements: str, window: str = "1280,900") -> Any:
        part, driver = html._part, DRIVER.replace("STATEMENTS", statements)
        path = tmp_path / "page.html"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(html, "_part", lambda n: part(n) + (driver if n == "main.js" else ""))
            page = html.page(reports, suite).replace("</body>", f"{SCRIPT}</body>")
        path.write_text(page, encoding="utf-8")
        command = [program, *ARGUMENTS, f"--window-size={window}", path.as_uri()]
        dumped = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        (found,) = re.findall(r'<pre id="out">(.*?)</pre>', dumped.stdout, re.DOTALL)
        answer = json.loads(text.unescape(found))
        assert answer["title"].startswith("Conformance of")
        assert answer["errors"] == []
        return answer["out"]

    return run


def test_the_totals_and_the_cells_are_those_of_the_run(look: Run, results: list[Result]) -> None:
    rows, failures, heads, text, listed = look("""
      const rows = all("#totals tbody tr").map((tr) => texts("th, td", tr));
      const heads = texts("#grid tr.whole th");
      const failures = textOf(byId("matched"));
      filter("verdict", "");
      const text = textOf(cell("nonzero_coordinates", 1));
      cell("nonzero_coordinates", 1).click();
      return [rows, failures, heads, text, texts("#list li")];
    """)
    for row, variant in zip(rows, ("eager", "jit"), strict=False):
        sums = lines.of_run([r for r in results if r.variant == variant], "").footer
        assert row[0].startswith(f"broken:Adapter {variant}")
        names = ("total", "applicable", "exact", "permitted", "fail", "error", "expected")
        assert [int(n) for n in row[1:9]] == [*map(sums.get, names), sums["unsupported"]]
    bad = Counter(r.vector.operator for r in results if r.verdict in ("fail", "error"))
    assert failures.startswith(f"{bad.total()} results of ")
    assert [bad[head] for head in heads] == sorted(bad.values(), reverse=True)
    own = [r for r in results if (r.variant, r.vector.operator) == ("jit", "nonzero_coordinates")]
    counted = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", text)}
    assert counted == Counter(r.verdict for r in own)
    assert sorted(item.split()[2] for item in listed) == sorted(r.vector.id for r in own)
    assert listed[0].startswith("! error")


def test_rows_and_filters(look: Run, results: list[Result]) -> None:
    rows, errors, verdicts, operators, nothing, found = look("""
      const rows = ["types", "flags", "topic", "clause"].map((by) => {
        filter("verdict", "");
        filter("rows", by);
        return texts("#grid tbody th").map((head) => head.split("\\n")[0].trim());
      });
      filter("verdict", "error");
      const errors = textOf(byId("matched")), verdicts = texts("#grid td button").join(" ");
      filter("operator", "nonzero_coordinates");
      const operators = texts("#grid tr.whole th");
      filter("text", "no such words");
      const nothing = [textOf(byId("matched")), all("#grid tbody tr").length];
      filter("verdict", "");
      filter("text", "NZC-4 order");
      cell("nonzero_coordinates", 0).click();
      return [rows, errors, verdicts, operators, nothing, texts("#list b")];
    """)
    types = {"int8 → float32", "uint8 * int8 → int32", "other types, refused"}
    for heads, some in zip(rows, (types, {"Tie", "Strided"}, {"floats"}, {"NZC-4"}), strict=True):
        assert some <= set(heads)
    assert not types & set(rows[1])
    assert errors.startswith(f"{sum(r.verdict == 'error' for r in results)} results of ")
    assert set(re.findall(r"\d+ (\w+)", verdicts)) == {"error"}
    assert (operators, nothing) == (["nonzero_coordinates"], ["No result matches.", 0])
    assert WRONG_ORDER in found


NUMBERS = [  # a type, its words, and how the page shows them
    *("float32 3dcccccd 0.1", "float32 00000001 1e-45", "float32 7f7fffff 3.4028235e+38"),
    *("float32 80000000 -0", "float32 7fc00000 nan", "float16 3555 0.3333"),
    *("float16 0001 6e-8", "float16 7bff 65500", "float64 3fb999999999999a 0.1"),
    *("float64 0000000000000001 5e-324", "float64 fff0000000000000 -inf"),
    *("complex64 bf80000040000000 2-1i", "int64 9223372036854775807 9223372036854775807"),
    "uint64 18446744073709551615 0 -18446744073709551615",
    *("float32 80000001 00000001 +2\xa0ulp", "float32 7fc00000 00000001 ≠"),
]
SEEN: dict[str, tuple[str, Any]] = {  # statements, and what they return
    "a failing vector shows its difference and a picture": (
        f"""
      visit("{WRONG_ORDER}");
      const tables = ["Expected", "Got", "Difference"].map((t) => cells(t, "{ROWS}").join(" "));
      const seen = [all("#vector td.wrong").length, said(".repeat code").split(" ").slice(2),
        texts("#vector dl").at(-1).includes("Rows ascend by the row-major index"),
        said(".details").includes("{ROWS}[0,0]: 1, not 0"),
        all(".map td.value").length, drawn("moved"), drawn("right")];
      all(".choices button")[1].click();
      return [...tables, ...seen, drawn("right"), all("#vector td.wrong").length];
        """,
        [
            *("0 5 1 0 1 2", "1 2 1 0 0 5", "+1 -3 · · -1 +3", 3 * 4),
            f"--implementation broken:Adapter --variant eager --id {WRONG_ORDER}".split(),
            *(True, True, 3, ["0→2", "2→0"], ["1"], ["0", "1", "2"], 0),
        ],
    ),
    "numbers are shortest and differ in steps of their type": (
        f"""return {json.dumps(NUMBERS)}.map((text) => {{
        const words = text.split(" ").slice(0, -1);
        return [...words, words.length < 3 ? show(...words)
          : distance(...words).replace(" ", "\xa0")].join(" ");
      }});""",
        NUMBERS,
    ),
    "floats have bits": (
        f"""
      visit("{FLOATS}");
      const [wrong, plain] = ["Difference", "Expected"].map((t) => cells(t, "OutputTensor"));
      byId("bits").click();
      const bits = cells("Expected", "OutputTensor")[0];
      return [[...new Set(wrong)], plain[0].startsWith("0x"), /^0x[0-9a-f]{{8}}$/.test(bits)];
        """,
        [["+1 ulp"], False, True],
    ),
    "the first wrong elements of a large output are shown": (
        f"""
      visit("{LARGE}");
      const rows = all("figure.first tbody tr", outputs("{ROWS}"))
        .map((tr) => texts("th, td", tr).join(" "));
      visit("dequantize-elements-999");
      const operands = part(".first details");
      return [rows.length, ...rows.slice(0, 2), textOf(operands.querySelector("summary")),
        texts("figcaption b", operands).join(" "),
        all("figure", operands).every((figure) => texts("td", figure).length)];
        """,
        [
            *(16, "[0, 0, 0] 0 2 +2", "[0, 0, 1] 0 16 +16", "Operands of element [0, 0]"),
            *("InputTensor ScaleTensor ZeroPointTensor", True),
        ],
    ),
    "the keyboard is enough": (
        """
      filter("verdict", "");
      const at = () => {
        const { activeElement: own } = document;
        return `${own.closest("tr").rowIndex},${own.closest("td").cellIndex}`;
      };
      grid.querySelector("tbody [tabindex='0']").focus();
      const arrows = ["Right", "Down", "Left", "Up", "Up"].map((name) => `Arrow${name}`);
      const places = [at(), ...[...arrows, "End", "Home", "PageDown"]
        .map((key) => { press(key); return at(); })];
      press("Home", { ctrlKey: true });
      const outline = getComputedStyle(document.activeElement).outlineStyle;
      const seen = [[...places, at()].join(" "), ["solid", "auto"].includes(outline),
        all("#grid tbody [tabindex='0']").length];
      document.activeElement.click();
      seen.push(document.activeElement.getAttribute("aria-selected"));
      const first = said("h3");
      const isFirst = (key) => { press(key); return said("h3") === first; };
      const moved = ["ArrowDown", "ArrowUp"].map(isFirst);
      all(".choices button")[1].click();
      seen.push(moved, textOf(document.activeElement).endsWith("jit"));
      byId("close").click();
      return [...seen, panel.open];
        """,
        ["1,1 1,2 2,2 2,1 1,1 1,1 1,3 1,1 11,1 1,1", True, 1, "true", [False, True], True, False],
    ),
    "nothing hostile runs": (  # neither what a report says nor a script that is added to the file
        """
      visit("nonzero-int8-extremes");
      return [said(".comment"), texts("#list li .muted")[0], said(".details"),
        all("img").length, all("#grid button").length > 30];
        """,
        [HOSTILE, HOSTILE, HOSTILE, 0, True],
    ),
    "a narrow screen scrolls its tables only": (
        """
      const { documentElement: root } = document;
      const isWide = () => root.scrollWidth > root.clientWidth;
      const seen = [isWide(), byId("totals").offsetWidth <= 500,
        all("#totals thead").some((head) => head.checkVisibility()),
        byId("totals").querySelector("td[data-head=fail]").checkVisibility()];
      filter("verdict", "");
      cell("nonzero_coordinates", 0).click();
      return [...seen, isWide(), wide(".outcome") > 250];
        """,
        [False, True, False, True, False, True],
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_a_person_sees(name: str, look: Run) -> None:
    statements, seen = SEEN[name]
    assert look(statements, "500,900" if "narrow" in name else "1280,900") == seen


def test_every_vector_can_be_shown_and_quickly(look: Run) -> None:
    least, grid, count, large = look("""
      const start = performance.now();
      showGrid();
      const grid = performance.now() - start;
      const counts = RESULTS.map((result) => {
        chosen = result;
        showVector();
        return byId("vector").childElementCount;
      });
      return [Math.min(...counts), grid, counts.length, document.body.innerHTML.length];
    """)
    assert (least >= 5, grid < 1000, count > 1000, large < 20_000_000) == (True,) * 4


def test_a_vector_has_an_address_and_a_twin(look: Run, results: list[Result]) -> None:
    known = {result.vector.id for result in results}
    refused = (r.vector for r in results if not r.vector.is_valid and r.vector.desc is None)
    vector = next(each for each in refused if each.base in known)
    seen = look(f"""
      visit("{vector.id}");
      const seen = [location.hash, said("h3").split(/\\s/)[0], part("a").getAttribute("href"),
        textOf(byId("vector")).includes("A refusal:")];
      panel.close();
      openVector("no-such-vector");
      return [...seen, panel.open];
    """)
    assert seen == [f"#{vector.id}", vector.id, f"#{vector.base}", True, False]


@pytest.mark.parametrize(
    ("theme", "other", "colour"),
    [("light", "Dark", "rgb(255, 255, 255)"), ("dark", "Light", "rgb(20, 23, 28)")],
)
def test_a_theme_can_be_chosen_and_text_stands_out(
    theme: str, other: str, colour: str, look: Run
) -> None:
    for id_ in (WRONG_ORDER, "intconv-padding-end"):
        label, back, contrasts = look(f"""
          if (textOf(byId("theme")) === "{theme.title()} theme") byId("theme").click();
          visit("{id_}");
          const back = getComputedStyle(document.body).backgroundColor;
          return [textOf(byId("theme")), back, contrasts()];
        """)
        assert (label, back) == (f"{other} theme", colour)
        assert len(contrasts) > 100
        assert min(contrasts) >= 4.5
