// ---- Controls

function select(label, options, current, change) {
  const option = ([key, text]) => h("option", { value: key, selected: String(key) === String(current) }, text);
  return h("label", {}, h("span", {}, label), h("select", { autocomplete: "off", change: (event) => change(event.target.value) }, options.map(option)));
}

function check(label, checked, change) {
  const input = h("input", { type: "checkbox", autocomplete: "off", checked, change: (event) => change(event.target.checked) });
  return h("label", { class: "check" }, input, h("span", {}, label));
}

function radios(legend, name, options, current, change) {
  const pick = ([key, text]) => h("label", { class: "pick" },
    h("input", { type: "radio", autocomplete: "off", name, value: key, checked: key === current, change: () => change(key) }), h("span", {}, text));
  return h("fieldset", {}, h("legend", {}, legend), options.map(pick));
}

const itself = (names) => names.map((name) => [name, name]);

/** Keeps what was chosen, draws what depends on it, and notes it in the address. */
const choose = (key, render, read = (chosen) => chosen) => (chosen) => {
  state[key] = read(chosen);
  render();
  keepView();
};

/** Checkboxes for several of some names, which stay in their order. */
function checks(legend, key, names, render) {
  const one = (name) => check(name, state[key].includes(name), (on) => {
    state[key] = names.filter((other) => (other === name ? on : state[key].includes(other)));
    render();
    keepView();
  });
  return h("fieldset", {}, h("legend", {}, legend), names.map(one));
}

function buildBar() {
  const ideals = IDEALS.map((ideal) => [ideal, { all: "all labels", group: "the group's labels" }[ideal] ?? ideal]);
  const other = () => {
    Object.assign(state, usualPair(), { sort: null });
    Object.assign(USUAL, usualPair());
    buildCompareControls();
    renderAll();
  };
  if (report.datasets.length > 1) at("bar").append(radios("Dataset", "dataset", report.datasets.map((set, i) => [i, set.name]), state.dataset, choose("dataset", other)));
  if (ideals.length > 1) at("bar").append(radios("Ideal ranking of nDCG", "ideal", ideals, state.ideal, choose("ideal", renderAll)));
  at("bar").hidden = !at("bar").children.length;
}

function buildTableControls() {
  const rows = report.datasets.flatMap((set) => set.rows);
  const normalizations = distinct(rows.map((row) => row.normalization)).map((name) => [name, { single: "single retrievers", "(any)": "(any): reads ranks only" }[name] ?? name]);
  const search = h("input", { type: "search", autocomplete: "off", input: (event) => choose("words", renderBody)(event.target.value) });
  search.value = state.words;
  const latex = h("button", { type: "button", click: () => copyLatex(latex) }, "Copy as LaTeX");
  at("table-controls").append(
    h("label", {}, h("span", {}, "Find rows"), search),
    select("Normalisation", [["", "all"], ...normalizations], state.normalization, choose("normalization", renderBody)),
    select("Fusion", [["", "all"], ...itself(distinct(rows.map((row) => row.fusion)))], state.fusion, choose("fusion", renderBody)),
    checks("Labels", "groups", GROUPS, renderTable),
    checks("Metrics", "metrics", METRICS.map(metricName), renderTable),
    ...(report.datasets.some((set) => set.paper) ? [check("the paper's numbers", state.paper, choose("paper", renderTable))] : []),
    h("button", { type: "button", click: downloadTable }, "Download CSV"),
    latex,
  );
}

function buildFigureControls() {
  at("grid").querySelector(".controls").append(
    select("Labels", itself(GROUPS), state.gridGroup, choose("gridGroup", () => renderChart("grid"))),
    select("Metric", itself(METRICS.map(metricName)), state.gridMetric, choose("gridMetric", () => renderChart("grid"))),
  );
  const ranked = distinct(report.datasets.flatMap((set) => set.rankings.map((ranking) => ranking.label_group)));
  if (ranked.length) at("ranks").querySelector(".controls").append(
    select("Labels", itself(ranked), state.rankGroup, choose("rankGroup", () => renderChart("ranks"))),
    check("all cells", state.allRanks, choose("allRanks", () => renderChart("ranks"))),
  );
  const bands = report.datasets.flatMap((set) => Object.values(set.bands).flat());
  const cuts = distinct(bands.flatMap((band) => Object.values(band.found).flatMap(Object.keys)));
  if (!cuts.length) return;
  USUAL.bandCut = cuts.at(-1);
  state.bandCut = cuts.includes(state.bandCut) ? state.bandCut : cuts.at(-1);
  at("bands").querySelector(".controls").append(
    select("Labels", itself(distinct([...GROUPS, PARTS.join(" and ")])), state.bandGroups, choose("bandGroups", () => renderChart("bands"))),
    select("Among the first", itself(cuts), state.bandCut, choose("bandCut", () => renderChart("bands"))),
  );
}

function buildCompareControls() {
  const options = dataset().rows.map((row) => [row.index, row.name]);
  const save = () => download(fileName(`${dataset().name} compared`, "csv"), "text/csv", [...at("compared").querySelectorAll("table")].map(csvOf).join("\n"));
  at("compare-controls").replaceChildren(
    select("One cell", options, state.one, choose("one", renderCompare, Number)),
    select("The other", options, state.other, choose("other", renderCompare, Number)),
    h("button", { type: "button", click: save }, "Download CSV"),
  );
}

// ---- Light and dark: as the system says, until the reader says otherwise

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";

function nameTheme() {
  at("theme").textContent = isDark() ? "Light" : "Dark";
}

function buildTheme() {
  at("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();
}

// ---- The page

function renderAll() {
  renderTable();
  renderCompare();
  renderCharts();
}

function start() {
  buildTheme();
  if (!ASPECTS.length) return;
  readView();
  Object.assign(USUAL, usualPair());
  state.one ??= USUAL.one;
  state.other ??= USUAL.other;
  buildBar();
  buildTableControls();
  buildFigureControls();
  buildCompareControls();
  renderAll();
  buildDownloads();
  watchMarks();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) renderCharts();
    width = innerWidth;
  });
  addEventListener("hashchange", () => (location.hash.includes("=") ? location.reload() : keepView()));
  goToSection();
}

start();
