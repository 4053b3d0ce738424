// Coordinates as a picture of the input: where rows are expected, and where they were found.

const STATES = {
  right: ["✓", "row where it belongs"],
  moved: ["⇄", "another row, or another place in the order"],
  missing: ["✗", "expected, not found"],
  extra: ["+", "found, not expected"],
};

/** Return the picture of a call of nonzero coordinates, or null where none helps. */
function coordinatePicture(vector, more) {
  const wanted = vector.expect?.outputs?.OutputCoordinatesTensor;
  const input = wanted && logicalInput(vector);
  if (!wordsOf(input) || !wordsOf(wanted) || !countOf(input.sizes)) return null;
  const width = wanted.sizes.at(-1);
  if (countOf(input.sizes.slice(0, -width)) !== 1 || width > input.sizes.length) return null;
  const want = rowsOf(wordsOf(wanted), width, wanted.rows);
  const have = foundRows(more, width) ?? want;
  const sizes = input.sizes.slice(-width);
  const [expected, found] = [placesOf(want, sizes), placesOf(have, sizes)];
  const states = range(countOf(sizes)).map((place) => stateOf(expected[place], found[place]));
  const seen = Object.entries(STATES).filter(([state]) => states.includes(state));
  return section("Picture of the input, with the number of each row",
    el("div", { class: "planes map" }, planesOf(sizes).map((own) =>
      planeTable(own, (place) => pictured(input, place, states[place], expected[place], found[place])))),
    el("ul", { class: "legend" }, seen.map(([state, [mark, about]]) =>
      el("li", {}, el("b", { class: state }, mark), about))),
    outside(have, sizes));
}

function pictured(input, place, state, expected, found) {
  const word = wordsOf(input)[place];
  const [mark, about] = STATES[state] ?? ["", ""];
  const number = state === "moved" ? `${expected}→${found}` : String(found ?? expected ?? "");
  const isZero = magnitude(input.dtype, word) === 0;
  return {
    text: `${mark} ${number}`.trim(),
    title: `value ${show(input.dtype, word)}${about && `: ${about}`}`,
    classes: `${state} ${isZero ? "zero" : "value"}`,
  };
}

/** Return the input as its sizes show it, gathered from its buffer if it is strided. */
function logicalInput(vector) {
  const input = vector.inputs?.InputTensor;
  const desc = vector.desc?.InputTensor;
  const words = wordsOf(input);
  if (!desc?.Strides || !words || String(input.sizes) === String(desc.Sizes)) return input;
  let places = [0];
  desc.Sizes.forEach((size, axis) => {
    places = places.flatMap((at) => range(size).map((step) => at + step * desc.Strides[axis]));
  });
  const key = input.bits ? "bits" : "data";
  return { dtype: input.dtype, sizes: desc.Sizes, [key]: places.map((at) => words[at]) };
}

const rowsOf = (words, width, rows) =>
  range(rows).map((row) => words.slice(row * width, (row + 1) * width).map(Number));

function foundRows(more, width) {
  const table = more.got?.OutputCoordinatesTensor;
  const words = wordsOf(table);
  if (!words || table.sizes.at(-1) !== width) return null;
  const count = Number(wordsOf(more.got.OutputCountTensor ?? {})?.[0] ?? 0);
  return rowsOf(words, width, Math.min(count, words.length / width));
}

const isOutside = (row, sizes) => row.some((at, axis) => at < 0 || at >= sizes[axis]);

function placesOf(rows, sizes) {
  const found = {};
  rows.forEach((row, number) => {
    if (isOutside(row, sizes)) return;
    const place = row.reduce((sum, at, axis) => sum * sizes[axis] + at, 0);
    (found[place] ??= []).push(number);
  });
  return found;
}

const stateOf = (want, have) => {
  if (!want || !have) return want ? "missing" : have ? "extra" : "";
  return String(want) === String(have) ? "right" : "moved";
};

function outside(rows, sizes) {
  const bad = rows.filter((row) => isOutside(row, sizes));
  const first = bad.slice(0, 5).map((row) => `{${row}}`).join(" ");
  return bad.length ? el("p", {}, `${plural(bad.length, "row")} outside the input: ${first}`) : null;
}
