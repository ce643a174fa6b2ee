// The expression graphs of the derivatives, in reverse and in cross-country mode, side by side.

import { button, h, scroller } from "./dom.js";
import { panZoom } from "./panzoom.js";
import { picture } from "./safe.js";
import { question } from "./state.js";

const MODES = { reverse: "Reverse mode", cross_country: "Cross-country mode", forward: "Forward mode", auto: "Graph" };

const ORDERS = {
  reverse: "from the function to the variable, a unit tensor first",
  cross_country: "in order of increasing tensor order, unit tensors last",
};

/** How many values are large: the result may have to be, those on the way to it should not. */
function largeOnes(high, inside) {
  if (!high) return null;
  const ends = high > 1 ? "only results and their terms" : "only the result";
  const where = inside ? `${inside} on the way` : ends;
  return h("span", { class: "counts high" }, `${high} of order ≥ 4, ${where}`);
}

function figure({ mode, svg, nodes, high, inside }) {
  const title = MODES[mode] ?? mode;
  const counts = h("span", { class: "counts" }, `${nodes} nodes`);
  const red = largeOnes(high, inside);
  const box = scroller("viewport", `${title}: arrows move, + and − zoom, 0 fits`);
  const image = picture(svg, `${title}, ${nodes} nodes`);
  const zoom = h("span", { class: "zoom" });
  const order = ORDERS[mode] ? h("p", { class: "note" }, `Multiplies ${ORDERS[mode]}.`) : null;
  const caption = h("figcaption", {}, h("strong", {}, title), counts, red);
  const result = h("figure", {}, caption, h("div", { class: "how" }, order, zoom), box);
  if (!image) return result;
  box.append(image);
  const results = [...image.querySelectorAll('text[font-weight="bold"]')];
  const height = (text) => Number(text.getAttribute("y"));
  const control = panZoom(box, image, results.sort((a, b) => height(a) - height(b))[0]);
  const actions = [
    ["Zoom out", "−", () => control.zoom(0.8)],
    ["Zoom in", "+", () => control.zoom(1.25)],
    ["Fit", "⤢", control.fit],
  ];
  for (const [label, sign, action] of actions) {
    zoom.append(button(sign, action, { "aria-label": `${label}, ${title}`, title: label }));
  }
  return result;
}

const COLOURS = [
  ["round", "#dbeafe", "#3b82f6", "a variable"],
  ["", "#f4f4f5", "#71717a", "a value on the way"],
  ["", "#dcfce7", "#16a34a", "a result"],
  ["", "#fecaca", "#dc2626", "a value of order 4 or more: these are expensive"],
];

const SIGNS = [
  ["∗", "∗(ij,j,i)", "a product: the indices of both factors, and those of the value, which is summed over all others"],
  ["⊙", "⊙", "a product entry by entry"],
  ["δ", "δ(ii)", "a unit tensor: 1 where indices are equal; left out where it changes nothing"],
];

/** What colours and signs mean, as far as they are there. */
function legend(drawings) {
  const all = drawings.map(({ svg }) => svg).join("");
  const boxes = COLOURS.filter(([, fill]) => all.includes(fill)).map(([shape, fill, line, words]) => {
    const box = h("span", { class: `box ${shape}`, "aria-hidden": "true" });
    box.style.backgroundColor = fill;
    box.style.borderColor = line;
    return h("li", {}, box, words);
  });
  const signs = SIGNS.filter(([sign]) => all.includes(sign)).map(([, code, words]) =>
    h("li", {}, h("span", {}, h("code", {}, code), ` ${words}`)));
  return h("ul", { class: "keys", "aria-label": "Legend" }, ...boxes, ...signs);
}

export const graphPanel = {
  id: "graph",
  title: "Graph",
  path: "api/graph",
  question: (state) => question(state),

  show({ drawings, same }, state, place) {
    const words = ["Inputs are below, results on top. Drag to move, Ctrl and wheel or two fingers to zoom."];
    const shown = same ? [{ ...drawings[0], mode: "auto" }] : drawings;
    if (same && state.order) words.unshift("Reverse and cross-country mode multiply in the same order here.");
    place.replaceChildren(
      h("p", { class: "exact" }, words.join(" ")),
      legend(shown),
      h("div", { class: same ? "graphs one" : "graphs" }, ...shown.map(figure)),
    );
  },
};
