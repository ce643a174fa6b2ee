// While the server works: what was shown is greyed and a bar with a button to stop appears, if it takes a while.

import { stop } from "./api.js";
import { h } from "./dom.js";
import { settings } from "./reference.js";

const PATIENCE = 300; // ms in which most answers come: until then, nothing changes

const shown = new Map(); // of each kind of question, what ends its bar

/** Show that a question of a kind is being worked on; `old` is what was shown before. Returns what ends it. */
export function busy(kind, words, place, ...old) {
  shown.get(kind)?.();
  const began = performance.now();
  let bar = null;
  let ticking = null;
  const appear = () => {
    for (const each of old) each.classList.add("stale");
    const clock = h("span", { class: "clock", "aria-hidden": "true" });
    const meter = h("span", { class: "meter" });
    bar = h("div", { class: "busy" }, h("span", { class: "track", "aria-hidden": "true" }, meter),
      h("span", { role: "status" }, words), clock,
      h("button", { type: "button", class: "quiet", onclick: () => stop(kind) }, "Stop"));
    place.append(bar);
    const tick = async () => {
      const limit = (await settings())?.time_limit ?? 5;
      const seconds = (performance.now() - began) / 1000;
      clock.textContent = `${seconds.toFixed(0)} s of ${limit} s at most`;
      meter.style.width = `${Math.min(100, (100 * seconds) / limit)}%`;
    };
    tick();
    ticking = setInterval(tick, 250);
  };
  const waiting = setTimeout(appear, PATIENCE);
  const end = () => {
    clearTimeout(waiting);
    clearInterval(ticking);
    bar?.remove();
    if (shown.get(kind) === end) shown.delete(kind);
  };
  shown.set(kind, end);
  return end;
}
