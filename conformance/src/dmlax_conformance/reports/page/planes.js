// Tensors as tables: the last two axes that are longer than 1 make a plane, the others number it.

const STRIP = 16;

/**
 * Return the planes of some sizes, as rows of flat places with their headings; with `rows`, one
 * plane of that many rows.
 */
function planesOf(sizes, rows = 0) {
  const long = [...sizes.keys()].filter((axis) => sizes[axis] > 1);
  if (rows && sizes.length >= 2) return [plane(sizes, sizes.length - 2, sizes.length - 1, {}, rows)];
  if (long.length < 2) return [strip(countOf(sizes))];
  const [down, across] = long.splice(-2);
  const outer = long.map((axis) => sizes[axis]);
  return range(countOf(outer)).map((number) => {
    const at = placeOf(outer, number);
    return plane(sizes, down, across, Object.fromEntries(long.map((axis, i) => [axis, at[i]])));
  });
}

const range = (count) => [...Array(count).keys()];

/** Return the coordinates of a flat place. */
function placeOf(sizes, index) {
  let rest = index;
  return sizes.toReversed().map((size) => {
    const at = rest % size;
    rest = Math.floor(rest / size);
    return at;
  }).reverse();
}

function strip(count) {
  const starts = range(Math.ceil(count / STRIP)).map((row) => row * STRIP);
  const rows = starts.map((head) => ({
    head, places: range(Math.min(STRIP, count - head)).map((step) => head + step) }));
  return { label: "", heads: range(Math.min(count, STRIP)), rows };
}

function plane(sizes, down, across, fixed, most = sizes[down]) {
  const strides = sizes.map((_, axis) => countOf(sizes.slice(axis + 1)));
  const start = Object.entries(fixed).reduce((sum, [axis, at]) => sum + at * strides[axis], 0);
  const index = sizes.map((_, axis) => (axis === down || axis === across ? "·" : fixed[axis] ?? 0));
  return {
    label: Object.keys(fixed).length ? `[${index.join(", ")}]` : "",
    heads: range(sizes[across]),
    rows: range(Math.min(sizes[down], most)).map((head) => ({
      head, places: range(sizes[across]).map((at) => start + head * strides[down] + at * strides[across]) })),
  };
}

/** Return a tensor as a figure; `cell(place)` gives text and classes, or null for what is undefined. */
function figure(title, tensor, cell, { rows = 0, about = typeOf(tensor) } = {}) {
  const { name, seed = "" } = tensor.recipe ?? {};
  const made = name ? `, made by recipe ${name} ${seed}`.trimEnd() : "";
  const unseen = `${plural(countOf(tensor.sizes), "element")}, not shown${made}`;
  const shown = () => (cell ? planesOf(tensor.sizes, rows).map((own) => planeTable(own, cell)) : [note(unseen)]);
  return el("figure", {}, el("figcaption", {}, el("b", {}, title), ` ${about}`),
    el("div", { class: "planes" }, countOf(tensor.sizes) ? shown() : note("no elements")));
}

function planeTable({ label, heads, rows }, cell) {
  const single = rows.length === 1 && heads.length === 1;
  const shown = rows.map((row) => [row.head, row.places.map(cell)]).filter((row) => row[1].some(Boolean));
  return el("table", { class: "plane" },
    label ? el("caption", {}, label) : null,
    single ? null : headRow("", ...heads.map(String)),
    el("tbody", {}, shown.map(([index, cells]) => el("tr", {},
      single ? null : el("th", { scope: "row" }, String(index)),
      cells.map(planeCell)))));
}

function planeCell(own) {
  if (!own) return el("td", { class: "open", title: "undefined" }, "any");
  const cell = el("td", { class: own.classes, title: own.title }, own.text);
  if (own.heat !== undefined && own.heat !== null) cell.style.setProperty("--heat", `${own.heat}%`);
  return cell;
}

/** Return a function from a word to its heat, 0 to 60 percent, over the range of some words. */
function heatOf(dtype, ...lists) {
  const numbers = lists.flat().map((word) => magnitude(dtype, word)).filter((n) => n !== null);
  const low = Math.min(...numbers);
  const width = Math.max(...numbers) - low;
  return (word) => {
    const number = magnitude(dtype, word);
    return number === null || !(width > 0) ? null : Math.round((60 * (number - low)) / width);
  };
}
