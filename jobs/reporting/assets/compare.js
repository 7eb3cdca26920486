// ---- Any two cells

/** Two rows in an aspect, the first less the second; null where the results do not hold it. */
function comparisonOf(set, one, other, aspect) {
  const list = set.pairs.find((pairs) => pairs.aspect === aspect.index)?.list ?? [];
  for (const [a, b, ...figures] of list) {
    if (a === one.index && b === other.index) return asComparison(figures);
    if (a === other.index && b === one.index) {
      const [difference, low, high, effect, ...p] = figures;
      const minus = (number) => (known(number) ? -number : null);
      return asComparison([minus(difference), minus(high), minus(low), minus(effect), ...p]);
    }
  }
  return null;
}

const pairAspects = (set) => set.pairs.map((pairs) => set.aspects[pairs.aspect]).sort((a, b) => byGroup(a.group, b.group));

/** A table of words: heads, then lines; numbers to the right from the second column on. */
function wordTable(name, heads, lines) {
  const row = (words, i) => h("tr", {}, words.map((word, n) => (n ? h("td", { class: "number" }, word) : h("th", { scope: "row" }, word))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    h("table", { class: "plain" }, h("caption", {}, name),
      h("thead", {}, h("tr", {}, heads.map((head, n) => h("th", { scope: "col", class: n && "number" }, head)))), h("tbody", {}, lines.map(row))));
}

/** Texts of which the one finds more labels of a band than the other, and fewer, where one of them is a single retriever. */
function movedTexts(band, one, other) {
  const straight = band.tests.find(([cell, single]) => cell === one.index && single === other.index);
  const turned = band.tests.find(([cell, single]) => cell === other.index && single === one.index);
  if (straight) return { texts: [straight[2], straight[3]], p: straight[4] };
  return turned ? { texts: [turned[3], turned[2]], p: turned[4] } : null;
}

function bandLines(set, group, one, other) {
  const bands = set.bands[group] ?? [];
  if (!bands.length) return [];
  const deepest = Object.keys(Object.values(bands[0].found)[0]).at(-1);
  return bands.map((band) => {
    const [a, b] = [one, other].map((row) => band.found[row.index]?.[deepest] ?? [null, null, null]);
    const tested = movedTexts(band, one, other);
    return [frequencies(band), count(band.pairs), sharesText(a), sharesText(b), known(a[0]) && known(b[0]) ? points(a[0] - b[0]) : NONE,
      tested ? `${count(tested.texts[0])} / ${count(tested.texts[1])}` : NONE, tested ? pValue(tested.p) : "not tested"];
  });
}

function comparedWords({ difference, low, high, p }) {
  const tests = Object.entries(p).filter(([, value]) => known(value)).map(([test, value]) => [TESTS[test], value < report.alpha]);
  if (!tests.length) return "not tested";
  const outcome = difference > 0 ? "better" : "worse";
  if (tests.every(([, found]) => found)) return outcome;
  const found = tests.filter(([, one]) => one).map(([name]) => name);
  if (!found.length && known(low) && (low > 0 || high < 0)) found.push("the 95% interval");
  const missed = tests.filter(([, one]) => !one).map(([name]) => name);
  return found.length ? `tests disagree (${outcome} by ${found.join(", ")}; not by ${missed.join(", ")})` : "not significantly different by any test";
}

function renderCompare() {
  const set = dataset();
  const [one, other] = [set.rows[state.one], set.rows[state.other]];
  const aspects = pairAspects(set);
  if (!aspects.length) {
    const why = report.left_out ? "Left out to keep this page small; the results' table pairs.parquet has it." : "These results hold no comparison of every two cells.";
    return at("compared").replaceChildren(h("p", { class: "small" }, why));
  }
  if (!one || !other || one === other) return at("compared").replaceChildren(h("p", { class: "small" }, "Choose two different cells."));
  const line = (aspect) => {
    const comparison = comparisonOf(set, one, other, aspect);
    const [a, b] = [one, other].map((row) => row.values[aspect.index]);
    if (!comparison || !a || !b) return [aspectName(aspect), ...Array(8).fill(NONE)];
    return [aspectName(aspect), figure(a), figure(b), gained(comparison), effectSize(comparison.effect),
      ...Object.keys(TESTS).map((test) => pValue(comparison.p[test])), comparedWords(comparison)];
  };
  const heads = ["metric", one.name, other.name, "difference [95%]", "effect", ...Object.values(TESTS).map((name) => `p ${name}`), "verdict"];
  const tables = [wordTable(`${one.name} against ${other.name}, in percent`, heads, aspects.map(line))];
  for (const group of GROUPS) {
    const lines = bandLines(set, group, one, other);
    const name = `${group} labels by frequency: relevant labels found, with 95% intervals`;
    if (lines.length) tables.push(wordTable(name, ["texts per label", "pairs", one.name, other.name, "difference", "texts with more / fewer", "p"], lines));
  }
  at("compared").replaceChildren(...tables, h("p", { class: "small" },
    "The p of these comparisons is of the two cells alone, not corrected for choosing them among many. By frequency only a cell and a single retriever are tested (a sign test over texts, corrected over the bands)."));
}

/** The recommended cell and the retriever it is compared with: compared until the reader chooses others. */
function usualPair() {
  const set = dataset();
  const gain = set.gains.find(({ aspect }) => set.aspects[aspect].group === GROUPS[0]) ?? set.gains[0];
  const recommended = set.recommended[GROUPS[0]] ?? Object.values(set.recommended)[0] ?? null;
  return { one: recommended, other: gain ? gain.better_single : singlesOf(set)[0]?.index ?? null };
}
