// ---- The view in the address, and what can be taken away

const USUAL = structuredClone(state);

/** The address keeps the section and every choice that is not the usual one. */
function keepView() {
  const chosen = Object.entries(state).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(USUAL[key]));
  const section = location.hash.slice(1).split("&")[0].split("=").length === 1 ? location.hash.slice(1).split("&")[0] : "";
  const parts = chosen.map(([key, value]) => `${key}=${encodeURIComponent(JSON.stringify(value))}`);
  history.replaceState(null, "", `#${[section, ...parts].filter((part, i) => part || (i === 0 && parts.length)).join("&")}`);
}

const CHOICES = {
  dataset: (value) => Number.isInteger(value) && value in report.datasets,
  ideal: (value) => IDEALS.includes(value),
  groups: (value) => Array.isArray(value) && value.every((name) => GROUPS.includes(name)),
  metrics: (value) => Array.isArray(value) && value.every((name) => METRICS.some((metric) => metricName(metric) === name)),
  words: (value) => typeof value === "string",
  normalization: (value) => typeof value === "string",
  fusion: (value) => typeof value === "string",
  sort: (value) => value === null || ["number", "string"].includes(typeof value.key),
  paper: (value) => typeof value === "boolean",
  gridGroup: (value) => GROUPS.includes(value),
  gridMetric: (value) => METRICS.some((metric) => metricName(metric) === value),
  bandGroups: (value) => typeof value === "string",
  bandCut: (value) => value === null || typeof value === "string",
  rankGroup: (value) => GROUPS.includes(value),
  allRanks: (value) => typeof value === "boolean",
  one: (value) => value === null || Number.isInteger(value),
  other: (value) => value === null || Number.isInteger(value),
};

/** Takes over what an address asks for, as far as it makes sense here. */
function readView() {
  for (const part of location.hash.slice(1).split("&")) {
    const [key, text] = part.split(/=(.*)/s);
    if (text === undefined || !CHOICES[key]) continue;
    try {
      const value = JSON.parse(decodeURIComponent(text));
      if (CHOICES[key](value)) state[key] = value;
    } catch {
      // A broken address shows the usual view.
    }
  }
}

/** To the section that the address names, which the browser cannot find beside the choices. */
function goToSection() {
  const section = location.hash.slice(1).split("&")[0];
  if (section && !section.includes("=")) at(section)?.scrollIntoView();
}

const fileName = (name, suffix) => `${name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/-$/, "")}.${suffix}`;

function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Text that a spreadsheet would run as a formula gets an apostrophe before it.
const harmless = (field) => (/^([=@\t\r]|[+-][^\d.])/.test(field) ? `'${field}` : String(field));
const quoted = (field) => (/[",\n]/.test(field) ? `"${harmless(field).replaceAll('"', '""')}"` : harmless(field));
const csvText = (lines) => lines.map((line) => line.map(quoted).join(",") + "\n").join("");
const csvOf = (table) => csvText([...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
const downloadTable = () => download(fileName(dataset().name, "csv"), "text/csv", csvText(tableLines()));

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "font-family", "opacity"];

/** A chart as a file of its own, with the colours it has here. */
function svgText(chart) {
  const drawn = chart.querySelector(".plot svg");
  const copy = drawn.cloneNode(true);
  const [from, to] = [[drawn, ...drawn.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    to[i].setAttribute("style", DRAWN.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "tabindex", "aria-describedby"]) to[i].removeAttribute(name);
  });
  if (copy.querySelector('[style*="#hatch"]')) copy.prepend(at("svg").querySelector("defs").cloneNode(true));
  copy.setAttribute("xmlns", SVG);
  const ground = s("rect", { width: "100%", height: "100%", style: `fill:${getComputedStyle(chart).backgroundColor}` });
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

async function copyLatex(button) {
  const text = tableLatex();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without the clipboard's permission, as for files: the old way.
    const area = h("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy as LaTeX"; }, 1500);
}

/** Every chart and every table can be taken away. */
function buildDownloads() {
  for (const chart of document.querySelectorAll("figure[id]")) {
    const save = () => chart.querySelector(".plot svg") && download(fileName(`${dataset().name} ${chart.id}`, "svg"), "image/svg+xml", svgText(chart));
    chart.querySelector(".controls").append(h("button", { type: "button", class: "take", click: save }, "SVG"));
  }
  for (const table of document.querySelectorAll(".answer table.plain, #strategies table.plain, #losses table.plain, #labels table.plain, .night table.plain")) {
    const save = () => download(fileName(table.dataset.name, "csv"), "text/csv", csvOf(table));
    table.parentElement.after(h("button", { type: "button", class: "take", click: save }, "CSV"));
  }
}
