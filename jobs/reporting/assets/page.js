// ---- Controls

function select(label, options, current, change) {
  const option = ([key, text]) => h("option", { value: key, selected: key === current }, text);
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

/** Keeps what was chosen and draws what depends on it. */
const choose = (key, render) => (chosen) => {
  state[key] = chosen;
  render();
};

function buildBar() {
  const ideals = IDEALS.map((ideal) => [ideal, { all: "all labels", group: "the group's labels" }[ideal] ?? ideal]);
  at("bar").append(radios("Dataset", "dataset", report.datasets.map((set, i) => [i, set.name]), state.dataset, choose("dataset", renderAll)));
  if (ideals.length > 1) at("bar").append(radios("Ideal ranking of nDCG", "ideal", ideals, state.ideal, choose("ideal", renderAll)));
}

function buildTableControls() {
  const names = (key) => distinct(report.datasets.flatMap((set) => fusedOf(set).map((row) => row[key])));
  const single = report.datasets.flatMap(singlesOf)[0];
  const normalizations = [["", "all"], ...(single ? [[single.normalization, "single retrievers"]] : []), ...itself(names("normalization"))];
  const group = (name) => check(name, state.groups.has(name), (on) => {
    state.groups[on ? "add" : "delete"](name);
    renderTable();
  });
  const search = h("input", { type: "search", autocomplete: "off", input: (event) => choose("words", renderBody)(event.target.value) });
  at("table-controls").append(
    h("label", {}, h("span", {}, "Find rows"), search),
    select("Normalisation", normalizations, state.normalization, choose("normalization", renderBody)),
    select("Fusion", [["", "all"], ...itself(names("fusion"))], state.fusion, choose("fusion", renderBody)),
    h("fieldset", {}, h("legend", {}, "Labels"), GROUPS.map(group)),
    ...(report.datasets.some((set) => set.paper) ? [check("the paper's numbers", state.paper, choose("paper", renderTable))] : []),
    h("button", { type: "button", click: downloadCsv }, "Download CSV"),
  );
}

function buildFigureControls() {
  at("grid").querySelector(".controls").append(
    select("Labels", itself(GROUPS), state.gridGroup, choose("gridGroup", () => renderFigure("grid"))),
    select("Measure", itself(MEASURES.map(measureName)), state.gridMeasure, choose("gridMeasure", () => renderFigure("grid"))),
  );
  const bands = report.datasets.flatMap((set) => Object.values(set.bands).flat());
  const cuts = distinct(bands.flatMap((band) => Object.values(band.found).flatMap(Object.keys)));
  if (!cuts.length) return;
  state.bandCut = cuts.at(-1);
  at("bands").querySelector(".controls").append(
    select("Labels", itself(distinct([state.bandGroups, ...GROUPS])), state.bandGroups, choose("bandGroups", () => renderFigure("bands"))),
    select("Among the first", itself(cuts), state.bandCut, choose("bandCut", () => renderFigure("bands"))),
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
  renderOverview();
  renderTable();
  renderFigures();
}

function start() {
  buildTheme();
  at("made").textContent = `Made by xmtc-fusion ${report.version}.`;
  if (!COLUMNS.length) return;
  buildBar();
  buildTableControls();
  buildFigureControls();
  renderAll();
  at("runs").append(...report.datasets.map(runCard));
  watchMarks();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) renderFigures();
    width = innerWidth;
  });
}

start();
