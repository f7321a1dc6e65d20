// Gives a name to the admin's fields that the theme leaves without one: those in tables of rows, which are named by their
// column, and drop-downs that are searched, whose button refers to its own text alone.
(() => {
  "use strict";

  function nameCells() {
    for (const field of document.querySelectorAll(".tabular td :is(input:not([type=hidden]), select, textarea)")) {
      const cell = field.closest("td");
      const column = [...(field.closest("tr").closest("table").querySelector("thead tr")?.cells || [])]
        .find((one) => [...cell.classList].some((name) => one.classList.contains(name.replace("field-", "column-"))));
      const words = (cell.dataset.label || column?.textContent || "").trim();
      if (words && !field.labels?.length && !field.hasAttribute("aria-label")) field.setAttribute("aria-label", words);
    }
  }

  function nameDropDowns() {
    for (const button of document.querySelectorAll(".select2-selection")) {
      const select = button.closest(".select2")?.previousElementSibling;
      const label = select?.labels?.[0];
      if (!label || button.dataset.named) continue;
      label.id ||= `label-${select.id}`;
      button.setAttribute("aria-labelledby", `${label.id} ${button.getAttribute("aria-labelledby") || ""}`.trim());
      button.dataset.named = "1";
    }
  }

  function name() {
    nameCells();
    nameDropDowns();
  }

  addEventListener("load", name);
  document.addEventListener("formset:added", () => setTimeout(name));
})();
