// Examples to start from, in groups, in a window of their own.

import { ask } from "./api.js";
import { byId, h } from "./dom.js";
import { start } from "./result.js";

const dialog = byId("examples");
const list = byId("examples-list");
const search = byId("examples-search");

let groups = null;

/** All groups of examples; asked for once. */
export async function examples() {
  groups ??= (await ask("api/examples"))?.groups ?? null;
  return groups ?? [];
}

/** Open the window. */
export async function openExamples() {
  dialog.showModal();
  search.value = "";
  search.focus();
  try {
    await examples();
    show();
  } catch (error) {
    list.replaceChildren(h("p", { class: "none" }, error.message));
  }
}

search.addEventListener("input", () => show());
search.addEventListener("keydown", (event) => {
  const first = list.querySelector("button");
  if (!first) return;
  if (event.key === "Enter") first.click();
  else if (event.key === "ArrowDown") first.focus();
  else return;
  event.preventDefault();
});
list.addEventListener("keydown", (event) => {
  const buttons = [...list.querySelectorAll("button")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const next = buttons.indexOf(document.activeElement) + step;
  (buttons[next] ?? (next < 0 ? search : null))?.focus();
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close(); // beside the window
});

function show() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const parts = [];
  for (const { title, examples: all } of groups ?? []) {
    const text = (example) => `${title} ${example.title} ${example.expression}`.toLowerCase();
    const found = all.filter((example) => words.every((word) => text(example).includes(word)));
    if (found.length) parts.push(h("h3", {}, title), ...found.map(row));
  }
  list.replaceChildren(...(parts.length ? parts : [h("p", { class: "none" }, "Nothing found.")]));
}

function row(example) {
  const by = example.wrt.length ? `by ${example.wrt.join(", ")}` : "";
  const order = ["value", by, `2nd ${by}`, `3rd ${by}`][example.order ?? 1];
  return h("button", { type: "button", onclick: () => take(example) },
    h("span", {}, example.title), h("span", { class: "order" }, order), h("code", {}, example.expression));
}

function take(example) {
  dialog.close();
  start(example);
  byId("expression").focus();
}
