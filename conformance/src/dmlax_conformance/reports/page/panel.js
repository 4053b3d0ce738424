"use strict";
// The dialog: a list of vectors, and the one that is chosen.

const panel = byId("panel");
const list = byId("list");
let listed = [];
let chosen = null;

/** Open the dialog on the results of a cell. */
function openCell(title, results) {
  const rank = (result) => BAD_FIRST.indexOf(result.verdict);
  listed = [...results].sort((a, b) => rank(a) - rank(b)).map(({ vector, column }) => ({ vector, column }));
  byId("panel-title").textContent = `${title}: ${plural(listed.length, "vector")}`;
  showList();
  if (!panel.open) panel.showModal();
  choose(listed[0], true);
}

/** Open the dialog on one vector, in the list that is shown if it is there. */
function openVector(id) {
  const place = newest(id);
  if (place === undefined) return;
  const item = listed.find((own) => own.vector === place) ?? { vector: place, column: worstColumn(place) };
  if (!panel.open) {
    listed = [item];
    byId("panel-title").textContent = DATA.vectors[place].operator;
    showList();
    panel.showModal();
  }
  choose(item, true);
}

function newest(id) {
  const places = [...DATA.vectors.keys()].filter((place) => DATA.vectors[place].id === id);
  return places.sort((a, b) => DATA.vectors[b].rev - DATA.vectors[a].rev)[0];
}

function worstColumn(place) {
  const own = RESULTS.filter((result) => result.vector === place);
  const telling = own.find(({ verdict }) => verdict === "fail" || verdict === "error");
  return (telling ?? own.find(({ verdict }) => verdict !== "unsupported") ?? own[0]).column;
}

const resultOf = ({ vector, column }) =>
  RESULTS.find((result) => result.vector === vector && result.column === column);

function showList() {
  list.replaceChildren(...listed.map((item) => {
    const { id, comment } = DATA.vectors[item.vector];
    return el("li", { role: "option", tabindex: "-1", "aria-selected": "false", onclick: () => choose(item, true) },
      badge(resultOf(item).verdict), el("b", {}, id), el("span", { class: "muted" }, comment));
  }));
}

/** Show one item; its place in the list gets the focus if asked. */
function choose(item, takeFocus = false) {
  chosen = item;
  const place = listed.findIndex((own) => own.vector === item.vector);
  [...list.children].forEach((option, at) => {
    option.setAttribute("aria-selected", String(at === place));
    option.tabIndex = at === Math.max(place, 0) ? 0 : -1;
  });
  showVector();
  byId("vector").scrollTop = 0;
  if (takeFocus && place >= 0) list.children[place].focus();
  history.replaceState(null, "", `#${DATA.vectors[item.vector].id}`);
}

function showVector() {
  const vector = DATA.vectors[chosen.vector];
  byId("vector").replaceChildren(...vectorSections(vector, resultOf(chosen), columnChoices()).filter(Boolean));
}

/** Return a button for each implementation that was given the vector. */
function columnChoices() {
  const own = RESULTS.filter((result) => result.vector === chosen.vector);
  own.sort((a, b) => a.column - b.column);
  return el("div", { class: "choices", role: "group", "aria-label": "Implementations" }, own.map((result) => {
    const pressed = String(result.column === chosen.column);
    const pick = () => {
      choose({ vector: chosen.vector, column: result.column });
      byId("vector").querySelector("[aria-pressed=true]").focus();
    };
    return el("button", { type: "button", "aria-pressed": pressed, onclick: pick },
      badge(result.verdict), ` ${columnName(result.column)}`);
  }));
}

list.addEventListener("keydown", (event) => {
  const at = [...list.children].indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: listed.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (listed[to]) choose(listed[to], true);
});

panel.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
panel.addEventListener("click", (event) => event.target === panel && panel.close());
byId("close").addEventListener("click", () => panel.close());
byId("bits").addEventListener("change", (event) => {
  asBits = event.target.checked;
  showVector();
});
