"use strict";

// ---- Words and numbers, by the rules of jobs/reporting/formats.py

const METRIC_NAMES = {
  ndcg: "nDCG", precision: "P", recall: "R", map: "MAP", mrr: "MRR", f1: "F1", "hit-rate": "hit rate",
  "r-precision": "R-precision", psp: "PSP", psndcg: "PSnDCG", "macro-precision": "macro P", "macro-recall": "macro R",
  "macro-f1": "macro F1",
};
const NONE = "–";

const known = (number) => number !== null && number !== undefined;
const count = (number) => number.toLocaleString("en");
const distinct = (values) => [...new Set(values)];

/** A share of 1 in percent, without the sign. */
function percent(share, digits = 1) {
  if (!known(share)) return NONE;
  const rounded = Number((100 * share).toFixed(digits));
  return (rounded === 0 ? 0 : rounded).toFixed(digits).replace("-", "−");
}

/** A difference of shares in points, with its sign. */
function points(share, digits = 1) {
  const text = percent(share, digits);
  return text === NONE || text.startsWith("−") ? text : `+${text}`;
}

const figure = ({ mean, std }) => percent(mean) + (known(std) ? `(${percent(std)})` : "");
const interval = ({ low, high }, digits = 1) => (known(low) && known(high) ? `[${points(low, digits)}, ${points(high, digits)}]` : "");
const gained = (comparison, digits = 1) => [points(comparison.difference, digits), interval(comparison, digits)].filter(Boolean).join(" ");
const pValue = (p) => (!known(p) ? NONE : p < 0.001 ? "<0.001" : p.toFixed(3));
const effectSize = (effect) => (known(effect) ? effect.toFixed(2).replace("-", "−") : NONE);
const metricName = ({ metric, k }) => `${METRIC_NAMES[metric] ?? metric}${k ? `@${k}` : ""}`;
const aspectName = (aspect) => `${aspect.group} ${metricName(aspect)}`;
const spanOf = (low, high) => (low === high ? count(low) : `${count(low)}–${count(high)}`);
