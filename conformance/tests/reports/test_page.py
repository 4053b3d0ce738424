"""The HTML page in a real browser: Debian's Chromium, driven by Playwright."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.reports import html, lines, values
from dmlax_conformance.suite.runner import Result

pytestmark = pytest.mark.browser

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
HOSTILE = "<img src=x onerror=document.title='ran'></script><script>document.title='ran'</script>"
WRONG_ORDER = "nonzero-page-order"
FLOATS = "dequantize-int8-float32"

Page = Any
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return Chromium; without one the test fails, since it was asked for by its marker."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        pytest.fail("the page is tested in Chromium, and there is no program `chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(
    tmp_path_factory: pytest.TempPathFactory, broken_results: list[Result], suite: list[Vector]
) -> Path:
    """Return a page of two implementations, one of whose vectors tries to run a script."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    good = [replace(r, variant="eager") for r in broken_results if r.verdict == "exact"]
    first = {result.vector.id: result for result in reversed(good)}
    reports = {
        "broken:Adapter": lines.of_run([*map(_hostile, broken_results)], "broken:Adapter"),
        "good": lines.of_run([*first.values()], "good"),
    }
    html.write(path, reports, suite)
    return path


def _hostile(result: Result) -> Result:
    if result.vector.id != "nonzero-int8-extremes":
        return result
    outcome = replace(result.outcome, details=(HOSTILE,))
    return replace(result, vector=replace(result.vector, comment=HOSTILE), outcome=outcome)


@pytest.fixture
def show(browser: Any, file: Path) -> Iterator[Open]:
    """Return a function that opens the page; nothing may be requested, logged or thrown."""
    contexts, asked, complaints = [], [], []

    def open_page(fragment: str = "", scheme: str = "light", width: int = 1280) -> Page:
        size = {"width": width, "height": 900}
        context = browser.new_context(color_scheme=scheme, viewport=size)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert set(asked) == {file.as_uri()}
    assert complaints == []


def show_all(page: Page) -> None:
    """Leave the filter of failures, with which a page begins."""
    page.select_option("select[name=verdict]", "")


def cell(page: Page, row: str, column: int) -> Any:
    """Return the button of a cell, by the name of its row."""
    head = page.locator("th").filter(has_text=re.compile(f"^{re.escape(row)}"))
    rows = page.locator("#grid tbody tr").filter(has=head)
    return rows.first.locator("td").nth(column).locator("button")


def texts(locator: Any) -> list[str]:
    return [text.strip() for text in locator.all_inner_texts()]


def drawn(picture: Any, state: str) -> list[str]:
    """Return the texts of an SVG's cells of one state, in order."""
    found: list[str] = picture.locator(f"g.{state} text").all_text_contents()
    return found


def table(page: Page, title: str, output: str) -> list[str]:
    """Return the elements of one figure of one output."""
    own = page.locator(".output").filter(has=page.locator(f'h5:text-is("{output}")'))
    figure = own.locator("figure").filter(has=page.locator(f'b:text-is("{title}")'))
    return texts(figure.locator("tbody td"))


def totals_of(page: Page) -> dict[str, dict[str, int]]:
    """Return the numbers of the first table by implementation."""
    heads = [head.split()[-1] for head in texts(page.locator("#totals thead th"))][1:]
    rows = {}
    for row in page.locator("#totals tbody tr").all():
        name = row.locator("th").inner_text().splitlines()[0]
        rows[name] = dict(zip(heads, map(int, texts(row.locator("td"))[:-1]), strict=True))
    return rows


def test_the_totals_are_those_of_the_run_and_add_up(
    show: Open, broken_results: list[Result]
) -> None:
    totals = totals_of(show())
    assert list(totals) == ["broken:Adapter eager", "broken:Adapter jit", "good eager"]
    for numbers in totals.values():
        total, applicable = numbers.pop("total"), numbers.pop("applicable")
        assert sum(numbers.values()) == total
        assert total - numbers["unsupported"] == applicable > 0
    for variant in ("eager", "jit"):
        own = [r.verdict for r in broken_results if r.variant == variant]
        shown = totals[f"broken:Adapter {variant}"]
        assert {verdict: own.count(verdict) for verdict in shown} == shown


def test_a_cell_opens_the_vectors_that_it_counts(show: Open, broken_results: list[Result]) -> None:
    page = show()
    show_all(page)
    own = [
        result
        for result in broken_results
        if result.variant == "jit" and result.vector.operator == "nonzero_coordinates"
    ]
    text = cell(page, "nonzero_coordinates", 1).inner_text()
    counted = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", text)}
    verdicts = [result.verdict for result in own]
    assert counted == {verdict: verdicts.count(verdict) for verdict in set(verdicts)}
    cell(page, "nonzero_coordinates", 1).click()
    shown = page.locator("#list [role=option] b").all_inner_texts()
    assert sorted(shown) == sorted(result.vector.id for result in own)
    assert page.locator("#list [role=option]").first.inner_text().startswith("! error")
    page.locator("#close").click()
    assert not page.locator("#panel").is_visible()


