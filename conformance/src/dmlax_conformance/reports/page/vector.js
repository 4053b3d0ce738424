"use strict";
// One vector and what one implementation answered.

let asBits = false;

const columnName = (column) =>
  `${DATA.reports[DATA.columns[column].report].name} ${DATA.columns[column].variant}`;

/** Return the sections about a vector; `result` may be undefined. */
function vectorSections(vector, result, choices) {
  return [
    el("h3", {}, vector.id, " ", el("small", { class: "muted" }, `rev ${vector.rev}`)),
    el("p", { class: "comment" }, vector.comment),
    el("p", { class: "muted" },
      `${vector.operator} / ${vector.topic} · ${vector.types} · `,
      vector.valid ? "valid call" : "call that must be refused"),
    choices,
    result ? outcome(vector, result) : null,
    coordinatePicture(vector, result?.more),
    expectation(vector, result),
    inputs(vector),
    vector.desc ? description(vector) : attributes(vector),
    rules(vector),
  ];
}

function outcome(vector, { verdict, seconds, column, more }) {
  const report = DATA.reports[DATA.columns[column].report];
  const repeat = [report.repeat, "--variant", quoted(DATA.columns[column].variant), "--id", vector.id];
  return el("section", { class: `outcome ${verdict}` },
    el("p", {}, badge(verdict), ` ${columnName(column)}, ${milliseconds(seconds)}`),
    more.reason ? el("p", {}, `Expected to ${more.was}: ${more.reason}`) : null,
    more.details ? el("ul", { class: "details" }, more.details.map((line) => el("li", {}, line))) : null,
    el("p", { class: "repeat" }, "Repeat: ", el("code", {}, repeat.join(" ")), copyButton(repeat.join(" "))));
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

const milliseconds = (seconds) =>
  seconds >= 1 ? `${seconds.toFixed(1)} s` : `${(seconds * 1000).toPrecision(2)} ms`;

function copyButton(text) {
  const copy = async (event) => {
    await navigator.clipboard.writeText(text);
    event.target.textContent = "Copied";
  };
  return navigator.clipboard ? el("button", { type: "button", onclick: copy }, "Copy") : null;
}

function expectation(vector, result) {
  if (!vector.expect) {
    return el("section", {}, el("h4", {}, "Call"),
      el("p", { class: "muted" }, "Neither the reports nor this suite hold this revision of the vector."));
  }
  if (vector.expect.error) {
    const { code, field, also = [] } = vector.expect.error;
    return el("section", {}, el("h4", {}, "Expected"),
      el("p", {}, "A refusal: ", el("code", {}, code), " on ", el("code", {}, field)),
      also.length ? el("p", {}, "Also right: ", also.map((own) => `${own.code} on ${own.field}`).join(", ")) : null,
      Object.entries(result?.more.got ?? {}).map(([name, tensor]) => answered(name, tensor)));
  }
  return el("section", {}, el("h4", {}, "Outputs"),
    Object.entries(vector.expect.outputs).map(([name, want]) => output(name, want, result)));
}

const answered = (name, tensor) =>
  figure(`Got ${name}`, tensor, wordsOf(tensor) && plainCell(tensor, heatOf(tensor.dtype, wordsOf(tensor))));

/** Return expected, got and difference of one output, side by side. */
function output(name, want, result) {
  const have = result?.more.got?.[name];
  const wrong = new Set(result?.more.differs?.[name] ?? []);
  const alike = have && typeOf(have) === typeOf(want) && wordsOf(have) && wordsOf(want);
  const heat = wordsOf(want) && heatOf(want.dtype, wordsOf(want), alike ? wordsOf(have) : []);
  const options = { rows: want.compare === "exact_rows" ? Math.max(want.rows, 1) : 0 };
  const figures = [figure("Expected", want, wordsOf(want) && wantedCell(want, heat, wrong), options)];
  if (have) figures.push(figure("Got", have, gotCell(want, have, heat, wrong, alike), options));
  if (alike && wrong.size) {
    figures.push(figure("Difference", want, differenceCell(want, have, wrong),
      { ...options, note: "got - expected" }));
  }
  return el("div", { class: "output" }, el("h5", {}, name), el("div", { class: "side" }, figures),
    firstDiffering(want, result?.more.first?.[name]), unsaid(name, want, have, result, wrong));
}

/** Return the first elements that differ, of an output that is too large to be shown. */
function firstDiffering(want, first = []) {
  if (!first.length) return null;
  const row = ({ index, expected, got }) => el("tr", {},
    el("th", { scope: "row" }, `[${placeOf(want.sizes, index).join(", ")}]`),
    [expected, got].map((word) =>
      el("td", { title: titleOf(want.dtype, word) }, show(want.dtype, word, asBits))),
    el("td", { class: "wrong" }, distance(want.dtype, expected, got)));
  const heads = ["element", "expected", "got", "got - expected"];
  return el("figure", { class: "first" },
    el("figcaption", {}, el("b", {}, "First differing elements")),
    el("div", { class: "scroll" }, el("table", { class: "plane" },
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, first.map(row)))),
    first.map((each, number) => feeding(want, each, number === 0)));
}

