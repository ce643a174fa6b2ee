// Code for the derivatives, to copy: a program that checks itself when it is run.

import { button, copyButton, h, scroller, segment } from "./dom.js";
import { change, question } from "./state.js";

const LIBRARIES = [
  ["numpy", "NumPy"], ["torch", "PyTorch"], ["jax", "JAX"],
  ["tensorflow", "TensorFlow"], ["cupy", "CuPy"], ["latex", "LaTeX"],
];

const KEYWORDS = new Set(
  `and as assert break class def del elif else except False finally for from global if import in is lambda None not or
   pass raise return True try while with yield`.split(/\s+/),
);

// Strings, comments, words, numbers.
const PYTHON =
  /("""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(#[^\n]*)|([A-Za-z_]\w*)|(\b\d[\d_.]*(?:e[+-]?\d+)?)/g;
const LATEX = /(\$[^$]*\$)|(%[^\n]*)|(\\[A-Za-z]+)|(\b\d[\d.]*)/g;

/** The text in coloured parts. */
function coloured(text, language) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(language === "python" ? PYTHON : LATEX)) {
    const [found, string, comment, word, number] = match;
    const keyword = word && (language === "latex" || KEYWORDS.has(word));
    const kind = string ? "s" : comment ? "c" : keyword ? "k" : number ? "n" : "";
    if (!kind) continue;
    parts.push(text.slice(end, match.index), h("span", { class: kind }, found));
    end = match.index + found.length;
  }
  return [...parts, text.slice(end)];
}

function save(filename, code) {
  const address = URL.createObjectURL(new Blob([code], { type: "text/plain" }));
  h("a", { href: address, download: filename }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

export const codePanel = {
  id: "code",
  title: "Code",
  path: "api/code",
  question: (state) => ({ ...question(state), library: state.library }),

  show({ code, filename, language }, state, place) {
    const segments = h("div", { class: "segments", role: "radiogroup", "aria-label": "Library" });
    for (const [value, label] of LIBRARIES) {
      segments.append(segment("library", value, label, value === state.library, () => change({ library: value })));
    }
    const focused = place.contains(document.activeElement) && document.activeElement.name === "library";
    const buttons = h("span", {}, copyButton("Copy code", "code", () => code),
      button(`Download ${filename}`, () => save(filename, code)));
    const text = scroller("code", `Code, ${filename}`, h("pre", { id: "code" }, ...coloured(code, language)));
    place.replaceChildren(h("div", { class: "bar" }, segments, buttons), text);
    if (focused) place.querySelector("input:checked").focus();
  },
};
