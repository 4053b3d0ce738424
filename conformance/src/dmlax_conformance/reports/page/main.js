// The totals, the filters, the theme and the start.

function showTotals() {
  const heads = ["total", "applicable", ...DATA.verdicts];
  byId("totals").replaceChildren(
    headRow("implementation", ...heads.map((head) => (head in MARKS ? badge(head) : head)), ""),
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
  const fill = (select, names) => select.replaceChildren(
    el("option", { value: "" }, "all"), ...names.map((value) => el("option", { value }, value)));
  fill(filters.operator, OPERATORS);
  fill(filters.verdict, [FAILURES, ...DATA.verdicts]);
  if (RESULTS.some(({ verdict }) => isFailure(verdict))) filters.verdict.value = FAILURES;
}

// The theme follows the system until the button says otherwise.

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

/** Return the stored theme, after storing another one if given; a page may have no storage. */
function stored(theme) {
  try {
    if (theme) localStorage.setItem("theme", theme);
    return localStorage.getItem("theme");
  } catch {
    return theme;
  }
}

function showTheme(theme) {
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  const isDark = (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  byId("theme").textContent = isDark ? "Light theme" : "Dark theme";
  byId("theme").onclick = () => showTheme(stored(isDark ? "light" : "dark"));
}

const openAddress = () => openVector(decodeURIComponent(location.hash.slice(1)));

system.addEventListener("change", () => showTheme());
filters.addEventListener("input", showGrid);
filters.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", openAddress);

showTheme(stored());
fillChoices();
showTotals();
showGrid();
openAddress();
