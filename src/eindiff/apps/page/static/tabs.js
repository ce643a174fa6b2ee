// The tabs of details. Only the open one asks the server, and only when what it shows has changed.

import { ask, forget, STOPPED } from "./api.js";
import { busy } from "./busy.js";
import { button, byId, h } from "./dom.js";
import { change, current } from "./state.js";

const panel = byId("panel");
let panels = [];
let shown = null; // the question whose answer is in the panel
let valid = false; // whether the function has a derivative

/** Make the tabs. A panel: {id, title, question(state), path, show(answer, state, place)}. */
export function makeTabs(list) {
  panels = list;
  const bar = byId("tabs");
  for (const { id, title } of list) {
    bar.append(h("button", {
      type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", onclick: () => change({ tab: id }),
    }, title));
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    moveTab(step);
  });
}

/** Go to the next tab, or the one before, or the first or last. */
export function moveTab(step) {
  const place = panels.findIndex((each) => each.id === current().tab);
  const last = panels.length - 1;
  const next = Number.isFinite(step) ? (place + step + panels.length) % panels.length : step > 0 ? last : 0;
  change({ tab: panels[next].id });
  byId(`tab-${panels[next].id}`).focus();
}

/** Whether there is something to show details of; then show them. */
export function setValid(state, ok) {
  valid = ok;
  if (!state.expression.trim()) byId("details").hidden = true;
  else if (ok) byId("details").hidden = false;
  panel.classList.toggle("stale", !ok);
  if (ok) refresh(state);
}

/** Show the open tab: at once if its answer is there, else when it comes. */
export async function refresh(state, again = false) {
  const open = panels.find((each) => each.id === state.tab);
  for (const { id } of panels) {
    const tab = byId(`tab-${id}`);
    tab.setAttribute("aria-selected", String(id === open.id));
    tab.tabIndex = id === open.id ? 0 : -1;
  }
  panel.setAttribute("aria-labelledby", `tab-${open.id}`);
  if (!valid) return;
  const body = open.question(state);
  const key = JSON.stringify([open.id, body]);
  if (key === shown && !again) return;
  if (panel.dataset.tab !== open.id) panel.replaceChildren();
  panel.dataset.tab = open.id;
  if (open.closed?.(state, panel)) {
    shown = key;
    forget("panel");
    busy("panel", "", byId("panel-work"))();
    return;
  }
  await load(open, body, key, state);
}

async function load(open, body, key, state) {
  panel.setAttribute("aria-busy", "true");
  const done = busy("panel", open.title, byId("panel-work"), panel);
  try {
    const answer = await ask(open.path, body, "panel");
    if (answer === null) return;
    done();
    shown = key;
    open.show(answer, state, panel);
  } catch (error) {
    done();
    shown = null;
    const again = error.status === STOPPED ? [button("Try again", () => refresh(current(), true))] : [];
    const said = [h("p", { class: "failure" }, error.message), h("p", { class: "note" }, error.hint ?? "")];
    panel.replaceChildren(...said, ...again);
  }
  panel.classList.toggle("stale", !valid);
  panel.setAttribute("aria-busy", "false");
}
