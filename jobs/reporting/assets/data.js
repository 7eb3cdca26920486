"use strict";

// ---- Elements. Text goes in as text nodes only: no data is ever read as HTML.

const at = (id) => document.getElementById(id);
const SVG = at("svg").namespaceURI;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}
const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// ---- Words and numbers

const METRICS = { ndcg: "nDCG", precision: "P" };
const TESTS = { folds: "folds", queries: "texts", randomization: "randomisation" };
const VERDICTS = { better: "▲ better", worse: "▼ worse", "not told apart": "≈ not told apart", "not tested": "not tested" };
const NONE = "–";

const known = (number) => number !== null && number !== undefined;
const fixed = (number, digits) => (known(number) ? number.toFixed(digits).replace("-", "−") : NONE);
const percent = (share, digits = 1) => fixed(known(share) ? 100 * share : null, digits);
const count = (number) => number.toLocaleString("en");
const probability = (p) => (!known(p) ? NONE : p < 0.0001 ? "<\u00a00.0001" : String(Number(p.toPrecision(2))));
const distinct = (values) => [...new Set(values)];

/** A difference of shares, in points and with its sign. */
function points(share, digits = 1) {
  if (!known(share)) return NONE;
  const rounded = Number((100 * share).toFixed(digits));
  return (rounded > 0 ? "+" : "") + fixed(rounded === 0 ? 0 : rounded, digits);
}

const figure = ({ mean, std }) => percent(mean) + (known(std) ? `(${percent(std)})` : "");
const interval = ({ low, high }, digits) => (known(low) && known(high) ? ` (95%: ${points(low, digits)} to ${points(high, digits)})` : "");
const pValues = ({ p }) => Object.entries(TESTS).map(([test, name]) => `${name}\u00a0${probability(p[test])}`).join(" · ");
const told = (verdict) => verdict === "better" || verdict === "worse";
const measureName = ({ metric, k }) => `${METRICS[metric] ?? metric}@${k}`;
const columnName = (column) => `${column.group} ${measureName(column)}`;
const cellName = (row) => (row.single ? row.fusion : `${row.normalization} + ${row.fusion}`);

// ---- Data

const report = JSON.parse(at("data").textContent);

function asComparison(list) {
  if (!list) return null;
  const [difference, low, high, effect, folds, queries, randomization] = list;
  return { difference, low, high, effect, p: { folds, queries, randomization } };
}
function asValue(list) {
  if (!list) return null;
  const [mean, std, folds, best, bold, against] = list;
  return { mean, std, folds, best: best === 1, bold: bold === 1, against: asComparison(against) };
}
for (const set of report.datasets) {
  set.columns = set.columns.map(([group, metric, k, ideal], index) => ({ group, metric, k, ideal, index }));
  set.rows.forEach((row, index) => Object.assign(row, { index, values: row.values.map(asValue) }));
  set.gains.forEach((gain) => Object.assign(gain, { comparison: asComparison(gain.comparison), best: set.rows[gain.best] }));
}

const COLUMNS = report.datasets.flatMap((set) => set.columns);
const IDEALS = distinct(COLUMNS.map((column) => column.ideal));
const GROUPS = distinct(COLUMNS.map((column) => column.group));
/** The groups that share out the labels. */
const PARTS = GROUPS.length > 1 ? GROUPS.filter((group) => group !== "all") : GROUPS;
const MEASURES = [...new Map(COLUMNS.map((column) => [measureName(column), column])).values()];
const DECISIVE = MEASURES.find((measure) => measureName(measure) === "nDCG@10") ?? MEASURES.at(-1);

/** What the reader has chosen. */
const state = {
  dataset: 0,
  ideal: IDEALS.includes("all") ? "all" : IDEALS[0],
  groups: new Set(PARTS),
  words: "",
  normalization: "",
  fusion: "",
  sort: null,
  paper: false,
  gridGroup: PARTS[0],
  gridMeasure: DECISIVE && measureName(DECISIVE),
  bandGroups: PARTS.join(" and "),
  bandCut: null,
};
const dataset = () => report.datasets[state.dataset];

/** The column of a group and a measure with the chosen ideal, or with that of all labels where it has no other. */
function columnOf(set, group, { metric, k }) {
  const found = set.columns.filter((column) => column.group === group && column.metric === metric && column.k === k);
  return found.find((column) => column.ideal === state.ideal) ?? found.find((column) => column.ideal === "all");
}
const columnsOf = (set, groups) => groups.flatMap((group) => MEASURES.map((measure) => columnOf(set, group, measure)).filter(Boolean));
const gainOf = (set, column) => set.gains.find((gain) => gain.column === column.index);
const bestOf = (set, column) => set.rows.find((row) => row.values[column.index]?.best);
const singlesOf = (set) => set.rows.filter((row) => row.single);
const fusedOf = (set) => set.rows.filter((row) => !row.single);
