"use strict";
// In the head, before anything is painted: the reader's choice of light or dark, if there is one.
(() => {
  const KEY = "piaa-report-theme";
  const root = document.documentElement;
  // A browser may forbid storage to files; the choice then lasts until the page is closed.
  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem(KEY);
      localStorage.setItem(KEY, value);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
    }
    return null;
  };
  const choice = stored();
  if (choice === "light" || choice === "dark") root.dataset.theme = choice;
  window.piaaTheme = {
    isDark: () =>
      (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark",
    toggle() {
      root.dataset.theme = this.isDark() ? "light" : "dark";
      stored(root.dataset.theme);
    },
  };
})();
