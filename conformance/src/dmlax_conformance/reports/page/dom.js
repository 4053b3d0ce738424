"use strict";
// Elements are built from text only, never from markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MARKS = { exact: "✓", permitted: "≈", fail: "✗", error: "!", expected: "◇", unsupported: "○" };
const BAD_FIRST = ["fail", "error", "permitted", "expected", "unsupported", "exact"];

const byId = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const badge = (verdict) => el("span", { class: `badge ${verdict}` }, `${MARKS[verdict]} ${verdict}`);

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Return the head of a table; an empty name is a corner. */
const headRow = (...names) => el("thead", {}, el("tr", {},
  names.map((name) => (name === "" ? el("td") : el("th", { scope: "col" }, name)))));

const section = (title, ...children) => el("section", {}, el("h4", {}, title), ...children);

const terms = (...pairs) =>
  el("dl", {}, pairs.flatMap(([name, value, own = {}]) => [el("dt", own, name), el("dd", {}, value)]));

const note = (...children) => el("p", { class: "muted" }, ...children);

/** Let a name of several words break between them. */
const breakable = (name) => name.split(/(?<=_)|(?=[A-Z][a-z])/).flatMap((word) => [word, el("wbr")]);

/** Return a bar of the verdicts; the numbers stand beside it as text. */
function bar(counts) {
  const parts = DATA.verdicts.filter((verdict) => counts[verdict]).map((verdict) => el("i", { class: verdict }));
  for (const part of parts) part.style.flexGrow = counts[part.className];
  return el("span", { class: "bar", "aria-hidden": "true" }, parts);
}
