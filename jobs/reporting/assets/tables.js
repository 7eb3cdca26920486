// ---- Overview

/** What a reader must know before believing a dataset's figures. */
function warnings({ folds, missing }) {
  const notes = [];
  if (missing.length) notes.push(`⚠ ${missing.length > 1 ? "folds" : "fold"} ${missing.join(", ")} missing`);
  if (folds.length === 1) notes.push("⚠ one fold only: no standard deviation, no test");
  return notes.map((note) => h("span", { class: "warning" }, note));
}

/** How many fused cells are the best or, by a test, not told apart from it; nothing where it was not made. */
function ties(set, column, test) {
  const values = fusedOf(set).map((row) => row.values[column.index]);
  const tested = values.filter((value) => value?.best || known(value?.against?.p[test]));
  return tested.length > 1 ? tested.filter((value) => value.best || value.against.p[test] >= report.alpha).length : NONE;
}

function gainLines({ comparison, verdict, better_single: single }) {
  return [
    h("p", {}, h("span", { class: `verdict ${verdict}` }, VERDICTS[verdict]),
      ` ${told(verdict) ? "than" : "against"} ${single}: ${points(comparison.difference)} points${interval(comparison)}`),
    h("p", { class: "small" }, `p: ${pValues(comparison)}; effect size ${fixed(comparison.effect, 2)}`),
  ];
}

/** The best cell of a label group beside each retriever. */
function overviewGroup(set, group) {
  const column = columnOf(set, group, DECISIVE);
  const best = column && bestOf(set, column);
  if (!best) return h("div", { class: "group" }, h("h4", {}, `${group} labels`), h("p", { class: "small" }, "No figures."));
  const value = (row) => row.values[column.index];
  const sides = [best, ...singlesOf(set).filter(value)];
  const top = Math.max(...sides.map((row) => value(row).mean)) || 1;
  const side = (row) => {
    const bar = h("i");
    bar.style.width = `${(100 * value(row).mean) / top}%`;
    return h("tr", { class: row === best && "best" },
      h("th", { scope: "row", title: cellName(row) }, cellName(row)),
      h("td", { class: "meter", "aria-hidden": "true" }, bar),
      h("td", {}, figure(value(row))),
      h("td", {}, row === best ? h("small", {}, "gain") : points(value(best).mean - value(row).mean)));
  };
  const tests = Object.entries(TESTS).map(([test, name]) => `${name}\u00a0${ties(set, column, test)}${test === report.test ? "\u00a0(decides)" : ""}`);
  const gain = gainOf(set, column);
  return h("div", { class: "group" },
    h("h4", {}, `${group} labels `, h("small", {}, `${measureName(column)}, ${count(set.queries[group] ?? 0)} texts`)),
    h("table", { class: "sides" }, h("tbody", {}, sides.map(side))),
    gain && gainLines(gain),
    h("p", { class: "small" }, `Best or not told apart from it, of ${fusedOf(set).length} cells: ${tests.join(" · ")}`));
}

function renderOverview() {
  const others = Object.keys(TESTS).filter((test) => test !== report.test).map((test) => report.tests[test]);
  at("deciding").textContent =
    `The bold face is decided by the ${report.tests[report.test]}, at ${Number((100 * report.alpha).toFixed(3))}%. Beside it stand the ` +
    `${others.join("; and the ")}. A gain is called better or worse only if the folds and the texts both say so.`;
  at("cards").replaceChildren(...report.datasets.map((set) => h("article", { class: "card" },
    h("h3", {}, set.name, h("small", {}, set.folds.length === 1 ? "1 fold" : `${set.folds.length} folds`), warnings(set)),
    h("div", { class: "groups" }, PARTS.map((group) => overviewGroup(set, group))))));
}

// ---- The table

const shownColumns = () => columnsOf(dataset(), GROUPS.filter((group) => state.groups.has(group)));
const theirsOf = (row, column) => (state.paper ? dataset().paper?.rows[row.index][column.index] : null);

function shownRows() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = (row) =>
    (!state.normalization || row.normalization === state.normalization) &&
    (!state.fusion || row.fusion === state.fusion) &&
    words.every((word) => `${row.normalization} ${row.fusion}`.toLowerCase().includes(word));
  const rows = dataset().rows.filter(wanted);
  if (!state.sort) return rows;
  const { key, descending } = state.sort;
  const by = (row) => (typeof key === "string" ? row[key] : row.values[key]?.mean) ?? null;
  const order = (a, b) => (descending ? -1 : 1) * ((a > b) - (a < b));
  return rows.sort((a, b) => (by(a) === null) - (by(b) === null) || order(by(a), by(b)));
}

/** Figures start with the largest, names with the first; a third click gives the grid's order back. */
function sortBy(key) {
  const descending = typeof key === "number";
  if (state.sort?.key !== key) state.sort = { key, descending };
  else state.sort = state.sort.descending === descending ? { key, descending: !descending } : null;
  renderBody();
}

const startsGroup = (columns, i) => columns[i - 1]?.group !== columns[i].group;

