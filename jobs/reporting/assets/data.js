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

// ---- Data

const report = JSON.parse(at("data").textContent);
const TESTS = report.test_names;

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
const pValues = ({ p }) => Object.entries(TESTS).map(([test, name]) => `${name}\u00a0${pValue(p[test])}`).join(" · ");

for (const set of report.datasets) {
  set.aspects = set.aspects.map(([group, metric, k, ideal], index) => ({ group, metric, k, ideal, index }));
  set.rows.forEach((row, index) => Object.assign(row, { index, values: row.values.map(asValue) }));
  set.gains.forEach((gain) => Object.assign(gain, {
    comparison: asComparison(gain.comparison), best: set.rows[gain.best], single: set.rows[gain.better_single],
  }));
}

const ASPECTS = report.datasets.flatMap((set) => set.aspects);
const IDEALS = distinct(ASPECTS.map((aspect) => aspect.ideal));
/** All labels first: that is what is deployed. */
const GROUPS = distinct(ASPECTS.map((aspect) => aspect.group)).sort((a, b) => (b === "all") - (a === "all"));
const byGroup = (one, other) => GROUPS.indexOf(one) - GROUPS.indexOf(other);
/** The groups that share out the labels. */
const PARTS = GROUPS.length > 1 ? GROUPS.filter((group) => group !== "all") : GROUPS;
const METRICS = [...new Map(ASPECTS.map((aspect) => [metricName(aspect), aspect])).values()];
const DECISIVE = METRICS.find((metric) => metricName(metric) === "nDCG@10") ??
  METRICS.filter((metric) => metric.metric === "ndcg").at(-1) ?? METRICS.at(-1);
const NARROW = innerWidth < 640;

/** What the reader has chosen; the address keeps what differs from these. */
const state = {
  dataset: 0,
  ideal: IDEALS.includes("all") ? "all" : IDEALS[0],
  groups: GROUPS,
  metrics: METRICS.map(metricName).filter((name) => !NARROW || name === metricName(DECISIVE) || name === "P@1"),
  words: "",
  normalization: "",
  fusion: "",
  sort: null,
  paper: false,
  gridGroup: GROUPS[0],
  gridMetric: DECISIVE && metricName(DECISIVE),
  bandGroups: GROUPS[0],
  bandCut: null,
  rankGroup: GROUPS[0],
  allRanks: false,
  one: null,
  other: null,
};
const dataset = () => report.datasets[state.dataset];

/** The aspect of a group and a metric with the chosen ideal, or with that of all labels where it has no other. */
function aspectOf(set, group, { metric, k }) {
  const found = set.aspects.filter((aspect) => aspect.group === group && aspect.metric === metric && aspect.k === k);
  return found.find((aspect) => aspect.ideal === state.ideal) ?? found.find((aspect) => aspect.ideal === "all");
}
const aspectsOf = (set, groups, metrics = METRICS) =>
  groups.flatMap((group) => metrics.map((metric) => aspectOf(set, group, metric)).filter(Boolean));
const gainOf = (set, aspect) => set.gains.find((gain) => gain.aspect === aspect.index);
const bestOf = (set, aspect) => set.rows.find((row) => row.values[aspect.index]?.best);
const singlesOf = (set) => set.rows.filter((row) => row.single);
const fusedOf = (set) => set.rows.filter((row) => !row.single);
/** Sorted by the decisive metric of the most important group. */
const usualSort = () => ({ key: aspectOf(dataset(), GROUPS[0], DECISIVE)?.index ?? 0, descending: true });
