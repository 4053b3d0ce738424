"use strict";
// Elements are built from text only, never from markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MARKS = { exact: "✓", permitted: "≈", fail: "✗", error: "!", expected: "◇", unsupported: "○" };
const BAD_FIRST = ["fail", "error", "permitted", "expected", "unsupported", "exact"];

const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const badge = (verdict, text = verdict) =>
  el("span", { class: `badge ${verdict}` }, `${MARKS[verdict]} ${text}`);

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Return a bar of the verdicts; the numbers stand beside it as text. */
function bar(counts) {
  const parts = DATA.verdicts.filter((verdict) => counts[verdict]);
  const own = el("span", { class: "bar", "aria-hidden": "true" });
  for (const verdict of parts) {
    const part = el("i", { class: verdict });
    part.style.flexGrow = counts[verdict];
    own.append(part);
  }
  return own;
}
