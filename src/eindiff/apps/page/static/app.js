// The page: the record of the address in, questions to the server, answers out.

import { ask, forget, STOPPED } from "./api.js";
import { busy } from "./busy.js";
import { checkPanel } from "./check.js";
import { showVariables } from "./chips.js";
import { codePanel } from "./code.js";
import { completeFunctions } from "./completion.js";
import { cycle, makeControls, openOptions, showControls } from "./controls.js";
import { costPanel } from "./cost.js";
import { announce, button, byId, copy } from "./dom.js";
import { examples, openExamples } from "./examples.js";
import { clearProblem, setText, showProblem, watch } from "./field.js";
import { graphPanel } from "./graph.js";
import { openHelp, singleKeys } from "./help.js";
import { showResult, showStale, showWelcome } from "./result.js";
import { change, current, fromAddress, onChange, question } from "./state.js";
import { stepsPanel } from "./steps.js";
import { structurePanel } from "./structure.js";
import { makeTabs, moveTab, refresh, setValid } from "./tabs.js";

const PAUSE = 120; // ms after the last key before the server is asked
const PATIENCE = 250; // ms more before something half typed is called wrong

let derived = null;
let pauseTimer = null;
let problemTimer = null;

/** Ask for the derivatives of what is in the field, and show them. */
async function derive() {
  const state = current();
  clearTimeout(problemTimer);
  if (!state.expression.trim()) return empty(state);
  const done = busy("api/derive", "Deriving", byId("work"), byId("answer"), byId("panel"));
  try {
    const answer = await ask("api/derive", question(state));
    if (answer === null) return;
    done();
    derived = answer;
    clearProblem();
    showVariables(answer.variables, answer.by);
    showResult(answer, state);
    setValid(state, true);
  } catch (error) {
    done();
    wrong(error, state);
  }
}

/** A button for something that may have been meant. */
function taking({ label, expression, declarations }) {
  return button(label, () => change({ expression, declarations }), { class: "quiet choice" });
}

/** Buttons for what may help: what was meant, less work after the limit, or the same again. */
function helping(error, state) {
  const several = state.wrt.length !== 1 ? derived?.by ?? [] : [];
  const less = [
    ...(state.order > 1 ? [button("First derivative", () => change({ order: 1 }))] : []),
    ...(several.length > 1 ? [button(`Only by ${several[0]}`, () => change({ wrt: [several[0]] }))] : []),
  ];
  if (error.choices?.length) return error.choices.map((choice) => taking(choice));
  if (error.status === 504) return less;
  if (error.status === STOPPED) return [button("Try again", derive), ...less];
  return [];
}

function wrong(error, state) {
  const half = error.status === 422 && document.activeElement === byId("expression"); // it may be half typed
  const wait = byId("problem").childElementCount || !half ? 0 : PATIENCE;
  problemTimer = setTimeout(() => {
    const actions = helping(error, state);
    derived = null;
    byId("answer").setAttribute("aria-busy", "false");
    if (error.field === "declarations") openOptions(true);
    showProblem(error, state, actions);
    if (error.variables?.length) showVariables(error.variables);
    showStale();
    setValid(state, false);
  }, wait);
}

async function empty(state) {
  forget("api/derive");
  busy("api/derive", "", byId("work"))();
  derived = null;
  clearProblem();
  showVariables([]);
  byId("answer").setAttribute("aria-busy", "false");
  setValid(state, false);
  showWelcome([]);
  const groups = await examples().catch(() => []);
  if (!current().expression.trim()) showWelcome(groups.map((group) => group.examples[0]).slice(0, 6));
}

function changed(state, names) {
  const typed = names.length === 1 && (names[0] === "expression" || names[0] === "declarations");
  const all = names.includes("expression") && names.length > 1;
  setText(state.expression);
  showControls(state, all);
  if (names.every((name) => ["tab", "library", "sizes"].includes(name))) {
    if (!names.includes("sizes")) refresh(state);
    return;
  }
  byId("answer").setAttribute("aria-busy", "true");
  clearTimeout(pauseTimer);
  clearTimeout(problemTimer);
  if (typed) {
    forget("api/derive"); // an answer to what stood there before would look like one to what stands there now
    pauseTimer = setTimeout(derive, PAUSE);
  } else derive();
}

function shortcuts(event) {
  const typing = event.target.closest?.("input:not([type=radio]):not([type=range]), textarea, dialog, .menu");
  if (event.ctrlKey || event.metaKey) return;
  const digit = event.code.match(/^Digit([0-3])$/)?.[1];
  const actions = {
    KeyN: () => cycle("notation", current()),
    KeyE: openExamples,
    KeyL: copyLink,
    KeyC: copyResult,
    KeyT: () => moveTab(1),
  };
  let action = null;
  if (event.altKey) action = digit ? () => change({ order: Number(digit) }) : actions[event.code];
  else if (!typing && singleKeys()) action = { "/": () => byId("expression").focus(), "?": openHelp }[event.key];
  if (!action || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  action();
}

const copyLink = () => copy(location.href, "link");

function copyResult() {
  if (!derived) return announce("There is no result to copy");
  const several = derived.blocks.length > 1;
  copy(derived.blocks.map(({ key, text }) => (several ? `${key}: ${text}` : text)).join("\n"), "result");
}

makeControls();
makeTabs([codePanel, stepsPanel, structurePanel, graphPanel, costPanel, checkPanel(() => refresh(current(), true))]);
watch((expression) => change({ expression }, "typing"));
completeFunctions(() => byId("expression").dispatchEvent(new Event("input")));
onChange(changed);
byId("open-examples").addEventListener("click", openExamples);
byId("open-help").addEventListener("click", openHelp);
byId("copy-link").addEventListener("click", copyLink);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part of the address after # holds the record
  byId("expression").focus();
});
document.addEventListener("keydown", shortcuts);
addEventListener("popstate", fromAddress);
fromAddress();
ask("api/health").then((health) => { byId("version").textContent = `eindiff ${health.version}`; }, () => {});
