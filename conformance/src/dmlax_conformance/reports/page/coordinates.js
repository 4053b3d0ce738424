"use strict";
// Coordinates as a picture of the input: where rows are expected, and where they were found.

const CELL = 36;
const STATES = {
  right: "row where it belongs",
  moved: "another row, or another place in the order",
  missing: "expected, not found",
  extra: "found, not expected",
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
  const states = [...Array(countOf(sizes)).keys()].map((place) => stateOf(expected[place], found[place]));
  return el("section", {},
    el("h4", {}, "Picture of the input, with the number of each row"),
    el("div", { class: "planes" }, planesOf(sizes).map((own) =>
      el("figure", { class: "map" }, own.label ? el("figcaption", {}, own.label) : null,
        drawn(own, input, states, expected, found)))),
    legendOf(states),
    outside(have, sizes));
}

/** Return the input as its sizes show it, gathered from its buffer if it is strided. */
function logicalInput(vector) {
  const input = vector.inputs?.InputTensor;
  const desc = vector.desc?.InputTensor;
  const words = wordsOf(input);
  if (!desc?.Strides || !words || String(input.sizes) === String(desc.Sizes)) return input;
  let places = [0];
  desc.Sizes.forEach((size, axis) => {
    places = places.flatMap((at) => [...Array(size).keys()].map((step) => at + step * desc.Strides[axis]));
  });
  const key = input.bits ? "bits" : "data";
  return { dtype: input.dtype, sizes: desc.Sizes, [key]: places.map((at) => words[at]) };
}

const rowsOf = (words, width, rows) =>
  [...Array(rows).keys()].map((row) => words.slice(row * width, (row + 1) * width).map(Number));

function foundRows(more, width) {
  const table = more?.got?.OutputCoordinatesTensor;
  const words = wordsOf(table);
  if (!words || table.sizes.at(-1) !== width) return null;
  const count = Number(wordsOf(more.got.OutputCountTensor ?? {})?.[0] ?? 0);
  return rowsOf(words, width, Math.min(count, words.length / width));
}

function placesOf(rows, sizes) {
  const found = {};
  rows.forEach((row, number) => {
    if (row.some((at, axis) => at < 0 || at >= sizes[axis])) return;
    const place = row.reduce((sum, at, axis) => sum * sizes[axis] + at, 0);
    (found[place] ??= []).push(number);
  });
  return found;
}

function stateOf(want, have) {
  if (!want && !have) return "";
  if (!have) return "missing";
  if (!want) return "extra";
  return String(want) === String(have) ? "right" : "moved";
}

function drawn({ heads, rows }, input, states, expected, found) {
  const words = wordsOf(input);
  const zero = (word) => magnitude(input.dtype, word) === 0;
  const size = { width: heads.length * CELL + 2, height: rows.length * CELL + 2 };
  const picture = svg("svg", { ...size, viewBox: `-1 -1 ${size.width} ${size.height}`, role: "img" });
  picture.append(svg("title", {}, `${rows.length} by ${heads.length} elements`));
  rows.forEach(({ places }, down) => places.forEach((place, across) => {
    const [x, y] = [across * CELL, down * CELL];
    const label = { right: found[place], extra: found[place], missing: expected[place] }[states[place]];
    const text = states[place] === "moved" ? `${expected[place]}→${found[place]}` : String(label ?? "");
    picture.append(svg("g", { class: states[place] || "none" },
      svg("title", {}, `value ${show(input.dtype, words[place])}${states[place] ? `: ${STATES[states[place]]}` : ""}`),
      svg("rect", { x, y, width: CELL, height: CELL, class: zero(words[place]) ? "zero" : "value" }),
      states[place] ? mark(states[place], x, y) : null,
      svg("text", { x: x + CELL / 2, y: y + CELL / 2, class: text.length > 3 ? "long" : "" }, text)));
  }));
  return picture;
}

/** Return the shape of a state, so that colour is not all that tells it. */
function mark(state, x, y) {
  const middle = { cx: x + CELL / 2, cy: y + CELL / 2, r: CELL / 2 - 4 };
  if (state === "extra" || state === "moved") {
    return svg("rect", { x: x + 3, y: y + 3, width: CELL - 6, height: CELL - 6, class: "mark" });
  }
  return svg("circle", { ...middle, class: "mark" });
}

function legendOf(states) {
  const seen = Object.keys(STATES).filter((state) => states.includes(state));
  return el("ul", { class: "legend" }, seen.map((state) => {
    const sample = svg("svg", { width: CELL, height: CELL, "aria-hidden": "true" });
    sample.append(svg("g", { class: state }, mark(state, 0, 0)));
    return el("li", {}, sample, STATES[state]);
  }));
}

function outside(rows, sizes) {
  const bad = rows.filter((row) => row.some((at, axis) => at < 0 || at >= sizes[axis]));
  if (!bad.length) return null;
  return el("p", {}, `${plural(bad.length, "row")} outside the input: ${bad.slice(0, 5).map((row) => `{${row}}`).join(" ")}`);
}
