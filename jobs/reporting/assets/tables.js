// ---- The table

const shownMetrics = () => METRICS.filter((metric) => state.metrics.includes(metricName(metric)));
const shownAspects = () => aspectsOf(dataset(), GROUPS.filter((group) => state.groups.includes(group)), shownMetrics());
const warnings = (set) => set.warnings.map((text) => h("span", { class: "warning" }, `⚠ ${text}`));
const theirsOf = (row, aspect) => (state.paper ? dataset().paper?.rows[row.index][aspect.index] : null);

function shownRows() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = (row) =>
    (!state.normalization || row.normalization === state.normalization) &&
    (!state.fusion || row.fusion === state.fusion) &&
    words.every((word) => `${row.normalization} ${row.fusion}`.toLowerCase().includes(word));
  const rows = dataset().rows.filter(wanted);
  const { key, descending } = state.sort ?? usualSort();

  const by = (row) => (typeof key === "string" ? row[key] : row.values[key]?.mean) ?? null;
  const order = (a, b) => (descending ? -1 : 1) * ((a > b) - (a < b));
  return rows.sort((a, b) => (by(a) === null) - (by(b) === null) || order(by(a), by(b)));
}

/** Figures start with the largest, names with the first; another click turns the order round. */
function sortBy(key) {
  const [now, descending] = [state.sort ?? usualSort(), typeof key === "number"];
  state.sort = { key, descending: now.key === key ? !now.descending : descending };
  renderBody();
  keepView();
}

const startsGroup = (aspects, i) => aspects[i - 1]?.group !== aspects[i].group;

function renderHead() {
  const aspects = shownAspects();
  const head = (key, text, attributes) =>
    h("th", { scope: "col", "data-key": key, ...attributes }, h("button", { type: "button", click: () => sortBy(key) }, text));
  const group = (name) => {
    const colspan = aspects.filter((aspect) => aspect.group === name).length;
    return h("th", { class: "first", scope: "colgroup", colspan }, h("span", {}, `${name} labels`));
  };
  at("table").tHead.replaceChildren(
    h("tr", {}, h("th", { class: "name", colspan: 2, scope: "colgroup" }, dataset().name), distinct(aspects.map((aspect) => aspect.group)).map(group)),
    h("tr", {},
      head("normalization", "norm.", { class: "name", title: "normalisation" }),
      head("fusion", "fusion", { class: "name" }),
      aspects.map((aspect, i) => head(aspect.index, metricName(aspect), { class: startsGroup(aspects, i) && "first" }))));
}

function tableCell(row, aspect, first) {
  const value = row.values[aspect.index];
  if (!value) return h("td", { class: first && "first" }, NONE);
  const classes = ["value", first && "first", value.bold && "bold", value.best && "best"].filter(Boolean).join(" ");
  const deviation = known(value.std) && h("span", { class: "sd" }, `(${percent(value.std)})`);
  const theirs = theirsOf(row, aspect);
  const beside = theirs && h("span", { class: "theirs" }, `${percent(theirs[0])} `, h("b", {}, points(value.mean - theirs[0])));
  return mark(h("td", { class: classes }, percent(value.mean), deviation || "", beside), () => valueLines(dataset(), row, aspect));
}

function renderBody() {
  const [aspects, rows] = [shownAspects(), shownRows()];
  const name = (text, title) => h("th", { class: "name", scope: "row", title: title ?? text }, text);
  const line = (row) => h("tr", { class: row.single && "single" },
    name(row.normalization, row.normalization === "(any)" ? "reads only ranks: the same under every normalisation" : null),
    name(row.fusion, row.single ? row.name : null),
    aspects.map((aspect, i) => tableCell(row, aspect, startsGroup(aspects, i))));
  const none = h("tr", {}, h("td", { class: "empty", colspan: aspects.length + 2 }, "No row fits. Clear a filter."));
  at("table").tBodies[0].replaceChildren(...(rows.length ? rows.map(line) : [none]));
  for (const head of at("table").tHead.querySelectorAll("[data-key]")) {
    const { key, descending } = state.sort ?? usualSort();
    if (head.dataset.key !== String(key)) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }
  at("shown").textContent = `${dataset().name}: ${rows.length} of ${dataset().rows.length} rows`;
  enterAt(at("table").querySelector(".mark"));
}

