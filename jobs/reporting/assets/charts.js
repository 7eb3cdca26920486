// ---- Drawing

const SHAPES = ["M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0", "M-4,-4h8v8h-8z", "M0,-5.5L5,4H-5z", "M0,-6L6,0L0,6L-6,0z"];
const DASHES = ["7 3", "2 3", "9 3 2 3", "4 4"];
const shape = (i, x, y, attributes) => s("path", { d: SHAPES[i % SHAPES.length], transform: `translate(${x},${y})`, ...attributes });
const colour = (i) => `var(--c${i % 4})`;
const text = (x, y, content, attributes = {}) => s("text", { x, y, ...attributes }, content);
const box = (x, y, width, height, attributes = {}) => s("rect", { x, y, width: Math.max(0, width), height, ...attributes });
const line = (x1, y1, x2, y2, attributes) => s("line", { x1, y1, x2, y2, ...attributes });

/** The width of the widest of some words, as the charts print them. */
function widest(words) {
  const pen = (widest.pen ??= document.createElement("canvas").getContext("2d"));
  pen.font = `bold 12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.max(0, ...words.map((word) => pen.measureText(word ?? "").width));
}

/** Draws a chart: `draw(dataset, width)` gives the height, the nodes and what follows, or says why there is nothing. */
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

/** Round numbers between two ends, about as many as wanted and two at least. */
function ticks(low, high, wanted) {
  for (let number = Math.max(wanted, 2); ; number *= 1.5) {
    const rough = (high - low) / number;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= rough * 0.999);
    const [first, last] = [Math.ceil(low / step), Math.floor(high / step)];
    if (last > first || number > 100) return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
  }
}
const tickName = (tick, unit) => String(Number((100 * tick).toFixed(6))).replace("-", "−") + unit;

/** Rows along a scale with its title: headings ({head}) and rows ({label, note, strong, lines, draw(x, y)}). */
function rowChart(width, rows, low, high, unit, title, tickText = (tick) => tickName(tick, unit)) {
  const step = 22;
  const [left, right] = [widest(rows.map((row) => row.label)) + 24, widest(rows.map((row) => row.note)) + 16];
  const x = (share) => left + ((share - low) / (high - low)) * (width - left - right);
  const bottom = rows.length * step + 4;
  const scale = ticks(low, high, (width - left - right) / 60).map((tick) => [
    line(x(tick), 4, x(tick), bottom, { class: tick === 0 ? "zero" : "grid-line" }),
    text(x(tick), bottom + 15, tickText(tick), { class: "soft", "text-anchor": "middle" }),
  ]);
  const lines = rows.map((row, i) => {
    const y = (i + 0.5) * step + 2;
    if (row.head) return text(0, y + 5, row.head, { class: "strong" });
    const note = text(width - 4, y + 4, row.note, { class: row.strong && "strong", "text-anchor": "end" });
    return mark(s("g", {}, box(1, y - step / 2 + 1, width - 2, step - 2, { class: "target", rx: 4 }), text(14, y + 4, row.label), row.draw(x, y), note), row.lines);
  });
  const named = text(left + (width - left - right) / 2, bottom + 33, title, { class: "soft", "text-anchor": "middle" });
  return [bottom + 40, [scale, lines, named]];
}

/** Of the aspects in which all rows have the same figures, the first: nDCG@1 is P@1. */
function differing(set, aspects) {
  const figures = aspects.map(({ index }) => JSON.stringify(set.rows.map((row) => row.values[index]?.mean ?? null)));
  return aspects.filter((_, i) => figures.indexOf(figures[i]) === i);
}

/** A heading for each group, then a row for each of its metrics. */
function rowsByGroup(set, row) {
  return GROUPS.flatMap((group, i) => {
    const rows = differing(set, aspectsOf(set, [group])).map((aspect) => row(aspect, i)).filter(Boolean);
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

/** The scale of the grid's colours: the median has the middle one, so that a few bad cells do not use it up. */
function heatScale(means) {
  const sorted = [...means].sort((a, b) => a - b);
  const [half, high] = [sorted.length >> 1, sorted.at(-1)];
  const median = sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  return [2 * median - high, high];
}

/** A bar of the colours with its ends; its title stands below where there is no room beside it. */
function heatBar(left, y, low, high, lowest, title, below) {
  const ends = { class: "soft" };
  const [titleX, titleY] = below ? [left, y + 42] : [left + 176, y + 9];
  return [
    Array.from({ length: 40 }, (_, i) => box(left + i * 4, y, 4.5, 10, { fill: `rgb(${heat(i / 39)})` })),
    text(left, y + 24, (lowest < low ? "≤ " : "") + percent(low), ends),
    text(left + 160, y + 24, percent(high), { ...ends, "text-anchor": "end" }),
    text(titleX, titleY, title, ends),
  ];
}

function drawGrid(set, width) {
  const aspect = aspectOf(set, state.gridGroup, METRICS.find((metric) => metricName(metric) === state.gridMetric));
  const value = (row) => row.values[aspect.index];
  const cells = aspect ? fusedOf(set).filter((row) => value(row) && set.fusions.includes(row.fusion)) : [];
  if (!cells.length) return "This dataset has no such figures.";
  const shown = aspect;
  const [low, high] = heatScale(cells.map((row) => value(row).mean));
  const [down, across] = width < 640 ? ["fusion", "normalization"] : ["normalization", "fusion"];
  const [names, heads] = [down, across].map((key) => set[`${key}s`]);
  const left = widest(names) + 32;
  const wide = (width - left) / heads.length;
  // Heads that do not fit side by side are tilted, so that they can be read.
  const tilted = widest(heads) > wide - 3;
  const [top, tall] = [tilted ? 30 + 0.75 * widest(heads) : 40, 30];
  const head = (i) => (tilted ? { "text-anchor": "end", transform: `rotate(45 ${left + (i + 0.5) * wide} ${top - 8})` } : { "text-anchor": "middle" });
  const cell = (row) => {
    // What is the same under every normalisation fills its whole row or column.
    const any = row.normalization === "(any)";
    const [column, line] = [any && across === "normalization" ? 0 : heads.indexOf(row[across]), any && down === "normalization" ? 0 : names.indexOf(row[down])];
    const [columns, lines] = [any && across === "normalization" ? heads.length : 1, any && down === "normalization" ? names.length : 1];
    const [x, y, w, t] = [left + column * wide, top + line * tall, columns * wide, lines * tall];
    const { mean, best, bold } = value(row);
    const rgb = heat((mean - low) / (high - low || 1));
    const inside = (gap, attributes) => box(x + gap, y + gap, w - 2 * gap, t - 2 * gap, { rx: 3, ...attributes });
    const number = { "text-anchor": "middle", class: bold && "strong", style: `fill:${contrasting(rgb)}` };
    return mark(s("g", {}, inside(1, { fill: `rgb(${rgb})` }), best ? [inside(1.5, { class: "frame" }), inside(3.5, { class: "frame-inner" })] : "",
      inside(1, { class: "target" }), text(x + w / 2, y + t / 2 + 4.5, percent(mean), number)), () => valueLines(set, row, shown));
  };
  const end = top + names.length * tall + 12;
  const titles = { normalization: "normalisation", fusion: "fusion" };
  const barTitle = `${aspectName(aspect)} (%)`;
  const below = left + 176 + widest([barTitle]) > width;
  return [end + (below ? 48 : 30), [
    text(left + (width - left) / 2, 12, titles[across], { class: "soft", "text-anchor": "middle" }),
    text(-(top + (names.length * tall) / 2), 11, titles[down], { class: "soft", "text-anchor": "middle", transform: "rotate(-90)" }),
    names.map((name, i) => text(24, top + i * tall + 20, name)),
    heads.map((name, i) => text(left + (i + 0.5) * wide, top - 8, name, head(i))),
    cells.map(cell),
    heatBar(left, end, low, high, Math.min(...cells.map((row) => value(row).mean)), barTitle, below),
  ]];
}

// ---- Mean ranks, with ties joined

const RANKS_SHOWN = 16;

function drawRanks(set, width) {
  const ranking = set.rankings.find((one) => one.label_group === state.rankGroup);
  if (!ranking) return "These results hold no comparison of every two cells.";
  at("ranks-note").textContent = `${ranking.over} Smaller is better. A bar on the right joins cells that are not significantly different.`;
  const cells = state.allRanks ? ranking.cells : ranking.cells.slice(0, RANKS_SHOWN);
  const place = new Map(cells.map(([row], i) => [row, i]));
  const ties = ranking.ties.map((tie) => tie.map((row) => place.get(row)).filter(known)).filter((tie) => tie.length > 1);
  const narrow = width < 640;
  const apart = narrow ? 5 : 10;
  const room = apart * ties.length + 8;
  const ranks = cells.map(([, rank]) => rank);
  const [low, high] = [Math.min(1, ...ranks), Math.max(...ranks)];
  const rows = cells.map(([number, rank], i) => {
    const row = set.rows[number];
    return {
      label: narrow && row.normalization === "(any)" ? `(any) ${row.fusion}` : row.name, note: rank.toFixed(1), strong: number === set.recommended[ranking.label_group],
      draw: (x, y) => [line(x(low), y, x(rank), y, { class: "grid-line" }), shape(row.single ? 1 : 0, x(rank), y, { fill: row.single ? colour(1) : colour(0) })],
      lines: () => [row.name, ["mean rank", rank.toFixed(2)], ["place", String(i + 1)],
        ["not significantly different from", ranking.ties.filter((tie) => tie.includes(number)).flat().filter((other) => other !== number).filter((other, n, all) => all.indexOf(other) === n)
          .map((other) => set.rows[other].name).join(", ") || "no other"]],
    };
  });
  const [height, nodes] = rowChart(width - room, rows, low, high + 0.02 * (high - low || 1), "", "mean rank", (tick) => String(tick));
  const bars = ties.map((tie, i) => {
    const [x, top, bottom] = [width - room + apart * (i + 1), 22 * Math.min(...tie) + 5, 22 * (Math.max(...tie) + 1) - 1];
    return line(x, top, x, bottom, { class: "tie" });
  });
  return [height, [nodes, bars]];
}

// ---- Gains, ceilings, agreement

function gainRow(set, aspect, i) {
  const gain = gainOf(set, aspect);
  if (!gain) return null;
  const { comparison, best, verdict, told, single } = gain;
  const { difference, low, high } = comparison;
  return {
    label: metricName(aspect),
    note: points(difference),
    strong: told,
    draw: (x, y) => [
      known(low) && known(high) ? line(x(low), y, x(high), y, { class: "interval", stroke: colour(i) }) : "",
      shape(i, x(difference), y, { stroke: colour(i), "stroke-width": 2, fill: told ? colour(i) : "var(--panel)" }),
    ],
    lines: () => [
      `${aspectName(aspect)}: ${verdict}`,
      ["best cell", `${best.name} ${figure(best.values[aspect.index])}`],
      ["alone", `${single.name} ${figure(single.values[aspect.index])}`],
      ["gain", gained(comparison, 2)],
      ...effectLines(comparison),
    ],
  };
}

function drawGain(set, width) {
  const shown = aspectsOf(set, GROUPS).map((aspect) => gainOf(set, aspect)?.comparison).filter(Boolean);
  if (!shown.length) return "These results hold no single retriever.";
  const ends = shown.flatMap(({ difference, low, high }) => [low ?? difference, high ?? difference]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0.001, ...ends)];
  const rows = rowsByGroup(set, (aspect, i) => gainRow(set, aspect, i));
  return rowChart(width, rows, low - 0.04 * (high - low), high + 0.04 * (high - low), "", "gain over the best single retriever, in points");
}

const NO_LISTS = "These results hold no counts of the retrievers' lists.";

function drawCeiling(set, width) {
  const rows = rowsByGroup(set, (aspect) => {
    const ceiling = set.agreement.find((one) => one.label_group === aspect.group)?.ceiling[aspect.index];
    const best = bestOf(set, aspect);
    if (!known(ceiling) || !best) return null;
    const { mean } = best.values[aspect.index];
    return {
      label: metricName(aspect),
      note: `${percent(mean)} of ${percent(ceiling)}`,
      draw: (x, y) => [box(x(0), y - 5, x(mean) - x(0), 10, { class: "bar-fill" }), line(x(ceiling), y - 8, x(ceiling), y + 8, { class: "stroke" })],
      lines: () => [
        aspectName(aspect),
        ["best cell", `${best.name} ${figure(best.values[aspect.index])}`],
        ["ceiling", percent(ceiling)],
        ["reached", ceiling ? `${percent(mean / ceiling)}% of it` : NONE],
      ],
    };
  });
  return rows.length ? rowChart(width, rows, 0, 1, "%", "figure, in percent") : NO_LISTS;
}

function drawAgreement(set, width) {
  const bar = (x, y, from, to, attributes) => box(x(from), y - 6, x(to) - x(from), 12, attributes);
  const rows = [...set.agreement].sort((a, b) => byGroup(a.label_group, b.label_group)).flatMap(({ label_group: group, candidates, overlap, found, alone, union }) => {
    const common = overlap.map(([one, other, share]) => [`${one}, ${other}`, `${percent(share)}% of their candidates in common`]);
    const row = (label, share, strong, lines, draw) => ({ label, note: `${percent(share)}%`, strong, lines: () => [...lines, ...common], draw });
    const singles = Object.keys(found).map((name) => row(name, found[name], false, [
      `${group} labels: ${name}`,
      ["finds", `${percent(found[name])}% of the relevant labels`],
      ["alone", `${percent(alone[name])}% are in no other list`],
      ["candidates", `${candidates[name].toFixed(1)} per text`],
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
  return rows.length ? rowChart(width, rows, 0, 1, "%", "relevant labels found") : NO_LISTS;
}

// ---- Found labels by label frequency

const frequencies = ({ rarest, commonest }) => spanOf(rarest, commonest);
const shareIn = (band, row) => band.found[row.index]?.[state.bandCut] ?? [null, null, null];
const foundIn = (band, row) => shareIn(band, row)[0];
const sharesText = ([share, low, high]) => (known(share) ? `${percent(share)}% [${percent(low)}, ${percent(high)}]` : NONE);

/** The chosen groups, each with its bands and its lines: the single retrievers and the recommended cell. */
function bandPanels(set) {
  return state.bandGroups.split(" and ").filter((group) => set.bands[group]?.length).map((group) => {
    const best = set.rows[set.recommended[group]];
    const singles = singlesOf(set).map((row, i) => ({ row, form: i % 3, stroke: colour(i), dash: DASHES[i % DASHES.length], class: "series" }));
    return { group, bands: set.bands[group], series: [...singles, ...(best ? [{ row: best, form: 3, stroke: "var(--ink)", class: "series thick" }] : [])] };
  });
}

function drawPanel({ group, bands, series }, start, step, y, height, steep) {
  const x = (i) => start + (i + 0.5) * step;
  const path = ({ row }) => bands.map((band, i) => [x(i), foundIn(band, row)]).filter(([, share]) => known(share)).map(([px, share]) => `${px},${y(share)}`).join(" ");
  const place = (px, low) => (steep ? { "text-anchor": "end", transform: `rotate(-45 ${px} ${low - 4})` } : { "text-anchor": "middle" });
  const lines = (band) => [
    `${group} labels of ${frequencies(band)} texts`,
    ...series.map((one) => [one.row.name, sharesText(shareIn(band, one.row))]),
    ["labels", count(band.labels)],
    ["pairs", count(band.pairs)],
  ];
  const point = (band, i) => mark(s("g", {},
    box(x(i) - step / 2, 24, step, height - 24, { class: "target", rx: 4 }),
    series.filter((one) => known(foundIn(band, one.row))).map((one, n) => {
      const [, low, high] = shareIn(band, one.row);
      const aside = x(i) + 4 * (n - (series.length - 1) / 2);
      return line(aside, y(low), aside, y(high), { class: "whisker", stroke: one.stroke });
    }),
    series.filter((one) => known(foundIn(band, one.row))).map((one) => shape(one.form, x(i), y(foundIn(band, one.row)), { fill: one.stroke })),
    text(x(i), height + 16, frequencies(band), { class: "soft", ...place(x(i), height + 16) })), () => lines(band));
  return [
    text(start + 3, 13, group, { class: "strong" }),
    series.map((one) => s("polyline", { class: one.class, stroke: one.stroke, "stroke-dasharray": one.dash, points: path(one) })),
    bands.map(point),
  ];
}

/** A line with its mark, for a legend. */
const sample = ({ form, stroke, dash, class: kind }) => s("svg", { width: 34, height: 14, "aria-hidden": "true" },
  line(0, 7, 34, 7, { class: kind, stroke, "stroke-dasharray": dash }), shape(form, 17, 7, { fill: stroke }));

function bandLegend(panels) {
  const bests = distinct(panels.map(({ series }) => series.at(-1).row.name));
  const name = (one) => (one.row.single ? one.row.name : `recommended: ${bests.join(", then ")}`);
  return h("p", { class: "legend" }, panels[0].series.map((one) => h("span", {}, sample(one), name(one))));
}

function drawBands(set, width) {
  const panels = bandPanels(set);
  if (!panels.length) return "These results hold no counts by label frequency.";
  const bands = panels.flatMap((panel) => panel.bands);
  const top = Math.max(0.01, ...panels.flatMap((panel) => panel.bands.flatMap((band) => panel.series.map((one) => shareIn(band, one.row)[2] ?? 0))));
  const [left, gap, height] = [58, 16, 254];
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
  nodes.push(text(-(height / 2), 12, `found in the first ${state.bandCut}`, { class: "soft", "text-anchor": "middle", transform: "rotate(-90)" }));
  nodes.push(text((left + width) / 2, bottom, "texts that carry the label", { class: "soft", "text-anchor": "middle" }));
  return [bottom + 6, nodes, bandLegend(panels)];
}

const CHARTS = { curve: drawCurve, grid: drawGrid, ranks: drawRanks, gain: drawGain, ceiling: drawCeiling, bands: drawBands, agreement: drawAgreement };
const renderChart = (id) => plot(id, CHARTS[id]);
const renderCharts = () => Object.keys(CHARTS).filter(at).forEach(renderChart);
