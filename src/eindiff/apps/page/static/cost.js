// What the derivatives cost at sizes that can be slid.

import { ask } from "./api.js";
import { bytes, h, scroller, short } from "./dom.js";
import { change, current, question } from "./state.js";

const LARGEST = 100000;
const MODES = { reverse: "reverse", forward: "forward", cross_country: "cross-country", auto: "auto" };

const toSlider = (value) => Math.round((Math.log(value) / Math.log(LARGEST)) * 1000);
const fromSlider = (place) => {
  const value = Math.exp((place / 1000) * Math.log(LARGEST));
  return value < 20 ? Math.round(value) : Number(value.toPrecision(2));
};

/** A slider and a number for each named size. They stay while the figures change. */
function sliders(sizes, onSize) {
  const box = h("div", { class: "sliders", role: "group", "aria-label": "Sizes" });
  for (const [name, value] of Object.entries(sizes)) {
    const at = toSlider(Math.min(value, LARGEST));
    const range = { type: "range", id: `size-${name}`, min: 0, max: 1000, value: at, "aria-valuetext": value };
    const slider = h("input", range);
    const number = h("input", { type: "number", min: 1, max: 1000000, value, "aria-label": `Size ${name}` });
    const set = (next) => {
      slider.setAttribute("aria-valuetext", next);
      onSize(name, next);
    };
    slider.addEventListener("input", () => {
      number.value = fromSlider(Number(slider.value));
      set(Number(number.value));
    });
    number.addEventListener("input", () => {
      const next = Math.round(Number(number.value));
      if (!(next >= 1 && next <= 1000000)) return;
      slider.value = toSlider(Math.min(next, LARGEST));
      set(next);
    });
    box.append(h("label", { for: slider.id }, name), slider, number);
  }
  return box;
}

function figures(cost) {
  const entry = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
  const ratio = Number((cost.flops / cost.function_flops).toPrecision(2)).toLocaleString("en");
  return h("dl", { class: "figures" },
    entry("operations", short(cost.flops)),
    entry("memory at most", bytes(cost.peak)),
    entry("result", bytes(cost.result_bytes)),
    cost.function_flops > 0 ? entry("relative to the function", `${ratio} ×`) : null);
}

/** A table; the first column is text, those with bars are elements, others are figures. */
function table(caption, head, rows) {
  const headKind = (cell, place) => (place > 0 && cell !== "share" ? "figure" : "");
  const heads = head.map((cell, place) => h("th", { scope: "col", class: headKind(cell, place) }, cell));
  const kind = (cell, place) => (place === 0 ? "" : cell instanceof Node ? "share-cell" : "figure");
  const line = (cells) => cells.map((cell, place) => h("td", { class: kind(cell, place) }, cell));
  const lines = rows.map((cells) => h("tr", {}, ...line(cells)));
  return scroller("scroller", caption,
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...lines)));
}

function share(part, whole) {
  const bar = h("span", { class: "share", "aria-hidden": "true" });
  bar.style.width = `${whole ? Math.max(0.5, (100 * part) / whole) : 0}%`;
  return bar;
}

function tables(cost) {
  const most = Math.max(...cost.modes.map((mode) => mode.flops), 1);
  const total = cost.steps.reduce((sum, step) => sum + step.flops, 0);
  const modes = cost.modes.map(({ mode, flops, peak }) =>
    [MODES[mode] ?? mode, short(flops), bytes(peak), share(flops, most)]);
  const steps = cost.steps.map(({ text, flops, memory }) =>
    [h("pre", {}, text), short(flops), bytes(memory), share(flops, total)]);
  const result = [];
  const columns = ["operations", "memory", "share"];
  if (modes.length > 1) result.push(table("Modes of the chain rule", ["mode", ...columns], modes));
  if (steps.length) result.push(table("Statement by statement", ["statement", ...columns], steps));
  return result;
}

let timer = null;
let latest = {};

/** Ask again for other sizes, a moment after the last movement. */
function slide(name, value, place) {
  latest = { ...latest, [name]: value };
  change({ sizes: { ...current().sizes, [name]: value } }, "sliding");
  clearTimeout(timer);
  timer = setTimeout(async () => {
    try {
      const cost = await ask("api/cost", { ...question(current()), sizes: latest }, "panel");
      if (!cost || !place.isConnected) return;
      place.querySelector(".figures").replaceWith(figures(cost));
      place.querySelector(".tables").replaceChildren(...tables(cost));
    } catch (error) {
      place.querySelector(".tables").replaceChildren(h("p", { class: "failure" }, error.message));
    }
  }, 60);
}

export const costPanel = {
  id: "cost",
  title: "Cost",
  path: "api/cost",
  question: (state) => ({ ...question(state), sizes: state.sizes }),

  show(cost, state, place) {
    latest = { ...cost.sizes };
    const none = h("p", { class: "exact" }, "All sizes are numbers; with names as sizes they could be changed here.");
    const moving = sliders(cost.sizes, (name, value) => slide(name, value, place));
    const top = h("div", { class: "cost" }, Object.keys(cost.sizes).length ? moving : none, figures(cost));
    place.replaceChildren(top, h("div", { class: "tables" }, ...tables(cost)));
  },
};
