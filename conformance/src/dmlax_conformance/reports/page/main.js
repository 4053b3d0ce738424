"use strict";

function showTotals() {
  const heads = ["total", "applicable", ...DATA.verdicts];
  byId("totals").replaceChildren(
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "implementation"),
      heads.map((head) => el("th", { scope: "col" }, head in MARKS ? badge(head) : head)), el("td"))),
    el("tbody", {}, DATA.columns.map((column, place) => totalsRow(column, place, heads))));
}

function totalsRow({ report, variant }, place, heads) {
  const counts = countsOf(RESULTS.filter((result) => result.column === place));
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const numbers = { total, applicable: total - (counts.unsupported ?? 0), ...counts };
  const { name, suite, python, machine } = DATA.reports[report];
  return el("tr", { class: numbers.applicable ? "" : "none" },
    el("th", { scope: "row" }, `${name} ${variant}`,
      el("small", {}, `suite ${suite} · Python ${python} · ${machine}`)),
    heads.map((head) => el("td", { class: numbers[head] ? head : "zero", "data-head": head }, String(numbers[head] ?? 0))),
    el("td", {}, numbers.applicable ? bar(counts) : "no applicable case"));
}

function fillChoices() {
  const option = (value, text = value) => el("option", { value }, text);
  filters.operator.replaceChildren(option("", "all"), ...OPERATORS.map((name) => option(name)));
  filters.verdict.replaceChildren(option("", "all"), option(FAILURES), ...DATA.verdicts.map((name) => option(name)));
  if (RESULTS.some(({ verdict }) => isFailure(verdict))) filters.verdict.value = FAILURES;
}

// The theme follows the system until the button says otherwise.

const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : system.matches;
}

function nameTheme() {
  byId("theme").textContent = isDark() ? "Light theme" : "Dark theme";
}

function stored(value) {
  try {
    if (value) localStorage.setItem("theme", value);
    return localStorage.getItem("theme");
  } catch {
    return value; // storage is closed to this page
  }
}

function setTheme(theme) {
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  nameTheme();
}

byId("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  stored(theme);
  setTheme(theme);
});
system.addEventListener("change", nameTheme);
filters.addEventListener("input", showGrid);
filters.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", () => openVector(decodeURIComponent(location.hash.slice(1))));

setTheme(stored());
fillChoices();
showTotals();
showGrid();
openVector(decodeURIComponent(location.hash.slice(1)));
