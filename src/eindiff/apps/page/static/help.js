// The help window: how to write functions, the functions of the language, and the keys.

import { ask } from "./api.js";
import { byId, h } from "./dom.js";

const KEYS = [
  [["/"], "go to the function"],
  [["?"], "this help"],
  [["Alt 0", "Alt 1", "Alt 2", "Alt 3"], "the value, the first, second, third derivative"],
  [["Alt N"], "next notation"],
  [["Alt E"], "examples"],
  [["Alt L"], "copy the link to what is shown"],
  [["Alt C"], "copy the text of the result"],
  [["Alt T"], "next tab; ← → go on from there"],
  [["Esc"], "close a window or menu"],
  [["← → ↑ ↓", "+", "−", "0"], "in a graph: move, zoom, fit"],
];

const CONVENTION =
  "A name that begins with a to g is a scalar, with h to z a vector, with A to Z a matrix. Click on a variable to " +
  "say otherwise, and on its ∂ to differentiate by it. A dashed border means: read from its use.";

const LANGUAGE = [
  ["x'*A*y", "products as in linear algebra; ' transposes"],
  ["x.*y   x./y   x.^2", "entry by entry"],
  ["sum(x)   norm2(x)   tr(X)   inv(X)", "functions, see below"],
  ["vector(1)   matrix(1)   eye", "constants, sized by their use"],
  ['einsum("ijk,k->ij", T, x)', "any contraction of tensors"],
];

/** Whether keys without Alt are on: people who speak to their computer may want them off. */
export function singleKeys() {
  try {
    return localStorage.getItem("eindiff-keys") !== "off";
  } catch {
    return true;
  }
}

let filled = false;

/** Open the window; the functions are asked for once. */
export async function openHelp() {
  byId("help").showModal();
  if (filled) return;
  filled = true;
  const settings = await ask("api/settings").catch(() => null);
  if (!settings) filled = false;
  byId("help-body").replaceChildren(...language(), ...keys(), ...functions(settings?.functions ?? []));
}

byId("help").addEventListener("click", (event) => {
  if (event.target === byId("help")) byId("help").close();
});

function language() {
  const rows = LANGUAGE.flatMap(([code, words]) => [h("dt", {}, h("code", {}, code)), h("dd", {}, words)]);
  return [
    h("h3", {}, "Writing a function"),
    h("p", {}, CONVENTION),
    h("dl", {}, ...rows),
  ];
}

function keys() {
  const caps = (names) => names.flatMap((name, place) => [place ? " " : "", h("kbd", {}, name)]);
  const rows = KEYS.flatMap(([names, words]) => [h("dt", {}, ...caps(names)), h("dd", {}, words)]);
  const box = h("input", {
    type: "checkbox", checked: singleKeys(), onchange: (event) => {
      try {
        localStorage.setItem("eindiff-keys", event.target.checked ? "on" : "off");
      } catch {
        event.target.checked = true;
      }
    },
  });
  return [h("h3", {}, "Keys"), h("dl", {}, ...rows), h("p", {}, h("label", {}, box, " keys without Alt ( / and ? )"))];
}

function functions(list) {
  if (!list.length) return [];
  const rows = list.map(({ description }) => h("li", {}, h("code", {}, description)));
  return [h("h3", {}, "Functions"), h("ul", { class: "functions" }, ...rows)];
}
