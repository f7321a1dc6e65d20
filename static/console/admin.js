// Gives a name to the admin's fields that the theme leaves without one: those in tables of rows, which are named by their
// column, and drop-downs that are searched, whose button refers to its own text alone.
(() => {
  "use strict";

  function nameCells() {
    for (const field of document.querySelectorAll(".tabular td :is(input:not([type=hidden]), select, textarea)")) {
      const words = field.closest("td").dataset.label;
      if (words && !field.labels?.length && !field.hasAttribute("aria-label")) field.setAttribute("aria-label", words);
    }
  }

  function nameDropDowns() {
    for (const button of document.querySelectorAll(".select2-selection")) {
      const own = button.getAttribute("aria-labelledby") || "";
      const id = /^select2-(.+)-container$/.exec(own)?.[1];
      const label = id && document.querySelector(`label[for="${CSS.escape(id)}"]`);
      if (!label) continue;
      label.id ||= `label-of-${id}`;
      button.setAttribute("aria-labelledby", `${label.id} ${own}`);
      document.getElementById(own)?.setAttribute("aria-labelledby", label.id);
    }
  }

  function name() {
    nameCells();
    nameDropDowns();
  }

  // Drop-downs are made by a script, and rows by a button, some time after the page.
  document.addEventListener("DOMContentLoaded", () => {
    name();
    new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
  });
})();
