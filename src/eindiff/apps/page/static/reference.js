// What the server says of itself once: its limits, and the reference of the language.

import { ask } from "./api.js";

let asked = null;

/** The settings of the server; null if it does not answer, and then they are asked for again next time. */
export function settings() {
  asked ??= ask("api/settings").catch(() => {
    asked = null;
    return null;
  });
  return asked;
}

/** The entries of the reference: {name, usage, group, meaning, example, aliases, is_function, is_shown}. */
export async function entries() {
  return (await settings())?.functions ?? [];
}

/** Those of them that fit to all words of a text, the best first: names that begin with it, then all others. */
export function found(list, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return list;
  const names = ({ name, aliases }) => [name, ...aliases].map((each) => each.toLowerCase());
  const all = ({ usage, group, meaning, example }) => `${usage} ${group} ${meaning} ${example}`.toLowerCase();
  const fits = list.filter((entry) => words.every((word) => `${names(entry).join(" ")} ${all(entry)}`.includes(word)));
  const rank = (entry) => {
    const own = names(entry);
    if (own.includes(words[0])) return 0;
    if (own.some((name) => name.startsWith(words[0]))) return 1;
    return own.some((name) => name.includes(words[0])) ? 2 : 3;
  };
  return fits.map((entry, place) => [rank(entry), place, entry]).sort((a, b) => a[0] - b[0] || a[1] - b[1])
    .map((each) => each[2]);
}