function renderHead() {
  const columns = shownColumns();
  const head = (key, text, attributes) =>
    h("th", { scope: "col", "data-key": key, ...attributes }, h("button", { type: "button", click: () => sortBy(key) }, text));
  const group = (name) => {
    const colspan = columns.filter((column) => column.group === name).length;
    return h("th", { class: "first", scope: "colgroup", colspan }, h("span", {}, `${name} labels`));
  };
  at("table").tHead.replaceChildren(
    h("tr", {}, h("th", { class: "name", colspan: 2, scope: "colgroup" }, dataset().name), distinct(columns.map((column) => column.group)).map(group)),
    h("tr", {},
      head("normalization", "norm.", { class: "name", title: "normalisation" }),
      head("fusion", "fusion", { class: "name" }),
      columns.map((column, i) => head(column.index, measureName(column), { class: startsGroup(columns, i) && "first" }))));
}

function tableCell(row, column, first) {
  const value = row.values[column.index];
  if (!value) return h("td", { class: first && "first" }, NONE);
  const classes = ["value", first && "first", value.bold && "bold", value.best && "best"].filter(Boolean).join(" ");
  const deviation = known(value.std) && h("span", { class: "sd" }, `(${percent(value.std)})`);
  const theirs = theirsOf(row, column);
  const beside = theirs && h("span", { class: "theirs" }, `${percent(theirs[0])} `, h("b", {}, points(value.mean - theirs[0])));
  return mark(h("td", { class: classes }, percent(value.mean), deviation || "", beside), () => valueLines(dataset(), row, column));
}

function renderBody() {
  const [columns, rows] = [shownColumns(), shownRows()];
  const name = (text, title) => h("th", { class: "name", scope: "row", title: title ?? text }, text);
  const line = (row) => h("tr", { class: row.single && "single" },
    name(row.normalization), name(row.fusion, row.single ? `${row.fusion}: a retriever alone` : null),
    columns.map((column, i) => tableCell(row, column, startsGroup(columns, i))));
  const none = h("tr", {}, h("td", { class: "empty", colspan: columns.length + 2 }, "No row fits. Clear a filter."));
  at("table").tBodies[0].replaceChildren(...(rows.length ? rows.map(line) : [none]));
  for (const head of at("table").tHead.querySelectorAll("[data-key]")) {
    if (head.dataset.key !== String(state.sort?.key)) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", state.sort.descending ? "descending" : "ascending");
  }
  at("shown").textContent = `${dataset().name}: ${rows.length} of ${dataset().rows.length} rows`;
  enterAt(at("table").querySelector(".mark"));
}

function renderFoot() {
  const { paper } = dataset();
  const correlations = () => h("tr", {}, h("th", { class: "name", colspan: 2, scope: "row" }, "rank correlation"),
    shownColumns().map((column, i, columns) => h("td", { class: startsGroup(columns, i) && "first" }, fixed(paper.rank_correlation[column.index], 2))));
  at("table").tFoot.replaceChildren(...(state.paper && paper ? [correlations()] : []));
  at("paper-note").textContent = !state.paper ? "" : !paper ? "The paper has no table of this dataset."
    : `Second line of a value: the paper's (${paper.table}), and ours less the paper's. Rank correlation of the two: Spearman's, ` +
      `over ${paper.compared} cells.${paper.left_out ? ` Left out: ${paper.left_out}.` : ""}`;
}

function renderTable() {
  const sorted = typeof state.sort?.key === "string" || shownColumns().some((column) => column.index === state.sort?.key);
  if (!sorted) state.sort = null;
  at("table-name").textContent = `Results of ${dataset().name}`;
  at("table-warnings").replaceChildren(...warnings(dataset()));
  at("ideal").textContent = state.ideal === "all"
    ? "nDCG divides by the ideal ranking of all relevant labels of a text, also those of the other group, as the paper does."
    : "nDCG divides by the ideal ranking of the relevant labels of the ranked group alone.";
  renderHead();
  renderBody();
  renderFoot();
}

/** What the table shows, in percent. */
function csv() {
  const number = (share) => (known(share) ? Number((100 * share).toFixed(4)) : "");
  const quoted = (field) => (/[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
  const kinds = ["mean", "std", ...(state.paper && dataset().paper ? ["paper mean", "paper std"] : [])];
  const figures = (row, column) => {
    const [value, theirs] = [row.values[column.index], theirsOf(row, column)];
    return [value?.mean, value?.std, theirs?.[0], theirs?.[1]].slice(0, kinds.length).map(number);
  };
  const heads = shownColumns().flatMap(({ group, metric, k, ideal }) => kinds.map((kind) => `${group} ${metric}@${k} ideal ${ideal} ${kind}`));
  const lines = shownRows().map((row) =>
    [dataset().name, row.normalization, row.fusion, ...shownColumns().flatMap((column) => figures(row, column))]);
  return [["dataset", "normalization", "fusion", ...heads], ...lines].map((line) => line.map(quoted).join(",") + "\n").join("");
}

function downloadCsv() {
  const url = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  h("a", { href: url, download: `${dataset().name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// ---- What was run

function runCard(set) {
  const facts = [
    ["metrics from", set.sources.map((source) => h("div", {}, source))],
    ["evaluated (UTC)", set.evaluated],
    ["code", set.version],
    ["folds", set.folds.join(", ")],
    ["texts that count", Object.entries(set.queries).map(([group, texts]) => `${group}\u00a0${count(texts)}`).join(" · ")],
    ...Object.entries(set.input_counts).map(([name, number]) => [name, count(number)]),
  ];
  return h("article", { class: "card" },
    h("h3", {}, set.name, warnings(set)),
    h("dl", {}, facts.map(([name, fact]) => [h("dt", {}, name), h("dd", {}, fact)])),
    h("details", {}, h("summary", {}, "Configuration"), h("pre", { tabindex: "0" }, set.config)));
}
