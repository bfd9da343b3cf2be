// The section "live" of the page that `train --serve` shows: polls live.json (live_run.h) and draws it. It may stand alone, or after the
// scripts of a plan's page, of which it uses nothing.
(() => {
  "use strict";
  const PERIOD = 1000;           // ms between polls
  const LATER = 5000;            // likewise, while nobody answers: the next attempt of a job may come
  const FAILURES = 3;            // polls without an answer until that is said
  const STYLE = `
    #live { --l: #0072b2; --m: #d55e00; --soft: #5a6370; --line: #dfe3e8; --bad: #b3261e; font: 14px/1.5 system-ui, sans-serif; }
    @media (prefers-color-scheme: dark) { #live { --l: #3b9be0; --m: #f08c3c; --soft: #a3acb8; --line: #333a43; --bad: #ff8a80; } }
    #live h2 { font-size: 1.1em; margin: 1.2em 0 0.3em; }
    #live .state { font-weight: 600; margin: 0.4em 0; } #live .state.gone { color: var(--soft); } #live .alert { color: var(--bad); }
    #live dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(110px, 1fr)); gap: 0.4em 1.2em; margin: 0.6em 0; }
    #live dt, #live small, #live figcaption { color: var(--soft); font-size: 0.85em; }
    #live dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
    #live .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 0.4em 1.6em; }
    #live figure { margin: 0.6em 0; min-width: 0; }
    #live svg { display: block; width: 100%; height: 200px; border: 0; background: none; }
    #live svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
    #live .axis { stroke: var(--line); } #live .curve { stroke: var(--l); fill: none; stroke-width: 1.6; }
    #live .range { fill: var(--l); fill-opacity: 0.22; } #live .dot { fill: var(--m); } #live .dots { stroke: var(--m); fill: none; }
    #live .promise { stroke: var(--m); stroke-dasharray: 5 4; } #live .band { fill: var(--m); fill-opacity: 0.14; }
    #live .wide { overflow-x: auto; } #live table { border-collapse: collapse; width: auto; }
    #live th, #live td { text-align: left; padding: 2px 18px 2px 0; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
    #live .stage { display: grid; grid-template-columns: minmax(0, 15em) minmax(60px, 1fr) minmax(0, 18em); gap: 2px 0.8em; margin: 0.7em 0; align-items: center; }
    @media (max-width: 700px) { #live .stage { grid-template-columns: minmax(0, 9em) minmax(40px, 1fr) minmax(0, 7em); } }
    #live .stage small { overflow-wrap: anywhere; }
    #live .shares { display: flex; height: 11px; background: var(--line); overflow: hidden; border-radius: 2px; }
    #live .shares i { display: block; height: 100%; margin: 0; padding: 0; border: 0; } #live .works { background: var(--l); } #live .waits { background: var(--m); }
    #live .idle { background: var(--m); opacity: 0.45; }`;

  const root = document.getElementById("live");
  const put = (parent, name, attributes = {}, text = "") => {
    const svg = name === "svg" || parent instanceof SVGElement;
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return parent.appendChild(made);
  };
  put(document.head, "style", {}, STYLE);
  put(document.head, "link", { rel: "icon", href: "data:," });  // nobody asks for /favicon.ico
  put(root, "h2", {}, "The run");
  const state = put(root, "p", { class: "state", role: "status" }, "waiting for the first step");
  const alarm = put(root, "p", { class: "state alert", role: "alert" });
  const tiles = put(root, "dl");
  const charts = put(root, "div", { class: "charts" });
  const chart = (caption) => {
    const figure = put(charts, "figure");
    put(figure, "figcaption", {}, caption);
    return { svg: put(figure, "svg", { role: "img", "aria-label": caption }), at: put(figure, "small") };
  };
  const losses = chart("Loss by step; dots: validation"), times = chart("Seconds of a step; dashed: promised");
  const tables = put(root, "div", { class: "wide" });
  const stages = put(root, "div");
  root.hidden = false;

  const is = (value) => value !== null && value !== undefined;
  const digits = (value, n = 4) => (is(value) ? Number(value.toPrecision(n)).toLocaleString("en", { maximumFractionDigits: 8 }) : "–");
  const percent = (share) => (is(share) ? `${digits(100 * share, 3)} %` : "–");
  function seconds(s) {
    if (!is(s)) return "–";
    const [size, unit] = s >= 1 || s <= 0 ? [1, "s"] : s >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    return `${digits(s / size)} ${unit}`;
  }
  function span(s) {
    if (!is(s)) return "–";
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const first = Math.max(0, units.findIndex(([, size]) => s >= size));
    return (s < 1 ? units.slice(3) : units.slice(first, first + 2))
      .map(([unit, size], i) => `${Math.floor((i === 0 ? s : s % units[first][1]) / size)} ${unit}`).join(" ");
  }

  // Round values between low and high, about n.
  function ticks(low, high, n) {
    const rough = (high - low) / n, size = 10 ** Math.floor(Math.log10(rough));
    const step = size * [1, 2, 5, 10].find((f) => f * size >= rough);
    const all = [];
    for (let t = Math.ceil(low / step); t * step <= high * (1 + 1e-9) && all.length < 20; ++t) all.push(t * step);
    return all;
  }

  // One curve of live.json, with its range where a point stands for many steps. `extra`: validation losses, or the promise.
  function draw({ svg, at }, curve, { text, dots, promise, low, high }) {
    const width = Math.max(200, svg.clientWidth), height = 200, left = 56, right = 8, top = 8, bottom = 20;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const points = curve.step.map((step, i) => ({ step, last: curve.last[i], low: curve.low?.[i] ?? curve.last[i], high: curve.high?.[i] ?? curve.last[i] }))
      .filter((p) => is(p.last));
    if (!points.length) return;
    const from = points[0].step, to = Math.max(from + 1, points.at(-1).step);
    const sorted = points.map((p) => p.last).sort((a, b) => a - b);
    const values = [...(promise ? [0, promise.step_seconds, ...(promise.compared?.high_seconds ? [promise.compared.high_seconds] : [])] : []),
      low ?? sorted[0], high?.(sorted) ?? sorted.at(-1), ...(dots?.last ?? []).filter(is)];
    let min = Math.min(...values), max = Math.max(...values);
    if (min === max) [min, max] = [min - Math.abs(min) / 2 - 1e-9, max + Math.abs(max) / 2 + 1e-9];
    const x = (step) => left + ((step - from) / (to - from)) * (width - left - right);
    const y = (value) => Math.max(top, top + ((max - value) / (max - min)) * (height - top - bottom));
    const path = (list) => list.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
    for (const t of ticks(min, max, 4)) {
      put(svg, "line", { class: "axis", x1: left, x2: width - right, y1: y(t), y2: y(t) });
      put(svg, "text", { x: left - 6, y: y(t) + 4, "text-anchor": "end" }, text(t));
    }
    for (const t of ticks(from + 1, to + 1, Math.max(2, width / 130)).filter(Number.isInteger)) {
      put(svg, "text", { x: Math.min(x(t - 1), width - 16), y: height - 5, "text-anchor": "middle" }, t.toLocaleString("en"));
    }
    if (promise) {
      const band = promise.compared;
      if (band?.low_seconds) put(svg, "rect", { class: "band", x: left, width: width - left - right, y: y(band.high_seconds), height: y(band.low_seconds) - y(band.high_seconds) });
      put(svg, "line", { class: "promise", x1: left, x2: width - right, y1: y(promise.step_seconds), y2: y(promise.step_seconds) });
    }
    if (curve.low) {
      const outline = [...points.map((p) => [x(p.step), y(p.high)]), ...points.toReversed().map((p) => [x(p.step), y(p.low)])];
      put(svg, "path", { class: "range", d: path(outline) + "Z" });
    }
    put(svg, "path", { class: "curve", d: path(points.map((p) => [x(p.step), y(p.last)])) });
    const marks = (dots?.step ?? []).map((step, i) => [step, dots.last[i]]).filter(([, value]) => is(value));
    if (marks.length > 1) put(svg, "path", { class: "dots", d: path(marks.map(([step, value]) => [x(step), y(value)])) });
    for (const [step, value] of marks) put(svg, "circle", { class: "dot", r: 3, cx: x(step), cy: y(value) });
    const say = (p) => { at.textContent = `step ${(p.step + 1).toLocaleString("en")}: ${text(p.last)}${p.low < p.high ? `, ${text(p.low)} to ${text(p.high)} in ${curve.every} steps` : ""}`; };
    svg.onpointermove = (event) => {
      const step = from + ((event.clientX - svg.getBoundingClientRect().left - left) / (width - left - right)) * (to - from);
      say(points.reduce((a, b) => (Math.abs(b.step - step) < Math.abs(a.step - step) ? b : a)));
    };
    svg.onpointerleave = () => say(points.at(-1));
    say(points.at(-1));
  }

  function compare(run) {
    tables.replaceChildren();
    const { promised, took } = run;
    if (!promised || !is(took.step_seconds)) return;
    put(tables, "h2", {}, "Promised and took");
    const table = put(tables, "table"), band = promised.compared;
    const row = (kind, cells) => { const made = put(table, "tr"); cells.forEach((cell) => put(made, kind, {}, cell)); };
    const range = band?.low_seconds ? `, ${seconds(band.low_seconds)} to ${seconds(band.high_seconds)}` : "";
    const off = 100 * (took.step_seconds / promised.step_seconds - 1);
    row("th", ["a step", "promised", "took", ""]);
    row("td", ["time, the median of 101", seconds(promised.step_seconds) + range, seconds(took.step_seconds), `${off > 0 ? "+" : ""}${digits(off, 3)} %`]);
    if (is(promised.tokens_per_second_per_device)) {
      row("td", ["tokens/s a device", digits(promised.tokens_per_second_per_device), digits(took.tokens_per_second_per_device), ""]);
    }
    put(tables, "small", {}, promised.basis);
  }

  // A row of a stage: a bar of parts of a step, each [class, seconds, words], and words.
  function bar(parent, name, parts, total, words) {
    put(parent, "small", {}, name);
    const made = put(parent, "span", { class: "shares" });
    for (const [kind, s, part] of parts) put(made, "i", { class: kind, style: `width: ${Math.min(100, (100 * s) / total)}%`, title: `${part}: ${seconds(s)}` });
    put(parent, "small", {}, words);
  }

  function waiting(run) {
    const step = run.took.step_seconds ?? run.step_seconds;
    stages.replaceChildren();
    if (!is(step) || !run.stages.some((stage) => stage.promised || Object.keys(stage.waits).length)) return;
    put(stages, "h2", {}, "Why stages wait");
    put(stages, "small", {}, "As measured: how long exchanges of a step wait for other devices, from when the stage enters one until it is over, by their " +
      "stream. Those of stream compute keep the stage from computing; others may wait at the same time, and behind kernels. The stage that waits least " +
      "is the one that others wait for. As promised: of a step, blue computes, orange is exposed exchange, pale is idle.");
    const scale = Math.max(step, ...run.stages.flatMap((stage) => Object.values(stage.waits)));
    const words = (stream) => stream.replace(/^(receive|send)\.(\w+)\.(\d+)$/, (_, verb, what, other) => `${verb} ${what} ${verb === "send" ? "to" : "from"} stage ${other}`);
    run.stages.forEach((stage, s) => {
      const made = put(stages, "div", { class: "stage" });
      if (stage.promised) {
        const { compute_seconds: compute, exposed_seconds: exposed, idle_seconds: idle } = stage.promised, all = run.promised.step_seconds;
        bar(made, `stage ${s}, promised`, [["works", compute, "compute"], ["waits", exposed, "exposed exchange"], ["idle", idle, "idle"]], all,
          `exposed exchange ${percent(exposed / all)}, idle ${percent(idle / all)}`);
      }
      const waits = Object.entries(stage.waits).sort((a, b) => b[1] - a[1]);
      for (const [stream, w] of waits.slice(0, 5)) {
        bar(made, stage.promised ? words(stream) : `stage ${s}, ${words(stream)}`, [["waits", w, stream]], scale, seconds(w));
      }
    });
  }

  function show(run) {
    alarm.textContent = run.standstill ? `The job stands still: ${run.standstill}` : "";
    if (!run.last_step) return;
    const done = run.step === run.last_step;
    state.className = "state";
    state.textContent = done ? `the last step, ${run.step.toLocaleString("en")}, is done` :
      `step ${run.step.toLocaleString("en")} of ${run.last_step.toLocaleString("en")}, ${span(run.left_seconds)} left`;
    tiles.replaceChildren();
    for (const [name, value] of [["loss", digits(run.loss, 5)], ["validation loss", digits(run.eval_loss, 5)], ["a step", seconds(run.step_seconds)],
      ["tokens/s", digits(run.tokens_per_second)], ["MFU", percent(run.mfu)], ["learning rate", digits(run.learning_rate, 3)], ["norm of the gradient", digits(run.grad_norm, 3)]]) {
      if (value === "–") continue;
      const tile = put(tiles, "div");
      put(tile, "dt", {}, name);
      put(tile, "dd", {}, value);
    }
    draw(losses, run.losses, { text: (v) => digits(v, 4), dots: run.eval_losses });
    // Few steps that take many times as long, such as the first, do not flatten the others.
    draw(times, run.step_times, { text: seconds, promise: run.promised, low: 0, high: (sorted) => 1.3 * sorted[Math.floor(0.98 * (sorted.length - 1))] });
    compare(run);
    waiting(run);
  }

  let newest = null, failures = 0;
  async function poll() {
    try {
      if (!document.hidden) {
        const answer = await fetch("live.json", { cache: "no-store" });
        if (!answer.ok) throw new Error(answer.statusText);
        newest = await answer.json();
        failures = 0;
        show(newest);
      }
    } catch (error) {
      if (++failures === FAILURES) {
        state.className = "state gone";
        state.textContent = !newest?.last_step ? "nobody answers: the run has ended, or cannot be reached" :
          newest.step === newest.last_step ? `the run ended at step ${newest.step.toLocaleString("en")}` :
            `the run ended, or cannot be reached, since step ${newest.step.toLocaleString("en")} of ${newest.last_step.toLocaleString("en")}`;
      }
      if (!(error instanceof TypeError)) console.warn(error);  // a TypeError: nobody answers
    }
    setTimeout(poll, failures >= FAILURES ? LATER : PERIOD);
  }
  addEventListener("resize", () => { if (newest) show(newest); });
  poll();
})();
