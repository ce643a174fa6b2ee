// All that the page shows follows from one small record, which the address of the page holds after its #.

export const CHOICES = {
  order: [0, 1, 2, 3],
  notation: ["matrix", "index", "einsum"],
  layout: ["mixed", "numerator", "denominator"],
  mode: ["auto", "reverse", "forward", "cross_country"],
  symmetric: ["projected", "free"],
  tab: ["code", "steps", "structure", "graph", "cost", "check"],
  library: ["numpy", "torch", "jax", "tensorflow", "cupy", "latex"],
};

export const DEFAULTS = Object.freeze({
  expression: "",
  declarations: "",
  wrt: [],
  order: 1,
  notation: "matrix",
  layout: "mixed",
  mode: "auto",
  symmetric: "projected",
  tab: "code",
  library: "numpy",
  sizes: {},
});

/** What a first visit shows. */
export const START = { ...DEFAULTS, expression: "norm2(A*x - y)^2", wrt: ["x"] };

const NAMES = { expression: "f", declarations: "declare", wrt: "by", library: "code" };

let state = { ...DEFAULTS };
let lastKind = null;
const listeners = [];

export const current = () => state;

/** Call `listener(state, changed names)` after each change. */
export const onChange = (listener) => listeners.push(listener);

/** Change some of the record. Changes of one kind in a row (typing) make one step of the browser's history. */
export function change(part, kind = null) {
  const changed = Object.keys(part).filter((name) => JSON.stringify(part[name]) !== JSON.stringify(state[name]));
  if (!changed.length) return;
  state = { ...state, ...part };
  const quiet = (kind !== null && kind === lastKind) || changed.every((name) => name === "tab" || name === "library");
  lastKind = kind ?? lastKind;
  if (kind === null && !quiet) lastKind = null;
  const address = `#${encode(state)}`;
  if (quiet) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  tell(changed);
}

function tell(changed) {
  for (const listener of listeners) listener(state, changed);
}

/** Take the record from the address, at the start and whenever the address changes. */
export function fromAddress() {
  const text = location.hash.slice(1);
  state = text ? decode(text) : { ...START };
  lastKind = null;
  tell(Object.keys(DEFAULTS));
}

/** The record as the part of an address after #; what is as usual is left out. */
export function encode(record) {
  const parameters = new URLSearchParams();
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    const value = record[name];
    if (JSON.stringify(value) === JSON.stringify(usual)) continue;
    parameters.set(NAMES[name] ?? name, asText(name, value));
  }
  return parameters.toString().replace(/%(27|2C|28|29)/g, decodeURIComponent); // these can stay as they are
}

function asText(name, value) {
  if (name === "wrt") return value.join(",");
  if (name === "sizes") return Object.entries(value).map(([size, number]) => `${size}=${number}`).join(",");
  return String(value);
}

/** The record from such a part. What is not known is as usual: an address may come from anyone. */
export function decode(text) {
  const parameters = new URLSearchParams(text);
  const record = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) {
    const value = parameters.get(NAMES[name] ?? name);
    if (value === null) continue;
    if (name === "wrt") record.wrt = value.split(",").filter(Boolean);
    else if (name === "sizes") record.sizes = readSizes(value);
    else if (name in CHOICES) record[name] = CHOICES[name].find((choice) => String(choice) === value) ?? DEFAULTS[name];
    else record[name] = value;
  }
  return record;
}

function readSizes(text) {
  const pairs = text.split(",").map((part) => part.split("="));
  const good = pairs.filter(([name, value]) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) && /^[1-9]\d{0,5}$/.test(value));
  return Object.fromEntries(good.map(([name, value]) => [name, Number(value)]));
}

/** What is asked of the server, for any kind of question. If the variables to differentiate by are gone, it takes one. */
export function question(record) {
  const { expression, declarations, wrt, order, notation, layout, mode, symmetric } = record;
  return { expression, declarations, wrt, fallback: true, order, notation, layout, mode, symmetric };
}
