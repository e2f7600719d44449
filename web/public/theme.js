// Before anything is painted: a page must not flash in the wrong colours.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("agentos.theme");
  } catch (error) {
    chosen = null; // storage is switched off: the system's choice then
  }
  var dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