def test_failures_come_first(show: Open, broken_results: list[Result]) -> None:
    page = show()
    failures = [result for result in broken_results if result.verdict in ("fail", "error")]
    assert page.locator("#matched").inner_text().startswith(f"{len(failures)} results of ")
    counts = Counter(result.vector.operator for result in failures)
    heads = texts(page.locator("#grid tr.whole th"))
    assert [counts[head] for head in heads] == sorted(counts.values(), reverse=True)
    page.select_option("select[name=order]", "name")
    assert texts(page.locator("#grid tr.whole th")) == sorted(counts)


def test_the_first_wrong_element_shows_its_operands(
    show: Open, broken_results: list[Result]
) -> None:
    wide = next(
        result.vector
        for result in broken_results
        if result.vector.operator == "element_wise_dequantize_linear"
        and result.vector.desc is None
        and values.first_differing(result.vector, result.outcome.answer)
    )
    page = show(f"#{wide.id}")
    operands = page.locator(".first details").first
    assert operands.locator("summary").inner_text().startswith("Operands of element [")
    names = texts(operands.locator("figcaption b"))
    assert names == list(wide.inputs)
    assert all(texts(figure.locator("td")) for figure in operands.locator("figure").all())


def test_totals_are_lines_on_a_narrow_page(show: Open) -> None:
    page = show(width=400)
    assert page.evaluate("byId('totals').offsetWidth") <= 400
    assert not page.locator("#totals thead").is_visible()
    assert page.locator("#totals td[data-head=fail]").first.is_visible()


def test_rows_are_data_types_features_topics_or_rules(show: Open) -> None:
    page = show()
    show_all(page)

    def rows() -> set[str]:
        heads = page.locator("#grid tbody th").all_inner_texts()
        return {head.splitlines()[0].strip() for head in heads}

    types = {"int8 → float32", "uint8 * int8 → int32", "other types, refused"}
    assert types <= rows()
    page.check("input[value=flags]")
    assert {"Tie", "PerChannel", "Strided"} <= rows()
    assert not types & rows()
    page.check("input[value=topic]")
    assert {"near-ties", "floats"} <= rows()
    assert "Tie" not in rows()
    page.check("input[value=clause]")
    assert "NZC-4" in rows()


def test_the_filters_leave_what_they_say(show: Open, broken_results: list[Result]) -> None:
    page = show()
    show_all(page)
    everything = page.locator("#matched").inner_text()
    page.select_option("select[name=verdict]", "error")
    errors = sum(result.verdict == "error" for result in broken_results)
    assert page.locator("#matched").inner_text().startswith(f"{errors} results of ")
    shown = " ".join(page.locator("#grid td button").all_inner_texts())
    assert set(re.findall(r"\d+ (\w+)", shown)) == {"error"}
    page.select_option("select[name=operator]", "nonzero_coordinates")
    heads = texts(page.locator("#grid tr.whole th"))
    assert heads == ["nonzero_coordinates"]
    page.fill("input[name=text]", "no such words")
    assert page.locator("#matched").inner_text() == "No result matches."
    assert page.locator("#grid tbody tr").count() == 0
    page.select_option("select[name=verdict]", "")
    page.fill("input[name=text]", "NZC-4 order")
    cell(page, "nonzero_coordinates", 0).click()
    assert WRONG_ORDER in page.locator("#list b").all_inner_texts()
    page.keyboard.press("Escape")
    page.fill("input[name=text]", "")
    page.select_option("select[name=operator]", "")
    assert page.locator("#matched").inner_text() == everything


def test_a_failing_vector_shows_its_difference(show: Open) -> None:
    page = show(f"#{WRONG_ORDER}")
    output = "OutputCoordinatesTensor"
    assert table(page, "Expected", output) == ["0", "5", "1", "0", "1", "2"]
    assert table(page, "Got", output) == ["1", "2", "1", "0", "0", "5"]
    assert table(page, "Difference", output) == ["+1", "-3", "·", "·", "-1", "+3"]
    details = page.locator("#vector .details").inner_text()
    assert "OutputCoordinatesTensor[0,0]: 1, not 0" in details
    assert page.locator("#vector td.wrong").count() == 3 * 4
    repeat = page.locator("#vector .repeat code").inner_text()
    assert repeat.endswith(f"--implementation broken:Adapter --variant eager --id {WRONG_ORDER}")
    words = page.locator("#vector dl").last.inner_text()
    assert "NZC-4" in words
    assert "Rows ascend by the row-major index of their element." in words


