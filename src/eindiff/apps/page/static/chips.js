// The variables of the function, each with its kind and sizes, and whether to differentiate by it.

import { KINDS, kindOf, kindOfVariable, withDeclaration, write } from "./declarations.js";
import { button, byId, h } from "./dom.js";
import { formula } from "./safe.js";
import { change, current } from "./state.js";

let variables = [];
let differentiated = []; // names of those that the derivative is by

const UNKNOWN = "?"; // a size in an expression that does not fit together

const HOW = { declared: "declared", use: "by its use", name: "by its name" };

/** Which variables the derivative is by: those asked for, or all. */
function chosen() {
  const names = variables.map((variable) => variable.name);
  const asked = differentiated.filter((name) => names.includes(name));
  return asked.length || differentiated.length ? asked : names;
}

/** Show chips for these variables, and which of them the derivative is `by`. What has the focus keeps it. */
export function showVariables(list, by = current().wrt) {
  variables = list;
  differentiated = by;
  const place = byId("variables");
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const label = variables.length ? [h("span", { class: "by" }, "Variables")] : [];
  place.replaceChildren(...label, ...variables.map(chip));
  if (focused) focusOn(focused);
}

function focusOn(key) {
  [...byId("variables").querySelectorAll("button")].find((each) => each.dataset.key === key)?.focus();
}

function chip(variable) {
  const { name, declared, how } = variable;
  const by = chosen().includes(name);
  const kind = kindOfVariable(variable);
  const long = `${variable.words}, ${HOW[how]}`;
  const toggle = h("button", {
    type: "button", class: "toggle", "aria-pressed": String(by), "aria-label": `Differentiate by ${name}`,
    title: by ? `The derivative is by ${name}` : `Differentiate by ${name}`, "data-key": `by ${name}`,
    onclick: (event) => toggleBy(name, event.shiftKey || event.altKey),
  }, "∂");
  const what = h("button", {
    type: "button", class: "what", "aria-haspopup": "dialog", "data-key": `kind ${name}`,
    title: declared ? "Declared" : `${kindOf(kind).label} ${HOW[how]}; click to declare`,
    "aria-label": `${name}: ${long}. Change`,
    onclick: (event) => openMenu(variable, event.currentTarget),
  },
  h("span", { class: "name" }, formula(variable.mathml, name)), spelled(variable.words),
  h("span", { class: "more", "aria-hidden": "true" }, "▾"));
  const classes = ["chip", declared ? "declared" : "guessed", by ? "by-this" : ""].join(" ");
  return h("span", { class: classes, role: "group", "aria-label": `Variable ${name}` }, toggle, what);
}

/** `symmetric n×n matrix`, `vector of length n`: the sizes as mathematics, and less words where there is little room. */
function spelled(words) {
  const parts = words.split(/( of length |[^ ]+×[^ ]+|(?<= of length )[^ ]+)/).filter(Boolean);
  return h("span", { class: "kind" }, ...parts.map((part, place) => {
    if (part === " of length ") return h("span", {}, " ", h("span", { class: "usual" }, "of length "));
    return part.includes("×") || parts[place - 1] === " of length " ? h("span", { class: "sizes" }, part) : part;
  }));
}

function toggleBy(name, only) {
  const names = variables.map((variable) => variable.name);
  const now = chosen();
  let next = names.filter((other) => now.includes(other) !== (other === name));
  if (only) next = [name];
  if (!next.length) next = [name];
  change({ wrt: next.length === names.length && names.length > 1 ? [] : next });
  showVariables(variables, next);
}

/** The menu of one variable: its kind, its sizes, whether it is positive. */
function openMenu(variable, anchor) {
  byId("menu")?.remove();
  const label = `Variable ${variable.name}`;
  const menu = h("div", { class: "menu", id: "menu", popover: "auto", role: "dialog", "aria-label": label });
  fillMenu(menu, variable);
  menu.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    const inside = menu.contains(document.activeElement) || document.activeElement === document.body;
    menu.remove();
    if (inside) focusOn(`kind ${variable.name}`);
  });
  document.body.append(menu);
  menu.showPopover();
  const place = anchor.getBoundingClientRect();
  const left = Math.max(12, Math.min(place.left - 20, document.documentElement.clientWidth - menu.offsetWidth - 12));
  const below = place.bottom + 6;
  const top = below + menu.offsetHeight > innerHeight - 8 ? Math.max(8, innerHeight - menu.offsetHeight - 8) : below;
  menu.style.left = `${left}px`;
  menu.style.top = `${top}px`;
  menu.querySelector("input:checked")?.focus();
}

const given = (size) => (size === undefined || size === UNKNOWN ? "" : size);

function fillMenu(menu, variable) {
  const { name, declared, shape, properties } = variable;
  let kind = declared ? kindOfVariable(variable) : "guess";
  const known = () => (kind === "guess" ? kindOfVariable(variable) : kind);
  const taken = new Set(variables.flatMap((other) => [other.name, ...other.shape.map(String)]));
  const inputs = [0, 1, 2, 3].map((axis) => h("input", {
    type: "text", "aria-label": `Size of axis ${axis + 1}`, value: given(shape[axis]), maxlength: 20,
    spellcheck: "false", autocomplete: "off", autocapitalize: "off", onchange: () => declare(known(), true),
  }));
  const sizes = h("div", { class: "row", role: "group", "aria-label": "Sizes" });
  const isPositive = properties.includes("positive");
  const positive = h("input", { type: "checkbox", checked: isPositive, onchange: () => declare(known(), false) });

  function showSizes() {
    const { order } = kindOf(known());
    const fields = inputs.slice(0, order).flatMap((input, axis) => (axis ? ["×", input] : [input]));
    sizes.replaceChildren("Sizes ", ...fields);
    sizes.hidden = order === 0;
  }

  /** Declare the kind; sizes that were given now, or that are numbers, stay. */
  function declare(next, sizesGiven) {
    kind = next;
    showSizes();
    const typed = inputs.slice(0, kindOf(next).order ?? 0).map((input) => input.value.trim());
    const numbers = declared && typed.length === shape.length && typed.every((size) => /^\d+$/.test(size));
    const declaration = write(name, next, sizesGiven || numbers ? typed : [], positive.checked, taken);
    change({ declarations: withDeclaration(current().declarations, name, declaration) });
  }

  const kinds = h("div", { class: "kinds", role: "radiogroup", "aria-label": `Kind of ${name}` });
  for (const { id, label } of KINDS) {
    const onchange = () => declare(id, false);
    const options = { type: "radio", name: "kind", value: id, checked: id === kind, onchange };
    kinds.append(h("label", {}, h("input", options), label));
  }
  showSizes();
  const onlyBy = () => {
    menu.hidePopover();
    toggleBy(name, true);
  };
  menu.append(
    h("h2", {}, formula(variable.mathml, name), " is"), kinds, sizes,
    h("div", { class: "row" }, h("label", {}, positive, "positive entries")),
    h("div", { class: "row" }, button(`Differentiate only by ${name}`, onlyBy)),
  );
}
