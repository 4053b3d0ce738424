// Operators by data type, feature or topic, against implementations.

const grid = byId("grid");
const filters = byId("filters");
const RESULTS = DATA.results.map(([vector, column, verdict, seconds, more = {}]) =>
  ({ vector, column, verdict: DATA.verdicts[verdict], seconds, more }));
const SEARCHED = DATA.vectors.map((vector) =>
  [vector.id, vector.comment, vector.topic, vector.types, ...vector.clause, ...vector.flags, ...vector.requires]
    .join(" ").toLowerCase());
const OPERATORS = [...new Set(DATA.vectors.map((vector) => vector.operator))].sort();
const typesOf = ({ operator, types }) => `${operator} ${types}`;
const ACCEPTED = new Set(DATA.vectors.filter(({ valid }) => valid).map(typesOf));
const REFUSED = "other types, refused";
const FAILURES = "failures";
const isFailure = (verdict) => verdict === "fail" || verdict === "error";

/** Return the names of the rows that a vector counts in, by what the rows are. */
const ROWS = {
  types: (vector) => [ACCEPTED.has(typesOf(vector)) ? vector.types : REFUSED],
  flags: ({ flags }) => (flags.length ? flags : ["no feature"]),
  topic: ({ topic }) => [topic],
  clause: ({ clause }) => clause,
};

function matching() {
  const { operator, verdict, text } = Object.fromEntries(new FormData(filters));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return RESULTS.filter((result) =>
    (!operator || DATA.vectors[result.vector].operator === operator) &&
    (!verdict || result.verdict === verdict || (verdict === FAILURES && isFailure(result.verdict))) &&
    words.every((word) => SEARCHED[result.vector].includes(word)));
}

/** Return Map operator → Map row → results of each column; the row "" holds all. */
function grouped(results, by) {
  const groups = new Map(OPERATORS.map((operator) => [operator, new Map()]));
  for (const result of results) {
    const vector = DATA.vectors[result.vector];
    const rows = groups.get(vector.operator);
    for (const name of ["", ...ROWS[by](vector)]) {
      if (!rows.has(name)) rows.set(name, DATA.columns.map(() => []));
      rows.get(name)[result.column].push(result);
    }
  }
  return groups;
}

function showGrid() {
  const by = new FormData(filters).get("rows");
  const results = matching();
  const bodies = [];
  const groups = [...grouped(results, by)].filter(([, rows]) => rows.size);
  const order = new FormData(filters).get("order");
  if (order === "failures") groups.sort(([, a], [, b]) => failuresIn(b.get("")) - failuresIn(a.get("")));
  for (const [operator, rows] of groups) {
    const rank = (name) => (order === "failures" && name ? -failuresIn(rows.get(name)) : 0);
    const names = [...rows.keys()].sort((a, b) =>
      (a !== "") - (b !== "") || rank(a) - rank(b) || (a === REFUSED) - (b === REFUSED) || a.localeCompare(b));
    bodies.push(el("tbody", {}, names.map((name) => gridRow(operator, name, rows.get(name), by))));
  }
  const heads = DATA.columns.map(({ report, variant }) => [DATA.reports[report].name, el("small", {}, variant)]);
  grid.replaceChildren(headRow("", ...heads), ...bodies);
  byId("matched").textContent = results.length
    ? `${plural(results.length, "result")} of ${RESULTS.length}` : "No result matches.";
  moveTo(0, 0, false);
}

const failuresIn = (columns) => columns.flat().filter(({ verdict }) => isFailure(verdict)).length;

function gridRow(operator, name, columns, by) {
  const words = { flags: DATA.legend.flags, clause: DATA.legend.clauses }[by]?.[name];
  return el("tr", { class: name ? "" : "whole" },
    el("th", { scope: "row" }, name || breakable(operator), words ? el("small", {}, words) : null),
    columns.map((results, column) => gridCell(`${operator} ${name}`.trim(), results, column)));
}

function gridCell(title, results, column) {
  if (!results.length) return el("td", { class: "none", tabindex: "-1" }, el("span", { class: "muted" }, "–"));
  const counts = countsOf(results);
  const worst = BAD_FIRST.find((verdict) => counts[verdict]);
  const open = () => openCell(`${title}, ${columnName(column)}`, results);
  return el("td", { class: worst },
    el("button", { type: "button", tabindex: "-1", onclick: open },
      DATA.verdicts.filter((verdict) => counts[verdict]).map((verdict) =>
        el("span", { class: verdict }, `${MARKS[verdict]} ${counts[verdict]} ${verdict} `)),
      bar(counts)));
}

const countsOf = (results) =>
  Object.fromEntries([...Map.groupBy(results, ({ verdict }) => verdict)].map(([name, own]) => [name, own.length]));

// One cell at a time is in the tab order; the arrow keys say which.

const cellRows = () => [...grid.querySelectorAll("tbody tr")].map((row) =>
  [...row.querySelectorAll("td")].map((cell) => cell.querySelector("button") ?? cell));

function makeTabStop(cell) {
  grid.querySelectorAll("tbody [tabindex='0']").forEach((other) => { other.tabIndex = -1; });
  cell.tabIndex = 0;
}

function moveTo(row, column, takeFocus = true) {
  const target = cellRows()[row]?.[column];
  if (!target) return;
  makeTabStop(target);
  if (!takeFocus) return;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: "nearest", inline: "nearest" });
}

grid.addEventListener("keydown", (event) => {
  const rows = cellRows();
  const row = rows.findIndex((cells) => cells.includes(document.activeElement));
  if (row < 0) return;
  const column = rows[row].indexOf(document.activeElement);
  const last = rows.length - 1;
  const to = {
    ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    PageDown: [Math.min(row + 10, last), column], PageUp: [Math.max(row - 10, 0), column],
    Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? last : row, rows[row].length - 1],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  moveTo(...to);
});

grid.addEventListener("focusin", (event) => makeTabStop(event.target));
