// One vector and what one implementation answered.

let asBits = false;

const columnName = (column) =>
  `${DATA.reports[DATA.columns[column].report].name} ${DATA.columns[column].variant}`;

/** Return the sections about a vector and a result of it. */
function vectorSections(vector, result, choices) {
  const kind = vector.valid ? "valid call" : "call that must be refused";
  return [
    el("h3", {}, vector.id, " ", el("small", { class: "muted" }, `rev ${vector.rev}`)),
    el("p", { class: "comment" }, vector.comment),
    note(`${vector.operator} / ${vector.topic} · ${vector.types} · `, kind),
    choices,
    outcome(vector, result),
    coordinatePicture(vector, result.more),
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
  const copy = async ({ target }) => {
    await navigator.clipboard.writeText(text);
    target.textContent = "Copied";
  };
  return navigator.clipboard ? el("button", { type: "button", onclick: copy }, "Copy") : null;
}

function expectation(vector, result) {
  if (!vector.expect) {
    return section("Call", note("Neither the reports nor this suite hold this revision of the vector."));
  }
  if (!vector.expect.error) {
    const outputs = Object.entries(vector.expect.outputs);
    return section("Outputs", outputs.map(([name, want]) => output(name, want, result)));
  }
  const { code, field, also = [] } = vector.expect.error;
  return section("Expected",
    el("p", {}, "A refusal: ", el("code", {}, code), " on ", el("code", {}, field)),
    also.length ? el("p", {}, "Also right: ", also.map((own) => `${own.code} on ${own.field}`).join(", ")) : null,
    Object.entries(result.more.got ?? {}).map(([name, tensor]) => plainFigure(`Got ${name}`, tensor)));
}

const plainFigure = (title, tensor, options) =>
  figure(title, tensor, wordsOf(tensor) && plainCell(tensor, heatOf(tensor.dtype, wordsOf(tensor))), options);

/** Return expected, got and difference of one output, side by side. */
function output(name, want, result) {
  const have = result.more.got?.[name];
  const wrong = new Set(result.more.differs?.[name] ?? []);
  const alike = have && typeOf(have) === typeOf(want) && wordsOf(have) && wordsOf(want);
  const heat = wordsOf(want) && heatOf(want.dtype, wordsOf(want), alike ? wordsOf(have) : []);
  const options = { rows: want.compare === "exact_rows" ? Math.max(want.rows, 1) : 0 };
  const gotCell = () => (alike ? markedCell(have, heat, wrong, wordsOf(want).length)
    : markedCell(have, heatOf(have.dtype, wordsOf(have)), wrong));
  const figures = [figure("Expected", want, wordsOf(want) && markedCell(want, heat, wrong), options)];
  if (have) figures.push(figure("Got", have, wordsOf(have) && gotCell(), options));
  if (alike && wrong.size) {
    const difference = differenceCell(want, have, wrong);
    figures.push(figure("Difference", want, difference, { ...options, about: "got - expected" }));
  }
  const said = unsaid(name, want, have, result, wrong);
  return el("div", { class: "output" }, el("h5", {}, name), el("div", { class: "side" }, figures),
    firstDiffering(want, result.more.first?.[name]), said && note(said));
}

/** Return the first elements that differ, of an output that is too large to be shown. */
function firstDiffering(want, first = []) {
  if (!first.length) return null;
  const row = ({ index, expected, got }) => el("tr", {},
    el("th", { scope: "row" }, `[${placeOf(want.sizes, index).join(", ")}]`),
    [expected, got].map((word) =>
      el("td", { title: titleOf(want.dtype, word) }, show(want.dtype, word, asBits))),
    el("td", { class: "wrong" }, distance(want.dtype, expected, got)));
  return el("figure", { class: "first" },
    el("figcaption", {}, el("b", {}, "First differing elements")),
    el("div", { class: "scroll" }, el("table", { class: "plane" },
      headRow("element", "expected", "got", "got - expected"), el("tbody", {}, first.map(row)))),
    first.map((each, number) => feeding(want, each, number === 0)));
}

/** Return the parts of the operands that feed one element, which is shown or folded. */
function feeding(want, { index, operands = {} }, open) {
  const parts = Object.entries(operands).filter(([, part]) => countOf(part.sizes));
  if (!parts.length) return null;
  return el("details", { open },
    el("summary", {}, `Operands of element [${placeOf(want.sizes, index).join(", ")}]`),
    el("div", { class: "side" }, parts.map(([name, part]) =>
      figure(name, part, wordsOf(part) && partCell(part), { about: `${part.dtype} [${part.axes.join(", ")}]` }))));
}

function partCell(part) {
  const words = wordsOf(part);
  const plain = plainCell(part, heatOf(part.dtype, words.filter((word) => word !== null)));
  return (place) => (words[place] === null ? { text: "pad", classes: "same" } : plain(place));
}

function unsaid(name, want, have, result, wrong) {
  if (result.verdict === "exact") return "The answer is this, bit for bit.";
  if (!have && Object.keys(result.more.got ?? {}).length) return "The answer has no such output.";
  if (!have || typeOf(have) !== typeOf(want)) return null;
  if (!wrong.size) return "No element differs.";
  return result.more.first?.[name] ? null : `${plural(wrong.size, "element")} marked ▲.`;
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

/** Mark the wrong places, and add the words that are permitted too; from `count` on nothing is defined. */
function markedCell(tensor, heat, wrong, count = wordsOf(tensor).length) {
  const plain = plainCell(tensor, heat);
  const listed = new Map((tensor.listed ?? []).map((item) => [item.index, item]));
  return (place) => {
    if (place >= count) return null;
    const cell = { ...plain(place), classes: wrong.has(place) ? "wrong" : "" };
    const { any_of: permitted, why } = listed.get(place) ?? {};
    if (!permitted) return cell;
    const others = permitted.filter((word) => word !== wordsOf(tensor)[place]);
    const words = others.map((word) => show(tensor.dtype, word, asBits));
    return { ...cell, text: [cell.text, ...words].join(" or "), title: why };
  };
}

const differenceCell = (want, have, wrong) => (place) => {
  if (place >= wordsOf(want).length) return null;
  if (!wrong.has(place)) return { text: "·", classes: "same" };
  return { text: distance(want.dtype, wordsOf(want)[place], wordsOf(have)[place]), classes: "wrong" };
};

function inputs(vector) {
  const given = Object.entries(vector.inputs ?? {});
  const about = (name, tensor) => {
    const { Strides, Sizes } = vector.desc?.[name] ?? {};
    const strided = Strides && tensor.sizes.length === 1 && Sizes.length !== 1;
    return `${typeOf(tensor)}${strided ? ", the buffer" : ""}`;
  };
  return given.length ? section("Inputs", el("div", { class: "side" },
    given.map(([name, tensor]) => plainFigure(name, tensor, { about: about(name, tensor) })))) : null;
}

function attributes(vector) {
  const own = Object.entries(vector.attributes ?? {});
  return own.length ? section("Attributes", terms(...own.map(([name, value]) => [name, json(value)]))) : null;
}

const json = (value) => (Array.isArray(value) ? `[${value.join(", ")}]` : JSON.stringify(value));

/** Return a desc as a table with one row for each tensor. */
function description(vector) {
  const heads = ["DataType", "Sizes", "Strides", "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment", "Flags"];
  const isTensor = ([name, value]) => name.endsWith("Tensor") || Object.hasOwn(value ?? {}, "DataType");
  const fields = Object.entries(vector.desc);
  const others = fields.filter((field) => !isTensor(field));
  const named = (name) => (name === vector.expect?.error?.field ? [{ class: "named" }, " (named)"] : [{}, ""]);
  const row = ([name, value]) => {
    const [mark, more] = named(name);
    return el("tr", mark, el("th", { scope: "row" }, name, more), value
      ? heads.map((head) => el("td", {}, text(value[head])))
      : el("td", { colspan: heads.length, class: "muted" }, "absent"));
  };
  return section(`Desc, at feature level ${vector.feature_level.replace("_", ".")}`,
    el("div", { class: "scroll" }, el("table", { class: "desc" },
      headRow("", ...heads.map(breakable)), el("tbody", {}, fields.filter(isTensor).map(row)))),
    others.length ? terms(...others.map(([name, value]) => {
      const [mark, more] = named(name);
      return [[name, more], json(value), mark];
    })) : null);
}

const text = (value) => (value === null ? "packed" : Array.isArray(value) ? json(value) : String(value));

function rules(vector) {
  const words = (kind, names) => names.map((name) => [name, DATA.legend[kind][name] ?? ""]);
  const reference = (what, id) => (id ? [[what, el("a", { href: `#${id}` }, id)]] : []);
  return section("Rules and features", terms(
    ...words("clauses", vector.clause), ...words("flags", vector.flags),
    ...(vector.requires.length ? [["requires", vector.requires.join(", ")]] : []),
    ...reference("valid twin", vector.twin), ...reference("counts only beside", vector.beside)));
}
