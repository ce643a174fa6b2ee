// The help window: the reference of the language, to be searched, and the keys.

import { byId, h } from "./dom.js";
import { entries, found } from "./reference.js";
import { start } from "./result.js";

const KEYS = [
  [["/"], "go to the function"],
  [["↑ ↓", "Tab", "Enter"], "while typing: choose a function, take it"],
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
  "Names are scalars, vectors or matrices as they are used; where that leaves a choice, a to g are scalars, h to z " +
  "vectors and A to Z matrices. Click on a variable to say otherwise, and on its ∂ to differentiate by it. A dashed " +
  "border means: read from its use or name.";

/** Whether keys without Alt are on: people who speak to their computer may want them off. */
export function singleKeys() {
  try {
    return localStorage.getItem("eindiff-keys") !== "off";
  } catch {
    return true;
  }
}

let filled = false;

/** Open the window; the reference is asked for once. */
export async function openHelp() {
  byId("help").showModal();
  byId("help-search").focus();
  if (filled) return;
  filled = true;
  const list = (await entries()).filter((entry) => entry.is_shown);
  filled = list.length > 0;
  const search = byId("help-search");
  search.oninput = () => fill(list, search.value);
  fill(list, search.value);
}

/** The reference as far as it fits to what is searched for; all of it and the keys if that is nothing. */
function fill(list, text) {
  const fits = found(list, text);
  const groups = text.trim() ? [["", fits]] : [...new Set(list.map((entry) => entry.group))].map(
    (group) => [group, list.filter((entry) => entry.group === group)],
  );
  const parts = groups.flatMap(([group, own]) => [
    group ? h("h3", {}, group) : null, group === "Writing" ? h("p", {}, CONVENTION) : null,
    h("dl", { class: "reference" }, ...own.flatMap(row)),
  ]);
  const none = fits.length ? [] : [h("p", {}, "Nothing in the reference has these words.")];
  byId("help-body").replaceChildren(...parts.filter(Boolean), ...none, ...(text.trim() ? [] : keys()));
}

/** What one looks up, and an example that can be taken. */
function row({ name, usage, meaning, example, aliases, is_function }) {
  const also = aliases.length ? ` Also ${aliases.join(", ")}.` : "";
  const take = h("button", {
    type: "button", class: "example", title: "Put this into the field", onclick: () => {
      byId("help").close();
      start({ expression: example, wrt: ["x"] });
      byId("expression").focus();
    },
  }, h("code", {}, example));
  return [
    h("dt", { "data-name": name }, h("code", {}, usage)),
    h("dd", {}, h("span", {}, meaning + also), is_function || example !== name ? take : null),
  ];
}

byId("help").addEventListener("click", (event) => {
  if (event.target === byId("help")) byId("help").close();
});

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
