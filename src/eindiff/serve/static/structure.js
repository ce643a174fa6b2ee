// The structure of a Hessian: which entries can differ from zero, and what they are made of.

import { button, bytes, h, scroller } from "./dom.js";
import { picture } from "./safe.js";
import { change, question } from "./state.js";

const LEGEND =
  "Each colour is one term. In ab→ca|cb the entries of a matrix with indices a, b stand in rows (c, a) and columns " +
  "(c, b): the letter c on both sides is a delta, which makes all else zero.";

export const structurePanel = {
  id: "structure",
  title: "Structure",
  path: "api/structure",
  question: (state) => ({ ...question(state), sizes: {} }),

  /** Only second derivatives have one; nothing is asked for others. */
  closed(state, place) {
    if (state.order === 2) return false;
    place.replaceChildren(
      h("p", { class: "exact" }, "The structure is that of a Hessian: the second derivative of a scalar function."),
      button("Show the second derivative", () => change({ order: 2 }), { class: "solid" }),
    );
    return true;
  },

  show(structure, state, place) {
    if (!structure.available) {
      place.replaceChildren(h("p", { class: "exact" }, structure.reason));
      return;
    }
    const image = picture(structure.svg, `The Hessian drawn as a matrix: ${structure.name}`);
    const sizes = Object.entries(structure.sizes).map(([name, value]) => `${name} = ${value}`).join(", ");
    const figures = h("dl", { class: "figures" },
      h("div", {}, h("dt", {}, "stored"), h("dd", {}, bytes(structure.bytes))),
      h("div", {}, h("dt", {}, "instead of"), h("dd", {}, bytes(structure.dense_bytes))));
    const words = h("div", {}, h("h3", {}, structure.name), h("p", { class: "formula" }, structure.formula),
      h("p", {}, structure.explanation), figures, sizes ? h("p", { class: "note" }, `Drawn for ${sizes}.`) : null);
    if (/→[^<]*\|/.test(structure.svg)) words.append(h("p", { class: "note" }, LEGEND));
    place.replaceChildren(h("div", { class: "structure" }, scroller("picture", "Drawing", image ?? ""), words));
  },
};
