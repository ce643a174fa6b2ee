// Small helpers for making elements, and the things that several parts of the page share.

/** An element with attributes, listeners (`onclick`), and children. Text is always text: nothing is parsed. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Say something to screen readers, and show it for a moment. */
export function announce(message) {
  const place = byId("toast");
  place.textContent = message;
  place.classList.add("shown");
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => place.classList.remove("shown"), 1800);
}

/** Copy text; where the clipboard is not allowed (a page without https), by the old way. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    const host = document.querySelector("dialog[open]") ?? document.body;
    const before = document.activeElement;
    host.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    before?.focus();
  }
  announce(`${what} copied`);
}

/** A quiet button. */
export function button(label, onclick, attributes = {}) {
  return h("button", { type: "button", class: "quiet", onclick, ...attributes }, label);
}

/** A button that copies what `text()` gives. */
export function copyButton(label, what, text) {
  return button(label, () => copy(text(), what), { "aria-label": `Copy ${what}` });
}

/** A box that scrolls: the keyboard can reach it, and it has a name. */
export function scroller(classes, label, ...children) {
  return h("div", { class: classes, tabindex: "0", role: "group", "aria-label": label }, ...children);
}

/** A radio button with its label, as a part of a segmented control. */
export function segment(name, value, label, checked, onchange) {
  return h("label", {}, h("input", { type: "radio", name, value, checked, onchange }), h("span", {}, label));
}

/** Sizes as people write them: `m × n`; a scalar has none. */
export function shapeText(shape) {
  return shape.length ? shape.join(" × ") : "scalar";
}

/** 1234567 → 1.23 million; a short number for people. */
export function short(number) {
  if (!Number.isFinite(number)) return "∞";
  if (Math.abs(number) < 10000) return Number(number.toPrecision(4)).toLocaleString("en");
  const names = ["", " thousand", " million", " billion", " trillion"];
  const power = Math.floor(Math.log10(Math.abs(number)) / 3);
  if (power >= names.length) return number.toExponential(2).replace("e+", " · 10^");
  return Number((number / 1000 ** power).toPrecision(3)) + names[power];
}

/** 8192 → 8.19 kB. */
export function bytes(number) {
  const names = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
  const power = number < 1 ? 0 : Math.min(names.length - 1, Math.floor(Math.log10(number) / 3));
  return `${Number((number / 1000 ** power).toPrecision(3))} ${names[power]}`;
}
