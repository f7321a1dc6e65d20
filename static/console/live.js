// Hears from [data-live] when the page has changed since [data-seen]; htmx then fetches it. While that stream stands, the
// page does not ask by itself; without it, it does as hx-trigger says.
(() => {
  "use strict";
  let stream = null;
  let known = null; // the version that the stream told of last

  const place = () => document.querySelector("[data-live]");

  function end() {
    if (stream) stream.source.close();
    stream = null;
    hear(null);
  }

  function hear(version) {
    known = version;
    document.documentElement.dataset.stream = version === null ? "closed" : "open";
  }

  function moved() {
    const shown = place();
    if (shown && known !== null && known !== shown.dataset.seen) htmx.trigger(shown, "moved");
  }

  function follow() {
    const shown = place();
    const address = shown && shown.dataset.live;
    // A browser keeps few connections to a server: none for a page that is hidden.
    if (document.hidden || !address || !window.EventSource) return end();
    if (stream && stream.address === address && stream.source.readyState !== EventSource.CLOSED) return;
    end();
    const source = new EventSource(`${address}${address.includes("?") ? "&" : "?"}seen=${shown.dataset.seen}`);
    source.onopen = () => hear(place()?.dataset.seen ?? null);
    source.addEventListener("changed", (event) => { hear(event.data); moved(); });
    source.onerror = () => hear(null);
    stream = { address, source };
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    const live = event.target.matches("[data-live]");
    if (live && known !== null && known === event.target.dataset.seen) event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", follow);
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", end);
  addEventListener("pageshow", follow);
  follow();
})();
