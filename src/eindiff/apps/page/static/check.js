// A numerical check of the derivatives against finite differences.

import { button, h } from "./dom.js";
import { question } from "./state.js";

/** 2.5e-14 as 2.5 · 10⁻¹⁴. */
function scientific(number) {
  if (number === null) return "not finite";
  if (number === 0) return "0";
  const [digits, power] = number.toExponential(1).split("e");
  const raised = [...String(Number(power))].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
  return digits === "1.0" ? `10${raised}` : `${digits} · 10${raised}`;
}

/** The panel; `again()` repeats the check. */
export const checkPanel = (again) => ({
  id: "check",
  title: "Check",
  path: "api/check",
  question: (state) => question(state),

  show({ passed, tolerance, blocks, sizes }, state, place) {
    const used = Object.entries(sizes).map(([name, value]) => `${name} = ${value}`).join(", ");
    const words = `Compared with finite differences at a random point${used ? `, for ${used}` : ""}.`;
    const head = h("tr", {},
      h("th", { scope: "col" }, "derivative by"),
      h("th", { scope: "col", class: "figure" }, "relative error"),
      h("th", { scope: "col" }, "fine"));
    const rows = blocks.map(({ key, error, passed: fine }) => h("tr", {},
      h("td", {}, key || "value"),
      h("td", { class: "figure" }, scientific(error)),
      h("td", {}, fine ? "✓ yes" : "✗ no")));
    const verdict = passed ? "✓ The check passed" : "✗ The check failed";
    place.replaceChildren(
      h("p", { class: `verdict ${passed ? "passed" : "failed"}`, role: "status" }, verdict),
      h("p", { class: "exact" }, `${words} An error up to ${scientific(tolerance)} is fine.`),
      h("div", { class: "narrow" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows))),
      h("p", {}, button("Check again", again)),
    );
  },
});