function renderFoot() {
  const { paper } = dataset();
  const correlations = () => h("tr", {}, h("th", { class: "name", colspan: 2, scope: "row" }, "rank correlation"),
    shownAspects().map((aspect, i, aspects) => h("td", { class: startsGroup(aspects, i) && "first" }, known(paper.rank_correlation[aspect.index]) ? paper.rank_correlation[aspect.index].toFixed(2) : NONE)));
  at("table").tFoot.replaceChildren(...(state.paper && paper ? [correlations()] : []));
  at("paper-note").textContent = !state.paper ? "" : !paper ? "The paper has no table of this dataset."
    : `Second line of a value: the paper's (${paper.table}), and ours less the paper's. Rank correlation of the two: Spearman's, ` +
      `over ${paper.compared} cells.${paper.left_out ? ` Left out: ${paper.left_out}.` : ""}`;
}

function renderTable() {
  const sorted = typeof state.sort?.key === "string" || shownAspects().some((aspect) => aspect.index === state.sort?.key);
  if (!sorted) state.sort = null;
  at("out-of-order").textContent = dataset().out_of_order;
  at("table-name").textContent = `Results of ${dataset().name}`;
  at("table-warnings").replaceChildren(...warnings(dataset()));
  at("ideal").textContent = state.ideal === "all"
    ? "nDCG divides by the ideal ranking of all relevant labels of a text, also those of the other group, as the paper does."
    : "nDCG divides by the ideal ranking of the relevant labels of the ranked group alone.";
  renderHead();
  renderBody();
  renderFoot();
}

/** What the table shows, in percent: a line of names, then the rows. */
function tableLines() {
  const number = (share) => (known(share) ? Number((100 * share).toFixed(4)) : "");
  const kinds = ["mean", "std", ...(state.paper && dataset().paper ? ["paper mean", "paper std"] : [])];
  const figures = (row, aspect) => {
    const [value, theirs] = [row.values[aspect.index], theirsOf(row, aspect)];
    return [value?.mean, value?.std, theirs?.[0], theirs?.[1]].slice(0, kinds.length).map(number);
  };
  const heads = shownAspects().flatMap(({ group, metric, k, ideal }) => kinds.map((kind) => `${group} ${metric}${k ? `@${k}` : ""} ideal ${ideal} ${kind}`));
  const lines = shownRows().map((row) =>
    [dataset().name, row.normalization, row.fusion, ...shownAspects().flatMap((aspect) => figures(row, aspect))]);
  return [["dataset", "normalization", "fusion", ...heads], ...lines];
}

/** The same as a LaTeX table, for \\usepackage{booktabs}. */
function tableLatex() {
  const aspects = shownAspects();
  const tex = (text) => text.replace(/[&%$#_{}]/g, "\\$&").replaceAll("–", "--").replaceAll("−", "$-$");
  const groups = distinct(aspects.map((aspect) => aspect.group));
  const heads = groups.map((group) => `\\multicolumn{${aspects.filter((aspect) => aspect.group === group).length}}{c}{${tex(group)} labels}`);
  const cell = (value) => {
    if (!value) return "--";
    const mean = value.bold ? `\\textbf{${percent(value.mean)}}` : percent(value.mean);
    return (value.best ? `\\underline{${mean}}` : mean) + (known(value.std) ? `(${percent(value.std)})` : "");
  };
  const line = (words) => `${words.join(" & ")} \\\\`;
  return [
    `\\begin{tabular}{ll${"r".repeat(aspects.length)}}`, "\\toprule",
    line(["", "", ...heads]), line(["norm.", "fusion", ...aspects.map((aspect) => tex(metricName(aspect)))]), "\\midrule",
    ...shownRows().map((row) => line([tex(row.normalization), tex(row.fusion), ...aspects.map((aspect) => cell(row.values[aspect.index]))])),
    "\\bottomrule", "\\end{tabular}", "",
  ].join("\n");
}
