// ---- Drawing

const SHAPES = ["M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0", "M-4,-4h8v8h-8z", "M0,-5.5L5,4H-5z", "M0,-6L6,0L0,6L-6,0z"];
const DASHES = ["7 3", "2 3", "9 3 2 3", "4 4"];
const shape = (i, x, y, attributes) => s("path", { d: SHAPES[i % SHAPES.length], transform: `translate(${x},${y})`, ...attributes });
const colour = (i) => `var(--c${i % 4})`;
const text = (x, y, content, attributes = {}) => s("text", { x, y, ...attributes }, content);
const box = (x, y, width, height, attributes = {}) => s("rect", { x, y, width: Math.max(0, width), height, ...attributes });
const line = (x1, y1, x2, y2, attributes) => s("line", { x1, y1, x2, y2, ...attributes });

/** The width of the widest of some words, as the figures print them. */
function widest(words) {
  const pen = (widest.pen ??= document.createElement("canvas").getContext("2d"));
  pen.font = `bold 12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.max(0, ...words.map((word) => pen.measureText(word ?? "").width));
}

/** Draws a figure: `draw(dataset, width)` gives the height, the nodes and what follows, or says why there is nothing. */
function plot(id, draw) {
  const place = at(id).querySelector(".plot");
  const width = place.clientWidth;
  const drawn = draw(dataset(), width);
  if (typeof drawn === "string") return place.replaceChildren(h("p", { class: "small" }, drawn));
  const [height, nodes, ...after] = drawn;
  const name = at(id).querySelector("h3").textContent;
  place.replaceChildren(s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": name }, nodes), ...after);
  enterAt(place.querySelector(".mark"));
}

function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= rough * 0.999);
  const [first, last] = [Math.ceil(low / step), Math.floor(high / step)];
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}
const tickName = (tick, unit) => String(Number((100 * tick).toFixed(6))).replace("-", "−") + unit;

/** Rows along a scale: headings ({head}) and rows ({label, note, strong, lines, draw(x, y)}). */
function rowChart(width, rows, low, high, unit) {
  const step = 22;
  const [left, right] = [widest(rows.map((row) => row.label)) + 24, widest(rows.map((row) => row.note)) + 16];
  const x = (share) => left + ((share - low) / (high - low)) * (width - left - right);
  const bottom = rows.length * step + 4;
  const scale = ticks(low, high, (width - left - right) / 60).map((tick) => [
    line(x(tick), 4, x(tick), bottom, { class: tick === 0 ? "zero" : "grid-line" }),
    text(x(tick), bottom + 15, tickName(tick, unit), { class: "soft", "text-anchor": "middle" }),
  ]);
  const lines = rows.map((row, i) => {
    const y = (i + 0.5) * step + 2;
    if (row.head) return text(0, y + 5, row.head, { class: "strong" });
    const note = text(width - 4, y + 4, row.note, { class: row.strong && "strong", "text-anchor": "end" });
    return mark(s("g", {}, box(1, y - step / 2 + 1, width - 2, step - 2, { class: "target", rx: 4 }), text(14, y + 4, row.label), row.draw(x, y), note), row.lines);
  });
  return [bottom + 22, [scale, lines]];
}

/** A heading for each group, then a row for each of its measures. */
function rowsByGroup(set, row) {
  return GROUPS.flatMap((group, i) => {
    const rows = columnsOf(set, [group]).map((column) => row(column, i)).filter(Boolean);
    return rows.length ? [{ head: `${group} labels` }, ...rows] : [];
  });
}

// ---- The grid as a heat map

const CIVIDIS = [[0, 32, 77], [49, 68, 107], [102, 105, 112], [149, 143, 120], [203, 186, 105], [255, 234, 70]];

function heat(share) {
  const position = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const i = Math.min(Math.floor(position), CIVIDIS.length - 2);
  return CIVIDIS[i].map((from, channel) => Math.round(from + (position - i) * (CIVIDIS[i + 1][channel] - from)));
}

/** Black or white, whichever stands out more (the luminance of WCAG). */
function contrasting(rgb) {
  const [r, g, b] = rgb.map((c) => (c <= 10 ? c / 3295 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

function drawGrid(set, width) {
  const column = columnOf(set, state.gridGroup, MEASURES.find((measure) => measureName(measure) === state.gridMeasure));
  const value = (row) => row.values[column.index];
  const cells = column ? fusedOf(set).filter(value) : [];
  if (!cells.length) return "This dataset has no such figures.";
  const means = cells.map((row) => value(row).mean).sort((a, b) => a - b);
  // A few cells are far below all others: the scale starts at the lowest tenth, so that the others differ in colour.
  const [low, high] = [means[Math.floor(means.length / 10)], means.at(-1)];
  const [down, across] = width < 640 ? ["fusion", "normalization"] : ["normalization", "fusion"];
  const [names, heads] = [down, across].map((key) => distinct(cells.map((row) => row[key])));
  const [left, top, tall] = [widest(names) + 8, 22, 30];
  const wide = (width - left) / heads.length;
  const size = Math.min(12, (12 * (wide - 3)) / widest(heads));
  const cell = (row) => {
    const [x, y] = [left + heads.indexOf(row[across]) * wide, top + names.indexOf(row[down]) * tall];
    const { mean, best, bold } = value(row);
    const rgb = heat((mean - low) / (high - low || 1));
    const inside = (gap, attributes) => box(x + gap, y + gap, wide - 2 * gap, tall - 2 * gap, { rx: 3, ...attributes });
    const number = { "text-anchor": "middle", class: bold && "strong", style: `fill:${contrasting(rgb)}` };
    return mark(s("g", {}, inside(1, { fill: `rgb(${rgb})` }), best ? [inside(1.5, { class: "frame" }), inside(3.5, { class: "frame-inner" })] : "",
      inside(1, { class: "target" }), text(x + wide / 2, y + 19.5, percent(mean), number)), () => valueLines(set, row, column));
  };
  const end = top + names.length * tall + 10;
  return [end + 16, [
    names.map((name, i) => text(0, top + i * tall + 20, name)),
    heads.map((name, i) => text(left + (i + 0.5) * wide, 14, name, { "text-anchor": "middle", style: `font-size:${size}px` })),
    cells.map(cell),
    Array.from({ length: 40 }, (_, i) => box(left + i * 4, end, 4.5, 10, { fill: `rgb(${heat(i / 39)})` })),
    text(left - 6, end + 9, (low > means[0] ? "≤ " : "") + percent(low), { "text-anchor": "end", class: "soft" }),
    text(left + 166, end + 9, percent(high), { class: "soft" }),
  ]];
}

// ---- Gains, ceilings, agreement

function gainRow(set, column, i) {
  const gain = gainOf(set, column);
  if (!gain) return null;
  const { comparison, best, verdict, better_single: single } = gain;
  const { difference, low, high } = comparison;
  const alone = singlesOf(set).find((row) => row.fusion === single);
  return {
    label: measureName(column),
    note: points(difference),
    strong: told(verdict),
    draw: (x, y) => [
      known(low) && known(high) ? line(x(low), y, x(high), y, { class: "interval", stroke: colour(i) }) : "",
      shape(i, x(difference), y, { stroke: colour(i), "stroke-width": 2, fill: told(verdict) ? colour(i) : "var(--panel)" }),
    ],
    lines: () => [
      `${columnName(column)}: ${verdict}`,
      ["best cell", `${cellName(best)} ${figure(best.values[column.index])}`],
      ["alone", `${single} ${alone ? figure(alone.values[column.index]) : ""}`],
      ["gain", points(difference, 2) + interval(comparison, 2)],
      ...effectLines(comparison),
    ],
  };
}

function drawGain(set, width) {
  const shown = columnsOf(set, GROUPS).map((column) => gainOf(set, column)?.comparison).filter(Boolean);
  if (!shown.length) return "These results hold no single retriever.";
  const ends = shown.flatMap(({ difference, low, high }) => [low ?? difference, high ?? difference]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0.001, ...ends)];
  const rows = rowsByGroup(set, (column, i) => gainRow(set, column, i));
  return rowChart(width, rows, low - 0.04 * (high - low), high + 0.04 * (high - low), "");
}

const NO_LISTS = "These results hold no counts of the retrievers' lists.";

function drawCeiling(set, width) {
  const rows = rowsByGroup(set, (column) => {
    const ceiling = set.agreement.find((one) => one.label_group === column.group)?.ceiling[column.index];
    const best = bestOf(set, column);
    if (!known(ceiling) || !best) return null;
    const { mean } = best.values[column.index];
    return {
      label: measureName(column),
      note: `${percent(mean)} of ${percent(ceiling)}`,
      draw: (x, y) => [box(x(0), y - 5, x(mean) - x(0), 10, { class: "bar-fill" }), line(x(ceiling), y - 8, x(ceiling), y + 8, { class: "stroke" })],
      lines: () => [
        columnName(column),
        ["best cell", `${cellName(best)} ${figure(best.values[column.index])}`],
        ["ceiling", percent(ceiling)],
        ["reached", ceiling ? `${percent(mean / ceiling)}% of it` : NONE],
      ],
    };
  });
  return rows.length ? rowChart(width, rows, 0, 1, "%") : NO_LISTS;
}

function drawAgreement(set, width) {
  const bar = (x, y, from, to, attributes) => box(x(from), y - 6, x(to) - x(from), 12, attributes);
  const rows = set.agreement.flatMap(({ label_group: group, candidates, overlap, found, alone, union }) => {
    const common = overlap.map(([one, other, share]) => [`${one}, ${other}`, `${percent(share)}% of their candidates in common`]);
    const row = (label, share, strong, lines, draw) => ({ label, note: `${percent(share)}%`, strong, lines: () => [...lines, ...common], draw });
    const singles = Object.keys(found).map((name) => row(name, found[name], false, [
      `${group} labels: ${name}`,
      ["finds", `${percent(found[name])}% of the relevant labels`],
      ["alone", `${percent(alone[name])}% are in no other list`],
      ["candidates", `${fixed(candidates[name], 1)} a text`],
    ], (x, y) => [
      bar(x, y, 0, found[name] - alone[name], { class: "bar-fill" }),
      bar(x, y, found[name] - alone[name], found[name], { class: "hatched" }),
    ]));
    const together = row("together", union, true, [
      `${group} labels: the retrievers together`,
      ["find", `${percent(union)}% of the relevant labels: no fusion finds more`],
    ], (x, y) => bar(x, y, 0, union, { class: "bar-fill union" }));
    return [{ head: `${group} labels` }, ...singles, together];
  });
  return rows.length ? rowChart(width, rows, 0, 1, "%") : NO_LISTS;
}

// ---- Found labels by label frequency

const frequencies = ({ rarest, commonest }) => (rarest === commonest ? count(rarest) : `${count(rarest)}–${count(commonest)}`);
const foundIn = (band, row) => band.found[row.index]?.[state.bandCut] ?? null;

/** The chosen groups, each with its bands and its lines: the single retrievers and the best cell. */
function bandPanels(set) {
  const cut = MEASURES.find(({ metric, k }) => metric === DECISIVE.metric && String(k) === state.bandCut) ?? DECISIVE;
  return state.bandGroups.split(" and ").filter((group) => set.bands[group]?.length).map((group) => {
    const column = columnOf(set, group, cut);
    const best = column && bestOf(set, column);
    const singles = singlesOf(set).map((row, i) => ({ row, form: i % 3, stroke: colour(i), dash: DASHES[i % DASHES.length], class: "series" }));
    return { group, bands: set.bands[group], series: [...singles, ...(best ? [{ row: best, form: 3, stroke: "var(--ink)", class: "series thick" }] : [])] };
  });
}

function drawPanel({ group, bands, series }, start, step, y, height, steep) {
  const x = (i) => start + (i + 0.5) * step;
  const path = ({ row }) => bands.map((band, i) => [x(i), foundIn(band, row)]).filter(([, share]) => known(share)).map(([px, share]) => `${px},${y(share)}`).join(" ");
  const place = (px, low) => (steep ? { "text-anchor": "end", transform: `rotate(-45 ${px} ${low - 4})` } : { "text-anchor": "middle" });
  const lines = (band) => [
    `${group} labels of ${frequencies(band)} texts (tenth ${band.number})`,
    ...series.map((one) => [cellName(one.row), `${percent(foundIn(band, one.row))}%`]),
    ["labels", count(band.labels)],
    ["pairs", count(band.pairs)],
  ];
  const point = (band, i) => mark(s("g", {},
    box(x(i) - step / 2, 24, step, height - 24, { class: "target", rx: 4 }),
    series.filter((one) => known(foundIn(band, one.row))).map((one) => shape(one.form, x(i), y(foundIn(band, one.row)), { fill: one.stroke })),
    text(x(i), height + 16, frequencies(band), { class: "soft", ...place(x(i), height + 16) })), () => lines(band));
  return [
    text(start + 3, 13, group, { class: "strong" }),
    series.map((one) => s("polyline", { class: one.class, stroke: one.stroke, "stroke-dasharray": one.dash, points: path(one) })),
    bands.map(point),
  ];
}

function bandLegend(panels) {
  const sample = ({ form, stroke, dash, class: kind }) => s("svg", { width: 34, height: 14, "aria-hidden": "true" },
    line(0, 7, 34, 7, { class: kind, stroke, "stroke-dasharray": dash }), shape(form, 17, 7, { fill: stroke }));
  const bests = distinct(panels.map(({ series }) => cellName(series.at(-1).row)));
  const name = (one) => (one.row.single ? cellName(one.row) : `best cell: ${bests.join(", then ")}`);
  return h("p", { class: "legend" }, panels[0].series.map((one) => h("span", {}, sample(one), name(one))));
}

function drawBands(set, width) {
  const panels = bandPanels(set);
  if (!panels.length) return "These results hold no counts by label frequency.";
  const bands = panels.flatMap((panel) => panel.bands);
  const top = Math.max(0.01, ...panels.flatMap((panel) => panel.bands.flatMap((band) => panel.series.map((one) => foundIn(band, one.row)))));
  const [left, gap, height] = [40, 16, 254];
  const step = (width - left - gap * (panels.length - 1)) / bands.length;
  const label = widest(bands.map(frequencies));
  const [steep, y] = [label + 6 > step, (share) => height - (share / top) * (height - 32)];
  const nodes = ticks(0, top, 5).map((tick) => [
    line(left, y(tick), width, y(tick), { class: tick ? "grid-line" : "zero" }),
    text(left - 6, y(tick) + 4, tickName(tick, "%"), { class: "soft", "text-anchor": "end" }),
  ]);
  let start = left;
  for (const panel of panels) {
    if (start > left) nodes.push(line(start - gap / 2, 4, start - gap / 2, height, { class: "zero" }));
    nodes.push(drawPanel(panel, start, step, y, height, steep));
    start += panel.bands.length * step + gap;
  }
  const bottom = height + (steep ? 0.72 * label + 30 : 36);
  nodes.push(text((left + width) / 2, bottom, "texts that carry the label", { class: "soft", "text-anchor": "middle" }));
  return [bottom + 6, nodes, bandLegend(panels)];
}

const FIGURES = { grid: drawGrid, gain: drawGain, ceiling: drawCeiling, bands: drawBands, agreement: drawAgreement };
const renderFigure = (id) => plot(id, FIGURES[id]);
const renderFigures = () => Object.keys(FIGURES).forEach(renderFigure);
