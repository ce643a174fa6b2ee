// While a function's name is typed: those that begin so, with their meaning and an example. Inside of a call: what it is.

import { byId, h } from "./dom.js";
import { entries } from "./reference.js";

const field = byId("expression");
const list = byId("completion");
const MOST = 6;
const LEAST = 2; // letters, so that variables of one letter are typed in peace
const NAMES = /^(lambda|lam|alpha|beta|gamma|delta|eta|theta|kappa|mu|nu|rho|sigma|tau|phi|psi|omega)$/i; // of variables

let options = []; // entries that are offered
let chosen = 0;
let moved = false; // whether one was chosen with the arrows
let word = null; // {start, text}: what is being typed

/** Offer functions while someone types in the field; `onText` hears of the text when one is taken. */
export function completeFunctions(onText) {
  field.addEventListener("input", () => offer());
  field.addEventListener("keydown", (event) => keys(event, onText), true);
  field.addEventListener("blur", () => setTimeout(close, 120)); // a click on the list comes first
  field.addEventListener("click", () => offer());
  list.addEventListener("pointerdown", (event) => {
    const row = event.target.closest("[role=option]");
    event.preventDefault(); // the field keeps the focus
    if (row) take(Number(row.dataset.place), onText);
  });
}

/** The name that ends at the cursor, or null. */
function typed() {
  if (field.selectionStart !== field.selectionEnd) return null;
  const before = field.value.slice(0, field.selectionStart);
  const text = before.match(/(?<![\p{L}\p{N}_\\.])[\p{L}_][\p{L}\p{N}_]*$/u)?.[0];
  const after = field.value.slice(field.selectionStart);
  return text && !/^[\p{L}\p{N}_(]/u.test(after) ? { start: before.length - text.length, text } : null;
}

/** The function in whose brackets the cursor is. */
function around() {
  let depth = 0;
  for (let at = field.selectionStart - 1; at >= 0; at -= 1) {
    if (field.value[at] === ")") depth += 1;
    else if (field.value[at] === "(" && depth) depth -= 1;
    else if (field.value[at] === "(") {
      const name = field.value.slice(0, at).match(/[\p{L}_][\p{L}\p{N}_]*$/u)?.[0];
      if (name) return name;
    }
  }
  return null;
}

async function offer() {
  const known = (await entries()).filter((entry) => entry.is_function && entry.is_shown);
  word = typed();
  const names = (entry) => [entry.name, ...entry.aliases];
  const begins = (name) => name.toLowerCase().startsWith(word.text.toLowerCase());
  options = [];
  if (document.activeElement !== field) return close();
  if (word && word.text.length >= LEAST && !NAMES.test(word.text)) {
    const fits = known.filter((entry) => names(entry).some(begins));
    options = fits.sort((a, b) => begins(b.name) - begins(a.name) || a.name.length - b.name.length).slice(0, MOST);
  }
  chosen = 0;
  moved = false;
  if (options.length) return show();
  const inside = around();
  explain(known.find((entry) => names(entry).includes(inside)) ?? null);
}

function show() {
  list.replaceChildren(...options.map((entry, place) => h("div", {
    role: "option", id: `option-${place}`, "data-place": place, "aria-selected": String(place === chosen),
  }, h("code", { class: "usage" }, entry.usage), h("span", { class: "meaning" }, entry.meaning),
  place === chosen ? h("code", { class: "example" }, entry.example) : null)));
  list.setAttribute("role", "listbox");
  open(`option-${chosen}`);
}

/** One line about the function that is being filled in; it is no list to choose from. */
function explain(entry) {
  if (!entry) return close();
  list.replaceChildren(h("div", { class: "about" }, h("code", { class: "usage" }, entry.usage),
    h("span", { class: "meaning" }, entry.meaning), h("code", { class: "example" }, entry.example)));
  list.setAttribute("role", "note");
  open(null);
}

function open(active) {
  list.hidden = false;
  if (active === null) field.removeAttribute("aria-activedescendant");
  else field.setAttribute("aria-activedescendant", active);
}

/** Offer nothing any more. */
export function close() {
  options = [];
  list.hidden = true;
  list.replaceChildren();
  field.removeAttribute("aria-activedescendant");
}

function keys(event, onText) {
  if (event.key === "Escape" && !list.hidden) {
    event.preventDefault();
    return close();
  }
  if (!options.length || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const { name, aliases } = options[chosen];
  const complete = [name, ...aliases].includes(word.text) && !moved; // then the keys do what they do elsewhere
  const takes = (event.key === "Enter" || (event.key === "Tab" && !event.shiftKey)) && !complete;
  if (!step && !takes) return;
  event.preventDefault();
  event.stopPropagation();
  if (takes) return take(chosen, onText);
  chosen = (chosen + step + options.length) % options.length;
  moved = true;
  show();
}

/** Put a function in the place of what was typed, with the cursor in its brackets. */
function take(place, onText) {
  const { name, usage } = options[place];
  const call = usage.startsWith(`${name}(`) ? "(" : "";
  const end = word.start + word.text.length;
  field.value = `${field.value.slice(0, word.start)}${name}${call}${call ? ")" : ""}${field.value.slice(end)}`;
  const cursor = word.start + name.length + call.length;
  field.setSelectionRange(cursor, cursor);
  close();
  onText();
  offer();
}