def test_coordinates_are_drawn_on_the_input(show: Open) -> None:
    page = show(f"#{WRONG_ORDER}")
    picture = page.locator("#vector .map svg")
    assert picture.locator("rect.value").count() == 3
    assert drawn(picture, "moved") == ["0→2", "2→0"]
    assert drawn(picture, "right") == ["1"]
    page.locator(".choices button").nth(1).click()
    assert drawn(picture, "right") == ["0", "1", "2"]
    assert page.locator("#vector td.wrong").count() == 0


def test_floats_differ_in_steps_of_their_type(show: Open) -> None:
    page = show(f"#{FLOATS}")
    wrong = table(page, "Difference", "OutputTensor")
    assert wrong
    assert set(wrong) == {"+1 ulp"}
    value = table(page, "Expected", "OutputTensor")[0]
    assert not value.startswith("0x")
    page.check("#bits")
    assert re.fullmatch("0x[0-9a-f]{8}", table(page, "Expected", "OutputTensor")[0])


def test_numbers_are_written_shortest(show: Open) -> None:
    page = show()
    for dtype, bits, text in [
        ("float32", "3dcccccd", "0.1"),
        ("float32", "00000001", "1e-45"),
        ("float32", "7f7fffff", "3.4028235e+38"),
        ("float32", "80000000", "-0"),
        ("float32", "7fc00000", "nan"),
        ("float32", "ff800000", "-inf"),
        ("float16", "3555", "0.3333"),
        ("float16", "0001", "6e-8"),
        ("float16", "7bff", "65500"),
        ("float64", "3fb999999999999a", "0.1"),
        ("float64", "0000000000000001", "5e-324"),
        ("complex64", "bf80000040000000", "2-1i"),
        ("int64", "9223372036854775807", "9223372036854775807"),
    ]:
        shown = page.evaluate("([dtype, bits]) => show(dtype, bits)", [dtype, bits])
        assert shown == text, (dtype, bits)
    assert page.evaluate("distance('uint64', '18446744073709551615', '0')") == (
        "-18446744073709551615"
    )
    assert page.evaluate("distance('float32', '80000001', '00000001')") == "+2 ulp"
    assert page.evaluate("distance('float32', '7fc00000', '00000001')") == "≠"


def test_every_vector_can_be_shown(show: Open) -> None:
    page = show()
    counts = page.evaluate(
        """() => RESULTS.map((result) => {
          chosen = result;
          showVector();
          return byId("vector").childElementCount;
        })"""
    )
    assert len(counts) > 1000
    assert min(counts) >= 5


def test_the_keyboard_is_enough(show: Open) -> None:
    page = show()
    show_all(page)
    focused = "document.activeElement"
    page.locator("#matched").evaluate("() => byId('filters').text.focus()")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.closest('table').id") == "grid"
    place = f"[{focused}.closest('tr').rowIndex, {focused}.closest('td').cellIndex]"
    assert page.evaluate(place) == [1, 1]
    for key, expected in [
        ("ArrowRight", [1, 2]),
        ("ArrowDown", [2, 2]),
        ("ArrowLeft", [2, 1]),
        ("ArrowUp", [1, 1]),
        ("ArrowUp", [1, 1]),
        ("End", [1, 3]),
        ("Home", [1, 1]),
        ("PageDown", [11, 1]),
        ("Control+Home", [1, 1]),
    ]:
        page.keyboard.press(key)
        assert page.evaluate(place) == expected, key
    assert page.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"
    assert page.locator("#grid tbody [tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    first = page.locator("#vector h3").inner_text()
    assert page.evaluate(f"{focused}.getAttribute('aria-selected')") == "true"
    page.keyboard.press("ArrowDown")
    assert page.locator("#vector h3").inner_text() != first
    page.keyboard.press("ArrowUp")
    assert page.locator("#vector h3").inner_text() == first
    for _ in range(3):  # the chosen vector, then its choices, of which the second is the last
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".choices [aria-pressed=true]").inner_text().endswith("jit")
    page.keyboard.press("Escape")
    assert not page.locator("#panel").is_visible()
    assert page.evaluate(place) == [1, 1]


def test_a_vector_has_an_address(show: Open) -> None:
    page = show(f"#{WRONG_ORDER}")
    assert page.locator("#panel").is_visible()
    assert page.locator("#vector h3").inner_text().startswith(WRONG_ORDER)
    page.keyboard.press("Escape")
    page.wait_for_function("location.hash === ''")
    page.evaluate(f"location.hash = '{FLOATS}'")
    page.locator(f"#vector h3:has-text('{FLOATS}')").wait_for()
    page = show("#no-such-vector")
    assert not page.locator("#panel").is_visible()


