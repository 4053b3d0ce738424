// Runs in the page, behind its script: statements of a test, whose result the page then shows.
{
const errors = [];
addEventListener("error", (event) => errors.push(event.message));
for (const name of ["log", "warn", "error"]) console[name] = (...words) => errors.push(words.join(" "));
const all = (query, root = document) => [...root.querySelectorAll(query)];
const textOf = (element) => element.innerText.trim();
const texts = (query, root) => all(query, root).map(textOf);
/** Return the first element of the chosen vector that a query names, or the text of it. */
const part = (query) => byId("vector").querySelector(query);
const said = (query) => textOf(part(query));
const wide = (query) => part(query).getBoundingClientRect().width;
const outputs = (name) => all("#vector .output").find((each) => textOf(each.querySelector("h5")) === name);
const press = (key, more = {}) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, ...more }));
const filter = (name, value) => {
  filters.elements[name].value = value;
  filters.dispatchEvent(new Event("input"));
};
const cell = (row, column) => all("#grid tbody tr")
  .find((tr) => textOf(tr.querySelector("th")).startsWith(row)).querySelectorAll("td")[column].firstChild;
const drawn = (state) => texts(`#vector .map td.${state}`).map((text) => text.slice(2));
const cells = (title, output) => texts("tbody td", all("figure", outputs(output))
  .find((each) => textOf(each.querySelector("b")) === title));
const visit = (id) => { if (panel.open) panel.close(); listed = []; openVector(id); };
/** Return the contrasts of texts with what is behind them. */
function contrasts() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (...colours) => {
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (parts) => parts.map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    const colours = [];
    for (let own = element; own; own = own.parentElement) colours.unshift(getComputedStyle(own).backgroundColor);
    return rgb(getComputedStyle(document.body).backgroundColor, ...colours);
  };
  return all("#grid button span, #totals td, #vector td, #vector p, li")
    .filter((element) => element.innerText?.trim() && element.checkVisibility())
    .map((element) => {
      const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
}

const out = (() => { STATEMENTS })();
const shown = document.createElement("pre");
shown.id = "out";
shown.textContent = JSON.stringify({ out, errors, title: document.title });
document.body.replaceChildren(shown);
}
