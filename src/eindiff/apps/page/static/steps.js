// The derivation, step by step. Each step unfolds to its rule and its reason.

import { button, h, scroller } from "./dom.js";
import { fitFormulas } from "./lines.js";
import { equation, formula } from "./safe.js";
import { question } from "./state.js";

const pieces = (list) => list.map(({ text, mathml }) => (mathml ? formula(mathml, text) : text));

/** An equation, or only its first and last side. */
function sides({ text, mathml }, short = false) {
  const shown = short && mathml.length > 2 ? [mathml[0], mathml.at(-1)] : mathml;
  return h("span", { class: "sides" }, equation(shown, text));
}

/** A step: its result, and unfolded its rule, its reason, and all sides of its equation. */
function stepItem(step) {
  const short = h("span", { class: "short" }, sides(step.equation, true));
  const long = scroller("long", "Equation", sides(step.equation));
  const why = h("div", { class: "why" },
    h("p", { class: "rule" }, step.rule),
    step.words.length ? h("p", { class: "words" }, ...pieces(step.words)) : null,
    long);
  const whole = step.equation.mathml.length <= 2;
  const unfolded = () => {
    long.hidden = whole && short.scrollWidth <= short.clientWidth;
    fitFormulas(long);
  };
  const summary = h("summary", {}, h("span", { class: "number" }, String(step.number)), short);
  return h("li", {}, h("details", { ontoggle: unfolded }, summary, why));
}

function chapterBox(chapter, open) {
  const names = chapter.names.length
    ? scroller("names", "Names", ...chapter.names.map((each) => sides(each)))
    : null;
  return h("details", { class: "chapter", open },
    h("summary", {}, ...pieces(chapter.title)),
    h("div", { class: "inside" }, names, h("ol", { class: "steps" }, ...chapter.steps.map(stepItem))));
}

function unfold(place, pressed) {
  const all = [...place.querySelectorAll("details")];
  const open = all.some((each) => !each.open);
  for (const each of all) each.open = open || each.classList.contains("chapter");
  pressed.textContent = open ? "Fold all" : "Unfold all";
}

export const stepsPanel = {
  id: "steps",
  title: "Steps",
  path: "api/steps",
  question: (state) => question(state),

  show({ chapters }, state, place) {
    const count = chapters.reduce((sum, chapter) => sum + chapter.steps.length, 0);
    if (!count) {
      place.replaceChildren(h("p", { class: "note" }, "There is nothing to do: no rule was needed."));
      return;
    }
    const words = `${count} ${count === 1 ? "step" : "steps"}; each unfolds to its rule`;
    const all = button("Unfold all", (event) => unfold(place, event.currentTarget));
    const bar = h("div", { class: "bar" }, h("span", { class: "note" }, words), all);
    place.replaceChildren(bar, ...chapters.map((chapter, index) => chapterBox(chapter, index < 2)));
    for (const names of place.querySelectorAll(".names")) fitFormulas(names);
  },
};
