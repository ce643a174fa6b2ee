// Wide formulas: made a little smaller, or broken into lines at operators and between factors, inside of brackets too.

const SMALLEST = 15; // pixels of a formula that is made smaller
const TRIES = [1, 0.95, 0.88]; // of the width
const LITTLE = 28; // pixels that lines are indented by, where more is too much
const SMALL_GROUP = 0.3; // of a line: groups in brackets that are smaller are not broken
const MATHML = "http://www.w3.org/1998/Math/MathML";
const TIMES = "\u2062";
const OPERATOR = /^[+−=⊙⊗⊘·∘×/∗-]$/;

/** Fit the formulas in a box that scrolls. */
export function fitFormulas(box) {
  for (const math of box.querySelectorAll("math")) {
    if (!math.closest(".lines")) fit(math, box);
  }
}

/** Fit a formula in the width of a box. */
function fit(math, box) {
  const style = getComputedStyle(box);
  const end = box.getBoundingClientRect().left + box.clientWidth - parseFloat(style.paddingRight);
  const { left, width } = math.getBoundingClientRect();
  const room = end - left - 3; // widths of parts and of wholes differ a little
  if (!box.clientWidth || room < 40 || width <= room) return;
  const size = parseFloat(getComputedStyle(math).fontSize);
  const smaller = Math.floor(((size * room) / width) * 10) / 10;
  if (smaller >= SMALLEST) {
    math.style.fontSize = `${smaller}px`;
    return;
  }
  let [broken, next, least] = [math, math.cloneNode(true), Infinity];
  for (const part of TRIES) { // parts are a little wider in lines of their own, so some need shorter lines
    const before = next.cloneNode(true);
    if (broken !== math) broken.replaceWith(next);
    const lines = breakLines(broken === math ? math : next, room * part);
    if (!lines) return;
    const most = Math.max(...[...lines.querySelectorAll("math")].map((row) => row.getBoundingClientRect().right)) - left;
    [broken, next] = [lines, before];
    if (most <= room || most > least) return;
    least = most;
  }
}

