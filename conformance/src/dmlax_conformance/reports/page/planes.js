"use strict";
// Tensors as tables: the last two axes that are longer than 1 make a plane, the others number it.

const STRIP = 16;

/**
 * Return the planes of some sizes, as rows of flat places with their headings; with `rows`, one
 * plane of that many rows.
 */
function planesOf(sizes, rows = 0) {
  const long = sizes.map((_, axis) => axis).filter((axis) => sizes[axis] > 1);
  if (rows && sizes.length >= 2) return [plane(sizes, sizes.length - 2, sizes.length - 1, {}, rows)];
  if (long.length < 2) return [strip(countOf(sizes))];
  const [down, across] = long.slice(-2);
  const outer = long.slice(0, -2);
  const planes = [];
  for (let number = 0; number < outer.reduce((product, axis) => product * sizes[axis], 1); number++) {
    const fixed = {};
    let rest = number;
    for (const axis of [...outer].reverse()) {
      fixed[axis] = rest % sizes[axis];
      rest = Math.floor(rest / sizes[axis]);
    }
    planes.push(plane(sizes, down, across, fixed));
  }
  return planes;
}

function strip(count) {
  const width = Math.min(count, STRIP);
  const rows = [];
  for (let start = 0; start < count; start += STRIP) {
    const places = [...Array(Math.min(STRIP, count - start)).keys()].map((step) => start + step);
    rows.push({ head: start, places });
  }
  return { label: "", heads: [...Array(width).keys()], rows };
}

function plane(sizes, down, across, fixed, most = sizes[down]) {
  const strides = sizes.map((_, axis) => countOf(sizes.slice(axis + 1)));
  const start = Object.entries(fixed).reduce((sum, [axis, at]) => sum + at * strides[axis], 0);
  const along = (axis) => [...Array(sizes[axis]).keys()];
  const index = sizes.map((_, axis) => (axis === down || axis === across ? "·" : fixed[axis] ?? 0));
  return {
    label: Object.keys(fixed).length ? `[${index.join(", ")}]` : "",
    heads: along(across),
    rows: along(down).slice(0, most).map((row) => ({
      head: row,
      places: along(across).map((column) => start + row * strides[down] + column * strides[across]),
    })),
  };
}

/** Return a tensor as a figure; `cell(place)` gives text and classes, or null for what is undefined. */
function figure(title, tensor, cell, { rows = 0, note = typeOf(tensor) } = {}) {
  const caption = el("figcaption", {}, el("b", {}, title), ` ${note}`);
  const body = el("div", { class: "planes" });
  if (!countOf(tensor.sizes)) body.append(el("p", { class: "muted" }, "no elements"));
  else if (!cell) body.append(el("p", { class: "muted" }, unseen(tensor)));
  else body.append(...planesOf(tensor.sizes, rows).map((own) => planeTable(own, cell)));
  return el("figure", {}, caption, body);
}

function unseen(tensor) {
  const { name, seed = "" } = tensor.recipe ?? {};
  const made = name ? `, made by recipe ${name} ${seed}`.trimEnd() : "";
  return `${plural(countOf(tensor.sizes), "element")}, not shown${made}`;
}

function planeTable({ label, heads, rows }, cell) {
  const single = rows.length === 1 && heads.length === 1;
  const shown = rows.map((row) => [row.head, row.places.map(cell)]).filter((row) => row[1].some(Boolean));
  const head = el("tr", {}, el("td"), heads.map((index) => el("th", { scope: "col" }, String(index))));
  return el("table", { class: "plane" },
    label ? el("caption", {}, label) : null,
    single ? null : el("thead", {}, head),
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
  const range = Math.max(...numbers) - low;
  return (word) => {
    const number = magnitude(dtype, word);
    return number === null || !(range > 0) ? null : Math.round((60 * (number - low)) / range);
  };
}
