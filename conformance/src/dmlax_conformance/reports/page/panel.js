// The dialog: a list of vectors, and the one that is chosen.

const panel = byId("panel");
const list = byId("list");
let listed = [];
let chosen = null;

function openPanel(title, results) {
  listed = results;
  byId("panel-title").textContent = title;
  list.replaceChildren(...listed.map((item) => {
    const { id, comment } = DATA.vectors[item.vector];
    return el("li", { role: "option", tabindex: "-1", "aria-selected": "false", onclick: () => choose(item, true) },
      badge(item.verdict), el("b", {}, id), el("span", { class: "muted" }, comment));
  }));
  if (!panel.open) panel.showModal();
}

/** Open the dialog on the results of a cell. */
function openCell(title, results) {
  const rank = (result) => BAD_FIRST.indexOf(result.verdict);
  openPanel(`${title}: ${plural(results.length, "vector")}`, results.toSorted((a, b) => rank(a) - rank(b)));
  choose(listed[0], true);
}

/** Open the dialog on the newest vector of an id, in the list that is shown if it is there. */
function openVector(id) {
  const places = range(DATA.vectors.length).filter((place) => DATA.vectors[place].id === id);
  const [place] = places.sort((a, b) => DATA.vectors[b].rev - DATA.vectors[a].rev);
  if (place === undefined) return;
  const results = RESULTS.filter((result) => result.vector === place);
  const telling = results.find(({ verdict }) => isFailure(verdict));
  const worst = telling ?? results.find(({ verdict }) => verdict !== "unsupported") ?? results[0];
  const item = listed.find((result) => result.vector === place) ?? worst;
  if (!panel.open) openPanel(DATA.vectors[place].operator, [item]);
  choose(item, true);
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
  byId("vector").replaceChildren(...vectorSections(vector, chosen, columnChoices()).filter(Boolean));
}

/** Return a button for each implementation that was given the vector. */
function columnChoices() {
  const results = RESULTS.filter((result) => result.vector === chosen.vector);
  results.sort((a, b) => a.column - b.column);
  const pick = (result) => () => {
    choose(result);
    byId("vector").querySelector("[aria-pressed=true]").focus();
  };
  return el("div", { class: "choices", role: "group", "aria-label": "Implementations" }, results.map((result) =>
    el("button", { type: "button", "aria-pressed": String(result === chosen), onclick: pick(result) },
      badge(result.verdict), ` ${columnName(result.column)}`)));
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
