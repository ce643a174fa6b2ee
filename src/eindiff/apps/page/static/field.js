// The field for the function: it grows with its text, and shows what is wrong where it is wrong.

import { STOPPED } from "./api.js";
import { byId, h } from "./dom.js";

const field = byId("expression");
const mirror = byId("mirror");
const problem = byId("problem");

/** Let the field tell each change of its text. It holds one line: Enter is not part of it. */
export function watch(onText) {
  field.addEventListener("input", () => {
    reflect(null);
    onText(field.value);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) event.preventDefault();
  });
}

/** Show a text that did not come from typing. */
export function setText(text) {
  if (field.value !== text) field.value = text;
  reflect(null);
}

/** The text behind the field, which gives it its height, with the wrong part marked. */
function reflect(range) {
  const text = field.value;
  if (!range) return mirror.replaceChildren(`${text} `);
  const [start, end] = range;
  mirror.replaceChildren(text.slice(0, start), h("mark", {}, text.slice(start, end) || " "), `${text.slice(end)} `);
}

/** Nothing is wrong. */
export function clearProblem() {
  problem.replaceChildren();
  byId("field").classList.remove("wrong");
  field.removeAttribute("aria-invalid");
  reflect(null);
}

/** What is wrong, with a caret under the place in the user's own text; `actions` are buttons that may help. */
export function showProblem(error, state, actions = []) {
  const text = ["declarations", "expression"].includes(error.field) ? state[error.field] : "";
  const range = text && error.start !== null ? [error.start, Math.max(error.end ?? 0, error.start + 1)] : null;
  const parts = [];
  if (error.field === "declarations") parts.push(h("p", { class: "hint" }, "In the declarations:"));
  if (range) parts.push(excerpt(text, range));
  parts.push(h("p", { class: "message" }, error.message));
  if (error.hint) parts.push(h("p", { class: "hint" }, error.hint));
  if (actions.length) parts.push(h("p", { class: "actions" }, error.choices?.length ? "Did you mean " : null, ...actions));
  problem.replaceChildren(...parts);
  problem.classList.toggle("calm", error.status === STOPPED);
  byId("field").classList.toggle("wrong", error.field === "expression");
  if (error.field === "expression") field.setAttribute("aria-invalid", "true");
  reflect(error.field === "expression" ? range : null);
}

/** The part of the text around the place that fits, and carets under the place. */
function excerpt(text, [start, end]) {
  const width = Math.max(24, Math.floor((problem.clientWidth || field.clientWidth) / 10.5) - 6);
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  const lineEnd = text.indexOf("\n", start) < 0 ? text.length : text.indexOf("\n", start);
  let from = lineStart;
  if (lineEnd - lineStart > width) from = Math.max(lineStart, Math.min(start - Math.floor(width / 3), lineEnd - width));
  const to = Math.min(lineEnd, from + width);
  const before = from > lineStart ? "…" : "";
  const shown = before + text.slice(from, to) + (to < lineEnd ? "…" : "");
  const carets = "^".repeat(Math.max(1, Math.min(end, to) - start));
  const indent = " ".repeat(before.length + start - from);
  return h("pre", {}, `${shown}\n${indent}`, h("span", { class: "caret" }, carets));
}