const make = (tag, attributes, ...children) => {
  const element = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const fence = (sign, form) => make("mo", { form, fence: "true", stretchy: "false" }, sign);

/** The pieces of a formula in a row: {node, left, right, depth}. What is wide is taken apart, down to its letters. */
function pieces(node, depth, room) {
  const { left, right } = node.getBoundingClientRect();
  const whole = [{ node, left, right, depth }];
  const parts = [...node.children];
  const inside = (each) => pieces(each, depth + 1, room);
  const isGroup = node.localName === "mrow" && parts[0]?.getAttribute("fence") === "true";
  if (node.localName === "math" || (node.localName === "mrow" && !isGroup)) {
    return parts.flatMap((each) => pieces(each, depth, room));
  }
  if (right - left < room * SMALL_GROUP) return whole;
  if (isGroup) return parts.flatMap(inside).map(unstretched);
  if (["msup", "msub", "msubsup"].includes(node.localName) && parts[0].getBoundingClientRect().width > room * SMALL_GROUP) {
    const base = pieces(parts[0], depth, room);
    const last = base.at(-1);
    last.node = make(node.localName, {}, last.node.cloneNode(true), ...parts.slice(1));
    last.right = right;
    return base;
  }
  if (right - left <= room) return whole;
  const at = (sign, form, place) => ({ node: fence(sign, form), left: place, right: place + 6, depth: depth + 1 });
  const wrapped = (list) => [at("(", "prefix", list[0].left), ...list, at(")", "postfix", list.at(-1).right)];
  if (node.localName === "msqrt") { // a long root is a power in lines
    const power = wrapped(parts.flatMap(inside));
    const half = make("mrow", {}, make("mn", {}, "1"), make("mo", {}, "/"), make("mn", {}, "2"));
    power.at(-1).node = make("msup", {}, power.at(-1).node, half);
    power.at(-1).right += 24;
    return power;
  }
  if (node.localName === "mfrac") {
    const [top, bottom] = parts.map((each) => inside(each));
    const over = { node: make("mo", {}, "/"), left: right, right: right + 8, depth };
    return [...wrapped(top), over, ...(bottom.length > 1 ? wrapped(bottom) : bottom)];
  }
  return whole;
}

function unstretched(piece) {
  if (piece.node.localName === "mo" && piece.node.getAttribute("fence")) piece.node.setAttribute("stretchy", "false");
  return piece;
}

/** How bad it is to begin a line with a piece: best an operator, then a factor, at last what follows a bracket. */
function badness(list, place) {
  const [before, piece] = [list[place - 1]?.node, list[place].node];
  if (!before || piece.localName === "mspace") return Infinity;
  const sign = before.localName === "mo" ? before.textContent : "";
  if (piece.localName === "mo" && OPERATOR.test(piece.textContent) && piece.getAttribute("form") !== "prefix") return 0;
  if (sign === TIMES || sign === "," || before.localName === "mspace" || piece.localName.startsWith("munder")) return 0.15;
  return before.getAttribute("fence") && before.getAttribute("form") === "prefix" ? 0.6 : Infinity;
}

/** Where lines begin: as late as there is room, but where few brackets are open if that costs little. */
function beginnings(list, room, indent, head) {
  const starts = [0];
  let width = 0;
  let over = false; // whether a line goes over the edge: the box scrolls
  const bad = list.map((_, place) => (place <= head ? Infinity : badness(list, place) + list[place].depth * 0.2));
  const size = (place) => (list[place + 1] && list[place + 1].left > list[place].left
    ? Math.max(list[place + 1].left, list[place].right) : list[place].right) - list[place].left;
  for (let place = 0; place < list.length; place += 1) {
    width += size(place);
    const most = starts.length > 1 ? room - indent : room;
    if (width <= most) continue;
    let best = null;
    let used = 0;
    for (let k = starts.at(-1); k <= place; k += 1) {
      const cost = bad[k] + (1 - used / most);
      if (k > starts.at(-1) && cost < Infinity && cost <= (best?.cost ?? Infinity)) best = { k, cost };
      used += size(k);
    }
    if (!best) {
      over = true;
      continue;
    }
    starts.push(best.k);
    width = 0;
    for (let k = best.k; k <= place; k += 1) width += size(k);
    over ||= width > room - indent;
  }
  return { starts, over };
}

/** Break a formula into lines, which take its place; further ones are indented to behind the first `=`, or a little. */
function breakLines(math, room) {
  const start = math.getBoundingClientRect().left;
  const list = pieces(math, 0, room - LITTLE);
  const equals = list.findIndex(({ node }) => node.localName === "mo" && node.textContent === "=");
  const behind = equals >= 0 && list[equals + 1] ? list[equals + 1].left - start : 0;
  const short = behind > 0 && behind < room * 0.35;
  const head = short ? equals + 1 : 0; // a short left side has no line of its own
  let indent = short ? behind : LITTLE;
  let broken = beginnings(list, room, indent, head);
  if (broken.over && short) {
    indent = LITTLE;
    broken = beginnings(list, room, indent, head);
  }
  const { starts } = broken;
  if (starts.length < 2) return null;
  const lines = document.createElement("div");
  lines.className = "lines";
  math.replaceWith(lines);
  starts.forEach((first, line) => {
    const own = list.slice(first, starts[line + 1]).map(({ node }) => node);
    if (own[0].localName === "mo" && !own[0].getAttribute("fence")) own[0].setAttribute("form", "infix");
    const row = make("math", { displaystyle: "true", ...(line ? { "aria-hidden": "true" } : {}) }, make("mrow", {}, ...own));
    if (!line) row.setAttribute("aria-label", math.getAttribute("aria-label") ?? ""); // the first line says all
    const holder = document.createElement("div");
    holder.append(row);
    if (line) holder.style.paddingLeft = `${indent}px`;
    lines.append(holder);
  });
  return lines;
}
