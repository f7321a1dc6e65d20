// Draws what [data-chart] holds: {"unit", "lines": [{"label", "colour"}], "data": [times, values, …]}.
(() => {
  "use strict";
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const drawn = [];

  function value(unit) {
    return (self, number) => number == null ? "–" : unit === "ms" ? time(number) : `${number}${unit ? " " + unit : ""}`;
  }

  function time(ms) {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    return ms < 60000 ? `${(ms / 1000).toPrecision(3)} s` : `${Math.round(ms / 60000)} min`;
  }

  function options(given, width) {
    const format = new Intl.DateTimeFormat(root.lang, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const short = new Intl.DateTimeFormat(root.lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const day = new Intl.DateTimeFormat(root.lang, { month: "short", day: "numeric" });
    const times = given.data[0];
    const long = times.length > 1 && times[times.length - 1] - times[0] > 100000;
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width,
      height: 200,
      scales: { y: { range: (self, low, high) => [0, given.unit === "%" ? 100 : Math.max(high || 0, 1) * 1.08] } },
      axes: [
        { ...axis, space: 70, size: 28, values: (self, ticks) => ticks.map((at) => (long ? day : short).format(new Date(at * 1000))) },
        { ...axis, size: 62, values: (self, ticks) => ticks.map((one) => given.unit === "ms" ? time(one) : `${one}${given.unit}`) },
      ],
      series: [
        { value: (self, at) => at == null ? "–" : format.format(new Date(at * 1000)) },
        ...given.lines.map((line) => ({
          label: line.label, stroke: colour(line.colour), width: 2, points: { size: 5 }, spanGaps: false, value: value(given.unit),
        })),
      ],
    };
  }

  function draw() {
    for (const one of drawn.splice(0)) one.destroy();
    for (const place of document.querySelectorAll("[data-chart]")) {
      const given = JSON.parse(place.dataset.chart);
      const made = options(given, place.clientWidth);
      made.series[0].label = place.dataset.time;
      drawn.push(new uPlot(made, given.data, place));
    }
  }

  draw();
  let waits = 0;
  addEventListener("resize", () => { clearTimeout(waits); waits = setTimeout(draw, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
})();
