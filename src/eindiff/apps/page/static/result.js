// The result: the function as it was understood, and each derivative, typeset.

import { button, byId, copyButton, h, scroller } from "./dom.js";
import { fitFormulas } from "./lines.js";
import { equation } from "./safe.js";
import { change, DEFAULTS } from "./state.js";

const answer = byId("answer");

const ORDERS = { 0: "value", 1: "derivative", 2: "second derivative", 3: "third derivative" };

/** Show derivatives. */
export function showResult(derived, { order, layout }) {
  answer.classList.remove("stale");
  answer.setAttribute("aria-busy", "false");
  const parts = order ? [given(derived)] : [];
  parts.push(...derived.blocks.map((block) => blockCard(block, order, layout)));
  if (!derived.blocks.length) parts.push(h("p", { class: "welcome" }, "There is no variable to differentiate by."));
  const conventions = derived.conventions.filter((sentence) => !sentence.startsWith("Layout")); // each card says that
  const notes = new Set([...derived.blocks.map((block) => block.note), ...conventions].filter(Boolean));
  if (notes.size) parts.push(h("p", { class: "note conventions" }, [...notes].join(" ")));
  answer.replaceChildren(...parts);
  for (const box of answer.querySelectorAll(".scroll, .where, .given")) fitFormulas(box);
  last = [answer.clientWidth, () => showResult(derived, { order, layout })];
}

// What was shown is shown again when the window has another width.
let last = null;
new ResizeObserver(() => {
  const shown = answer.querySelector(".block") && !answer.classList.contains("stale");
  if (shown && last && last[0] !== answer.clientWidth) last[1]();
}).observe(answer);

/** The last result, which is not that of the text any more. */
export function showStale() {
  answer.classList.add("stale");
  answer.querySelector(".welcome")?.remove();
}

/** With nothing to differentiate: a few things to start with. */
export function showWelcome(examples) {
  answer.classList.remove("stale");
  const buttons = examples.map((example) => button(example.title, () => start(example)));
  const words = h("p", {}, "Type a function, or start from one of these:");
  answer.replaceChildren(h("div", { class: "welcome" }, words, ...buttons));
}

/** Take an example; how results are shown stays as it is. */
export function start({ expression, declarations = "", wrt = [], order = 1 }) {
  change({ expression, declarations, wrt, order, mode: DEFAULTS.mode, symmetric: DEFAULTS.symmetric, sizes: {} });
}

function given({ name, function: f }) {
  const is = (place) => (place ? [] : [h("span", { class: "is" }, "where ")]);
  const where = f.where.map((part, place) => h("span", {}, ...is(place), named(part)));
  return scroller("given", "The function", equation([f.left, f.mathml], `${name} = ${f.text}`), ...where);
}

function named({ name, name_mathml, text, mathml }) {
  return equation([name_mathml, mathml], `${name} = ${text}`);
}

/** Whether the order of the axes is worth saying: not for the Hessian by one vector. */
function hasAxes({ by, shape }, layout) {
  return shape.length > 2 || new Set(by).size > 1 || (layout !== "mixed" && shape.length > 0);
}

/** The card of a derivative; one that is a matrix of Kronecker products too has both forms, the shorter one first. */
function blockCard(block, order, layout) {
  const other = block.kronecker;
  if (!other) return card(block, block, order, layout, []);
  const forms = { index: block, Kronecker: other };
  const show = (name) => {
    const choices = Object.keys(forms).map((each) => button(each, (event) => {
      const made = show(each);
      event.currentTarget.closest("article").replaceWith(made);
      for (const box of made.querySelectorAll(".scroll, .where")) fitFormulas(box);
      made.querySelector("[aria-pressed=true]").focus();
    }, { class: "quiet form", "aria-pressed": String(each === name) }));
    return card(block, forms[name], order, layout, choices);
  };
  return show(other.unicode.length < block.unicode.length ? "Kronecker" : "index");
}

function card(about, form, order, layout, choices) {
  const block = { ...about, ...form, key: about.key, label: about.label };
  const typeset = equation([block.left, block.mathml], `${block.label} = ${block.text}`);
  const parts = [scroller("scroll", `${ORDERS[order]} ${block.label}`, h("div", { class: "equation" }, typeset))];
  if (block.where.length) {
    const row = (definition, place) => [h("dt", {}, place ? "" : "where"), h("dd", {}, named(definition))];
    parts.push(scroller("where", "Named parts", h("dl", {}, block.where.flatMap(row))));
  }
  const size = h("span", { class: "size", title: block.axes }, block.words);
  const words = form === about ? about.axes : form.note;
  const axes = hasAxes(about, layout) ? h("span", {}, words) : null;
  const shapes = choices.length ? h("span", { class: "forms", role: "group", "aria-label": "Form" }, ...choices) : null;
  const copies = h("span", { class: "copies" },
    copyButton("Copy text", `text of ${block.label}`, () => block.text),
    copyButton("Copy LaTeX", `LaTeX of ${block.label}`, () => block.latex));
  parts.push(h("div", { class: "under" }, size, axes, shapes, copies));
  return h("article", { class: "block", "data-key": block.key, "data-text": about.text }, ...parts);
}