/** Return the parts of the operands that feed one element, which is shown or folded. */
function feeding(want, { index, operands = {} }, open) {
  const parts = Object.entries(operands).filter(([, part]) => countOf(part.sizes));
  if (!parts.length) return null;
  return el("details", { open },
    el("summary", {}, `Operands of element [${placeOf(want.sizes, index).join(", ")}]`),
    el("div", { class: "side" }, parts.map(([name, part]) =>
      figure(name, part, wordsOf(part) && partCell(part), { note: `${part.dtype} [${part.axes.join(", ")}]` }))));
}

function partCell(part) {
  const words = wordsOf(part);
  const plain = plainCell(part, heatOf(part.dtype, words.filter((word) => word !== null)));
  return (place) => (words[place] === null ? { text: "pad", classes: "same" } : plain(place));
}

function placeOf(sizes, index) {
  let rest = index;
  return sizes.toReversed().map((size) => {
    const at = rest % size;
    rest = Math.floor(rest / size);
    return at;
  }).reverse();
}

function unsaid(name, want, have, result, wrong) {
  const hidden = result && result.verdict !== "exact" && !have && Object.keys(result.more.got ?? {}).length;
  if (hidden) return el("p", { class: "muted" }, "The answer has no such output.");
  if (result?.verdict === "exact") return el("p", { class: "muted" }, "The answer is this, bit for bit.");
  if (have && typeOf(have) === typeOf(want)) {
    const marked = result.more.first?.[name] ? null : `${plural(wrong.size, "element")} marked ▲.`;
    const words = wrong.size ? marked : "No element differs.";
    return words && el("p", { class: "muted" }, words);
  }
  return null;
}

const titleOf = (dtype, word) => (dtype in FLOATS ? `${show(dtype, word)} = 0x${word}` : null);

function plainCell(tensor, heat) {
  const words = wordsOf(tensor);
  return (place) => ({
    text: show(tensor.dtype, words[place], asBits),
    title: titleOf(tensor.dtype, words[place]),
    heat: heat(words[place]),
    classes: "",
  });
}

function wantedCell(want, heat, wrong) {
  const plain = plainCell(want, heat);
  const listed = new Map((want.listed ?? []).map((item) => [item.index, item]));
  return (place) => {
    if (place >= wordsOf(want).length) return null;
    const own = plain(place);
    const other = listed.get(place);
    if (other) {
      const others = other.any_of.filter((word) => word !== wordsOf(want)[place]);
      own.text = [own.text, ...others.map((word) => show(want.dtype, word, asBits))].join(" or ");
      own.title = other.why;
    }
    return { ...own, classes: wrong.has(place) ? "wrong" : "" };
  };
}

