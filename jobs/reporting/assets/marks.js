// ---- Values on hover and on keyboard focus

const tips = new WeakMap();

/** Makes an element show lines on hover and focus: a title, then pairs of a name and a text. */
function mark(node, lines) {
  tips.set(node, lines);
  node.classList.add("mark");
  node.setAttribute("tabindex", "-1");
  if (node.namespaceURI === SVG) {
    const [title, ...pairs] = lines();
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", [title, ...pairs.map((pair) => pair.join(" "))].join(", "));
  }
  return node;
}

function showTip(node) {
  const [title, ...pairs] = tips.get(node)();
  const tip = at("tip");
  hideTip();
  tip.replaceChildren(h("strong", {}, title), h("dl", {}, pairs.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
  tip.hidden = false;
  node.setAttribute("aria-describedby", "tip");
  const [box, own] = [node.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), innerWidth - own.width - 8);
  const above = box.top - own.height - 8;
  const top = above > 0 ? above : Math.min(box.bottom + 8, innerHeight - own.height - 8);
  Object.assign(tip.style, { left: `${left}px`, top: `${top}px` });
}

function hideTip() {
  at("tip").hidden = true;
  document.querySelector('[aria-describedby="tip"]')?.removeAttribute("aria-describedby");
}

const markOf = (node) => node?.closest?.(".mark") ?? null;
const marksBeside = (node) => node.closest(".plot, table").querySelectorAll(".mark");

/** Tab comes to one mark of a plot or table, the one it left; the arrow keys go on from there. */
function enterAt(node) {
  if (!node) return;
  for (const other of marksBeside(node)) if (other.tabIndex === 0) other.setAttribute("tabindex", "-1");
  node.setAttribute("tabindex", "0");
}

const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** The nearest mark in a direction; what lies aside counts as further away. */
function neighbour(node, [right, down]) {
  const middle = (other) => {
    const box = other.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = middle(node);
  let [next, nearest] = [null, Infinity];
  for (const other of marksBeside(node)) {
    const [dx, dy] = [middle(other)[0] - x, middle(other)[1] - y];
    const [ahead, aside] = [dx * right + dy * down, Math.abs(right ? dy : dx)];
    if (ahead > 1 && ahead + 5 * aside < nearest) [next, nearest] = [other, ahead + 5 * aside];
  }
  return next;
}

function onKey(event) {
  const node = markOf(event.target);
  if (event.key === "Escape") hideTip();
  if (!node || !ARROWS[event.key]) return;
  event.preventDefault();
  neighbour(node, ARROWS[event.key])?.focus();
}

/** A tip goes along with its value for as long as that is pointed at or has the focus. */
function onScroll() {
  const node = document.querySelector('[aria-describedby="tip"]');
  if (node?.matches(":hover, :focus")) showTip(node);
  else hideTip();
}

function watchMarks() {
  const show = (event) => (markOf(event.target) ? showTip(markOf(event.target)) : hideTip());
  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("focusin", (event) => enterAt(markOf(event.target)));
  document.addEventListener("focusout", hideTip);
  document.addEventListener("keydown", onKey);
  document.addEventListener("scroll", onScroll, { capture: true, passive: true });
}

/** What is known of a row's figure in an aspect. */
function valueLines(set, row, aspect) {
  const { mean, std, folds, best, bold, against } = row.values[aspect.index];
  const theirs = set.paper?.rows[row.index][aspect.index];
  const apart = against && known(against.low) && (against.low > 0 || against.high < 0);
  const deviation = known(std) ? ` (std ${percent(std, 2)})` : " (one fold: no standard deviation)";
  return [
    `${row.name} · ${aspectName(aspect)}`,
    ["mean", percent(mean, 2) + deviation],
    ...(folds.length ? [["folds", set.folds.map((fold, i) => `${fold}:\u00a0${percent(folds[i])}`).join(" · ")]] : []),
    ...(best ? [["", "the best cell here"]] : bold ? [["", apart ? "tests disagree: the deciding test does not set it apart from the best, its 95% interval does" : "not significantly different from the best"]] : []),
    ...(against ? [["to the best", gained(against, 2)], ...effectLines(against)] : []),
    ...(theirs ? [["paper", `${percent(theirs[0])}(${percent(theirs[1])}), ours ${points(mean - theirs[0])}`]] : []),
  ];
}

const effectLines = (comparison) => [["effect size", effectSize(comparison.effect)], ["p", pValues(comparison)]];
