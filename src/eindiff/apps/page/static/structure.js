// The structure of a Hessian: which entries can differ from zero, and what they are made of.

import { button, bytes, h, scroller } from "./dom.js";
import { fitFormulas } from "./lines.js";
import { formula, picture } from "./safe.js";
import { change, question } from "./state.js";

const BY_ENTRY =
  "In [ … ] with four indices, the first two are those of the row variable, and the last two those of the column " +
  "variable; δ is 1 where its indices are equal, and 0 elsewhere.";

const COLOURS =
  "The matrix has a row and a column for each entry of the variables. A colour is one term of the sum that the " +
  "Hessian is, drawn where it has entries; where terms overlap, their squares lie inside of each other. Pale squares " +
  "are entries that are 0 at the point drawn. Where nothing is drawn, entries are 0 for all values.";

/** The colours, each with the term that it stands for. */
function legend(terms) {
  const rows = terms.map(({ colour, block, text, mathml, where }) => {
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.backgroundColor = colour;
    const what = mathml ? formula(mathml, text) : h("span", {}, text);
    const parts = where.map(({ name, name_mathml: left, text: words, mathml: right }) =>
      h("div", { class: "part" }, formula(left, name), right ? " = " : " is ", right ? formula(right, words) : words));
    const by = block ? h("span", { class: "by" }, block) : null;
    return h("li", {}, swatch, by, h("div", { class: "term" }, what, ...parts));
  });
  return h("ul", { class: "legend" }, ...rows);
}

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
    const { terms, note } = structure;
    const notes = [sizes ? `Drawn for ${sizes}.` : "", note ? `${note[0].toUpperCase()}${note.slice(1)}.` : ""];
    if (terms.some(({ text }) => /\]_\w{4}$/.test(text))) notes.push(BY_ENTRY);
    const words = h("div", {}, h("h3", {}, structure.name),
      structure.formula ? h("p", { class: "formula" }, structure.formula) : null,
      h("p", {}, structure.explanation), legend(terms), h("p", { class: "meaning" }, COLOURS), figures,
      h("p", { class: "note" }, notes.filter(Boolean).join(" ")));
    place.replaceChildren(h("div", { class: "structure" }, scroller("picture", "Drawing", image ?? ""), words));
    for (const term of place.querySelectorAll(".legend .term")) fitFormulas(term);
  },
};