def test_a_refused_call_links_to_its_valid_twin(show: Open, broken_results: list[Result]) -> None:
    shown = [result.vector for result in broken_results]
    refused = (each for each in shown if not each.is_valid and each.desc is None)
    vector = next(each for each in refused if each.base in {other.id for other in shown})
    page = show(f"#{vector.id}")
    assert page.locator("#vector").get_by_text("A refusal:").is_visible()
    page.locator("#vector a").click()
    page.locator(f"#vector h3:has-text('{vector.base}')").wait_for()


LARGE = "nonzero-length-1071"


def test_the_first_wrong_elements_of_a_large_output_are_shown(
    show: Open, broken_results: list[Result]
) -> None:
    (result,) = (r for r in broken_results if (r.vector.id, r.variant) == (LARGE, "eager"))
    name = "OutputCoordinatesTensor"
    want, have = result.vector.expect[name], result.outcome.answer[name].reshape(-1)
    page = show(f"#{LARGE}")
    own = page.locator(".output").filter(has=page.locator(f'h5:text-is("{name}")'))
    rows = own.locator("figure.first tbody tr").all()
    wrong = [i for i, word in enumerate(want.words) if word != have[i]][:16]
    assert len(rows) == len(wrong) == 16
    for row, index in zip(rows, wrong, strict=True):
        words = want.words[index], int(have[index])
        place = f"[0, {index // 3}, {index % 3}]"
        shown = [place, *map(str, words), f"{words[1] - words[0]:+}"]
        assert [row.locator("th").inner_text(), *texts(row.locator("td"))] == [*shown[:3], shown[3]]


def test_light_and_dark_differ_and_can_be_chosen(show: Open) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = show(), show(scheme="dark")
    before = [light.evaluate(colour), dark.evaluate(colour)]
    assert before == ["rgb(255, 255, 255)", "rgb(20, 23, 28)"]
    for page in (light, dark):
        page.locator("#theme").click()
    assert [light.evaluate(colour), dark.evaluate(colour)] == before[::-1]
    assert light.locator("#theme").inner_text() == "Light theme"
    light.reload()
    assert light.evaluate(colour) == before[1]


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (...colours) => {
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (parts) => parts.map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    const colours = [];
    for (let own = element; own; own = own.parentElement) {
      colours.unshift(getComputedStyle(own).backgroundColor);
    }
    return rgb(getComputedStyle(document.body).backgroundColor, ...colours);
  };
  return [...document.querySelectorAll("#grid button span, #totals td, #vector td, #vector p, li")]
    .filter((element) => element.innerText?.trim() && element.checkVisibility())
    .map((element) => {
      const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(scheme: str, show: Open) -> None:
    for fragment in (f"#{WRONG_ORDER}", "#intconv-padding-end"):
        page = show(fragment, scheme=scheme)
        contrasts = page.evaluate(CONTRAST)
        assert len(contrasts) > 100
        assert min(contrasts) >= 4.5


def test_nothing_hostile_runs(show: Open) -> None:
    page = show("#nonzero-int8-extremes")
    assert page.locator("#vector .comment").inner_text() == HOSTILE
    assert page.locator("#list li .muted").inner_text() == HOSTILE
    assert HOSTILE in page.locator("#vector .details").inner_text()
    assert page.title().startswith("Conformance of")
    assert page.locator("img").count() == 0


def test_the_policy_stops_a_script_that_got_in(browser: Any, file: Path, tmp_path: Path) -> None:
    text = file.read_text(encoding="utf-8")
    injected = tmp_path / "page.html"
    script = "<script>document.title = 'ran'</script></body>"
    injected.write_text(text.replace("</body>", script), encoding="utf-8")
    page = browser.new_page()
    page.goto(injected.as_uri())
    assert page.locator("#grid button").count() > 30
    assert page.title().startswith("Conformance of")
    page.context.close()


def test_a_narrow_screen_scrolls_its_tables_only(show: Open) -> None:
    page = show(width=380)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
    show_all(page)
    cell(page, "nonzero_coordinates", 0).click()
    assert not page.evaluate(wide)
    box = page.locator("#vector").bounding_box()
    assert box["width"] > 300
    assert page.locator("#vector .outcome").is_visible()


def test_five_thousand_results_are_quick(
    browser: Any, tmp_path: Path, broken_results: list[Result]
) -> None:
    report = lines.of_run(broken_results, "broken")
    copies = {f"copy {number}": report for number in range(-(-5000 // len(report.results)))}
    path = tmp_path / "large.html"
    html.write(path, copies)
    assert path.stat().st_size < 20_000_000
    page = browser.new_page()
    page.goto(path.as_uri())
    count = page.evaluate("RESULTS.length")
    assert count >= 5000
    timed = (
        "() => { const start = performance.now(); showGrid(); return performance.now() - start }"
    )
    assert page.evaluate(timed) < 1000
    navigation = "JSON.stringify(performance.getEntriesByType('navigation')[0])"
    assert json.loads(page.evaluate(navigation))["domComplete"] < 5000
    page.context.close()