function gotCell(want, have, heat, wrong, alike) {
  const words = wordsOf(have);
  if (!words) return null;
  const plain = plainCell(have, alike ? heat : heatOf(have.dtype, words));
  return (place) => {
    if (place >= (alike ? wordsOf(want) : words).length) return null;
    return { ...plain(place), classes: wrong.has(place) ? "wrong" : "" };
  };
}

function differenceCell(want, have, wrong) {
  return (place) => {
    if (place >= wordsOf(want).length) return null;
    if (!wrong.has(place)) return { text: "·", classes: "same" };
    return { text: distance(want.dtype, wordsOf(want)[place], wordsOf(have)[place]), classes: "wrong" };
  };
}

function inputs(vector) {
  const given = Object.entries(vector.inputs ?? {});
  if (!given.length) return null;
  return el("section", {}, el("h4", {}, "Inputs"), el("div", { class: "side" },
    given.map(([name, tensor]) => {
      const words = wordsOf(tensor);
      const strided = vector.desc?.[name]?.Strides && tensor.sizes.length === 1 && vector.desc[name].Sizes.length !== 1;
      return figure(name, tensor, words && plainCell(tensor, heatOf(tensor.dtype, words)),
        { note: `${typeOf(tensor)}${strided ? ", the buffer" : ""}` });
    })));
}

function attributes(vector) {
  const own = Object.entries(vector.attributes ?? {});
  if (!own.length) return null;
  return el("section", {}, el("h4", {}, "Attributes"), el("dl", {},
    own.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, json(value))])));
}

const json = (value) => (Array.isArray(value) ? `[${value.join(", ")}]` : JSON.stringify(value));

/** Return a desc as a table with one row for each tensor. */
function description(vector) {
  const heads = ["DataType", "Sizes", "Strides", "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment", "Flags"];
  const fields = Object.entries(vector.desc);
  const isTensor = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const named = vector.expect?.error?.field;
  const mark = (name) => (name === named ? { class: "named" } : {});
  const tensors = fields.filter(([name, value]) => isTensor(value) || name.endsWith("Tensor"));
  const others = fields.filter((field) => !tensors.includes(field));
  return el("section", {}, el("h4", {}, `Desc, at feature level ${vector.feature_level.replace("_", ".")}`),
    el("div", { class: "scroll" }, el("table", { class: "desc" },
      el("thead", {}, el("tr", {}, el("td"), heads.map((head) => el("th", { scope: "col" }, breakable(head))))),
      el("tbody", {}, tensors.map(([name, value]) => el("tr", mark(name),
        el("th", { scope: "row" }, name, name === named ? " (named)" : ""),
        value ? heads.map((head) => el("td", {}, text(value[head]))) : el("td", { colspan: heads.length, class: "muted" }, "absent")))))),
    others.length ? el("dl", {}, others.flatMap(([name, value]) => [
      el("dt", mark(name), name, name === named ? " (named)" : ""), el("dd", {}, json(value))])) : null);
}

/** Let a name of several words break between them. */
const breakable = (name) => name.split(/(?=[A-Z][a-z])/).flatMap((word) => [el("wbr"), word]);

const text = (value) => (value === null ? "packed" : Array.isArray(value) ? json(value) : String(value));

const reference = (what, id) =>
  (id ? [el("dt", {}, what), el("dd", {}, el("a", { href: `#${id}` }, id))] : []);

function rules(vector) {
  const words = (kind, names) => names.flatMap((name) => [
    el("dt", {}, name), el("dd", {}, DATA.legend[kind][name] ?? "")]);
  return el("section", {}, el("h4", {}, "Rules and features"),
    el("dl", {}, words("clauses", vector.clause), words("flags", vector.flags),
      vector.requires.length ? [el("dt", {}, "requires"), el("dd", {}, vector.requires.join(", "))] : [],
      reference("valid twin", vector.twin), reference("counts only beside", vector.beside)));
}
