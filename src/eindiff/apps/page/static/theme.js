// Light, dark, or as the system says. It runs before the page is drawn, so that nothing flashes.

(() => {
  const THEMES = {
    system: { sign: "◐", label: "Colours: as the system" },
    light: { sign: "☀", label: "Colours: light" },
    dark: { sign: "☾", label: "Colours: dark" },
  };
  const names = Object.keys(THEMES);

  function stored() {
    try {
      const name = localStorage.getItem("eindiff-theme");
      return names.includes(name) ? name : "system";
    } catch {
      return "system";
    }
  }

  function show(name) {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    const button = document.getElementById("theme");
    if (!button) return;
    button.textContent = THEMES[name].sign;
    button.setAttribute("aria-label", THEMES[name].label);
    button.title = THEMES[name].label;
  }

  let name = stored();
  show(name);
  document.addEventListener("DOMContentLoaded", () => {
    show(name);
    document.getElementById("theme").addEventListener("click", () => {
      name = names[(names.indexOf(name) + 1) % names.length];
      show(name);
      try {
        localStorage.setItem("eindiff-theme", name);
      } catch {
        // Without storage the choice holds until the page is left.
      }
    });
  });
})();
