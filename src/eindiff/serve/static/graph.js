// The expression graphs of the derivatives, in reverse and in cross-country mode, side by side.

import { button, h, scroller } from "./dom.js";
import { panZoom } from "./panzoom.js";
import { picture } from "./safe.js";
import { question } from "./state.js";

const MODES = { reverse: "Reverse mode", cross_country: "Cross-country mode", forward: "Forward mode", auto: "Graph" };

function figure({ mode, svg, nodes, high }) {
  const title = MODES[mode] ?? mode;
  const counts = h("span", { class: "counts" }, `${nodes} nodes`);
  const red = high ? h("span", { class: "counts high" }, `${high} of order ≥ 4`) : null;
  const box = scroller("viewport", `${title}: arrows move, + and − zoom, 0 fits`);
  const image = picture(svg, `${title}, ${nodes} nodes`);
  const zoom = h("span", { class: "zoom" });
  const result = h("figure", {}, h("figcaption", {}, h("strong", {}, title), counts, red, zoom), box);
  if (!image) return result;
  box.append(image);
  const control = panZoom(box, image);
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

export const graphPanel = {
  id: "graph",
  title: "Graph",
  path: "api/graph",
  question: (state) => question(state),

  show({ drawings }, state, place) {
    const plain = new Set(drawings.map(({ svg }) => svg.replace(/arrow[\w-]*/g, "")));
    const words = ["Inputs are below, results on top; values of order 4 or more are red."];
    words.push("Drag to move, Ctrl and wheel or two fingers to zoom.");
    if (drawings.length > 1 && plain.size === 1) words.push("Both modes lead to the same graph here.");
    place.replaceChildren(
      h("p", { class: "exact" }, words.join(" ")),
      h("div", { class: "graphs" }, ...drawings.map(figure)),
    );
  },
};
