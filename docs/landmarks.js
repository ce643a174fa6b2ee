// The theme marks every part of its menus, and the copy button of every block, as navigation, many by one name; and
// tables that scroll cannot be reached with the keyboard. It adds some of them when they come into view.
function name() {
  document.querySelectorAll("nav nav.md-nav, nav.md-code__nav").forEach((nav, k) => {
    if (nav.dataset.named) return;
    nav.dataset.named = "yes";
    const label = document.getElementById(nav.getAttribute("aria-labelledby"));
    nav.removeAttribute("aria-labelledby");
    nav.setAttribute("aria-label", `${label ? label.textContent.trim() : "Block of code"}, ${k + 1}`);
  });
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => table.setAttribute("tabindex", "0"));
}

name();
new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
