// ---- The learning curve: gain over the chosen cell by the number of validation texts

const curveStyle = (i) => ({ form: i % SHAPES.length, stroke: i === 4 ? "var(--ink)" : colour(i), dash: DASHES[i % DASHES.length], class: "series" });

/** One panel: the label group, its lines, and where texts and gains stand. */
function curvePanel({ group, lines }, names, numbers, x, y, height, steep) {
  const column = (texts) => lines.map(([name, points]) => [name, points.find(([at]) => at === texts)]).filter(([, point]) => point);
  const mean = ([, gain, low, high]) => `${points(gain, 2)} [${points(low, 2)}, ${points(high, 2)}]`;
  const said = (texts) => [`${group} labels, ${count(texts)} validation texts per fold`, ...column(texts).map(([name, point]) => [name, mean(point)])];
  const aside = (name) => 5 * (names.indexOf(name) - (names.length - 1) / 2);
  const place = (px) => (steep ? { "text-anchor": "end", transform: `rotate(-45 ${px} ${height + 12})` } : { "text-anchor": "middle" });
  const half = numbers.length > 1 ? (x(numbers[1]) - x(numbers[0])) / 2 : 20;
  const point = (texts) => mark(s("g", {},
    box(x(texts) - half, 24, 2 * half, height - 24, { class: "target", rx: 4 }),
    column(texts).map(([name, [, gain, low, high]]) => {
      const { form, stroke } = curveStyle(names.indexOf(name));
      const px = x(texts) + aside(name);
      return [line(px, y(low), px, y(high), { class: "whisker", stroke }), shape(form, px, y(gain), { fill: stroke })];
    }),
    text(x(texts), height + 16, count(texts), { class: "soft", ...place(x(texts)) })), () => said(texts));
  return [
    text(x(numbers[0]) - half + 3, 13, `${group} labels`, { class: "strong" }),
    lines.map(([name, list]) => {
      const { stroke, dash } = curveStyle(names.indexOf(name));
      return s("polyline", { class: "series", stroke, "stroke-dasharray": dash, points: list.map(([texts, gain]) => `${x(texts) + aside(name)},${y(gain)}`).join(" ") });
    }),
    numbers.map(point),
  ];
}

function drawCurve(set, width) {
  const panels = set.curves;
  if (!panels.length) return "These results hold no learning curve.";
  const names = distinct(panels.flatMap(({ lines }) => lines.map(([name]) => name)));
  const numbers = distinct(panels.flatMap(({ lines }) => lines.flatMap(([, list]) => list.map(([texts]) => texts)))).sort((a, b) => a - b);
  const ends = panels.flatMap(({ lines }) => lines.flatMap(([, list]) => list.flatMap(([, , low, high]) => [low, high])));
  const [lowest, highest] = [Math.min(0, ...ends), Math.max(0.001, ...ends)];
  const [left, gap, height] = [66, 16, 254];
  // Side by side where there is room, else one below the other.
  const across = width < 640 ? 1 : panels.length;
  const wide = (width - left - gap * (across - 1)) / across;
  const step = wide / numbers.length;
  const steep = widest(numbers.map(count)) + 6 > step;
  const deep = height + (steep ? 0.72 * widest(numbers.map(count)) + 14 : 24);
  const y = (gain) => height - ((gain - lowest) / (highest - lowest)) * (height - 32);
  const rows = Math.ceil(panels.length / across);
  const nodes = Array.from({ length: rows }, (_, row) => {
    const inside = panels.slice(row * across, (row + 1) * across);
    const scale = ticks(lowest, highest, 6).map((tick) => [
      line(left, y(tick), width, y(tick), { class: tick === 0 ? "zero" : "grid-line" }),
      text(left - 6, y(tick) + 4, tickName(tick, ""), { class: "soft", "text-anchor": "end" }),
    ]);
    const drawn = inside.map((panel, i) => {
      const start = left + i * (wide + gap);
      const x = (texts) => start + (numbers.indexOf(texts) + 0.5) * step;
      const border = i ? line(start - gap / 2, 4, start - gap / 2, height, { class: "zero" }) : "";
      return [border, curvePanel(panel, names, numbers, x, y, height, steep)];
    });
    const title = text(-(height / 2), 12, `gain in ${panels[0].objective}, in points`, { class: "soft", "text-anchor": "middle", transform: "rotate(-90)" });
    return s("g", { transform: `translate(0,${row * (deep + 12)})` }, scale, drawn, title);
  });
  const bottom = rows * (deep + 12) + 8;
  nodes.push(text((left + width) / 2, bottom, "validation texts per fold", { class: "soft", "text-anchor": "middle" }));
  const legend = h("p", { class: "legend" }, names.map((name, i) => h("span", {}, sample(curveStyle(i)), name)));
  return [bottom + 8, nodes, legend];
}
