// Segmented controls (one of several), the fold of options, and the field for declarations.

import { byId, h, segment } from "./dom.js";
import { change } from "./state.js";

const LABELS = {
  order: [[0, "value"], [1, "1st"], [2, "2nd"], [3, "3rd"]],
  notation: [["matrix", "matrix"], ["index", "index"], ["einsum", "einsum"]],
  layout: [["mixed", "mixed"], ["numerator", "numerator"], ["denominator", "denominator"]],
  mode: [["auto", "auto"], ["reverse", "reverse"], ["forward", "forward"], ["cross_country", "cross-country"]],
  symmetric: [["projected", "symmetric part"], ["free", "free entries"]],
};

const TITLES = {
  order: { 0: "The function", 1: "First derivative", 2: "Second derivative: the Hessian", 3: "Third derivative" },
  notation: { matrix: "As in linear algebra", index: "With indices for the axes", einsum: "As one call of einsum" },
};

/** Make the controls; each changes the record. */
export function makeControls() {
  for (const [name, choices] of Object.entries(LABELS)) {
    const segments = h("div", { class: "segments" });
    for (const [value, label] of choices) {
      const made = segment(name, value, label, false, () => change({ [name]: value }));
      made.title = TITLES[name]?.[value] ?? "";
      segments.append(made);
    }
    byId(name).append(segments);
  }
  byId("options-button").addEventListener("click", () => openOptions(byId("options").hidden));
  byId("declarations").addEventListener("input", (event) => change({ declarations: event.target.value }, "declaring"));
}

/** Open or close the fold. */
export function openOptions(open) {
  byId("options").hidden = !open;
  byId("options-button").setAttribute("aria-expanded", String(open));
}

/** Show the record in the controls. */
export function showControls(state, first) {
  for (const name of Object.keys(LABELS)) {
    for (const input of byId(name).querySelectorAll("input")) input.checked = input.value === String(state[name]);
  }
  const declarations = byId("declarations");
  if (declarations.value !== state.declarations) declarations.value = state.declarations;
  const unusual = state.layout !== "mixed" || state.mode !== "auto" || state.symmetric !== "projected";
  if (first && unusual) openOptions(true);
}

/** Set the next of the choices of one control. */
export function cycle(name, state) {
  const values = LABELS[name].map(([value]) => value);
  change({ [name]: values[(values.indexOf(state[name]) + 1) % values.length] });
}
