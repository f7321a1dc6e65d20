(() => {
  "use strict";
  const root = document.documentElement;

  function localTimes(within) {
    const format = new Intl.DateTimeFormat(root.lang, {
      month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
    });
    for (const time of within.querySelectorAll("time[datetime]")) time.textContent = format.format(new Date(time.dateTime));
  }

  function reveal(within) {
    for (const button of within.querySelectorAll("[data-copy], [data-theme-toggle]")) button.hidden = false;
  }

  function isDark() {
    return (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  }

  async function copy(button) {
    await navigator.clipboard.writeText(button.dataset.copy);
    const label = button.textContent;
    button.textContent = button.dataset.copied;
    document.querySelector("[data-copy-status]").textContent = button.dataset.copied;
    setTimeout(() => { button.textContent = label; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-dialog], [data-close], [data-copy], [data-theme-toggle]");
    if (!target) return;
    if (target.dataset.dialog) {
      event.preventDefault();
      document.getElementById(target.dataset.dialog).showModal();
    } else if ("close" in target.dataset) {
      const dialog = target.closest("dialog");
      if (dialog.matches(":modal")) { event.preventDefault(); dialog.close(); }
    } else if ("copy" in target.dataset) {
      copy(target);
    } else {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem("reach-theme", root.dataset.theme);
    }
  });

  document.addEventListener("keydown", (event) => {
    const box = document.getElementById("q");
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && box && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === " " && event.target.matches("a[role=button]")) {
      event.preventDefault();
      event.target.click();
    }
  });

  // A refresh must not take anything out of a reader's hands: not while hidden, asked something, or selecting text.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const busy = document.hidden || document.querySelector("dialog[open]") || String(getSelection());
    if (event.target.matches("[data-live]") && busy) event.preventDefault();
  });
  let unfolded = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (document.querySelector("dialog[open]")) event.detail.shouldSwap = false;
    unfolded = new Map([...document.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const [id, open] of unfolded || []) {
      const one = document.getElementById(id);
      if (one) one.open = open;
    }
    localTimes(document);
    reveal(document);
  });

  localTimes(document);
  reveal(document);
})();
