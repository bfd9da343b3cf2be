"use strict";
// Draws the page of `explain --format=html` from its two JSON elements. The functions up to "The
// page" depend on their arguments alone.
//
// A script may follow (`live_script` of explain_page.h): an element of its own, so an error in it
// leaves the page as it is. It runs when the page is drawn and may use
//   #live                                 an empty hidden section under the head, which no other code changes
//   data, plan                            the two JSON objects
//   seconds(s), bytes(n), percent(share)  numbers as text
//   node(parent, name, attributes, text)  appends an element, of SVG inside an svg, and returns it
//   setFacts(list, facts)                 replaces the content of a dl by facts of [name, value, a smaller note or ""]
//   table(id, rows, columns)              replaces the content of the element by a table; columns: [title, text of a row, class]

const WORDS = { P: "prefetch", F: "forward", B: "backward", W: "weight gradients", U: "update" };
const LETTERS = Object.keys(WORDS);

// The class of a segment ("F", or "F0" of a chunk); "other" of what has no word.
function segmentKind(segment) {
  return LETTERS.includes(segment[0]) && /^\d*$/.test(segment.slice(1)) ? segment[0] : "other";
}

function segmentWord(segment) {
  const kind = segmentKind(segment);
  if (kind === "other") return "transfers and others";
  return WORDS[kind] + (segment.length > 1 ? ` of chunk ${segment.slice(1)}` : "");
}

function seconds(s) {
  if (s === 0) return "0 s";
  const size = Math.abs(s);
  if (size >= 1) return s.toFixed(3) + " s";
  return size >= 1e-3 ? (s * 1e3).toFixed(3) + " ms" : (s * 1e6).toFixed(2) + " µs";
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (n >= 1024 && u < 4) { n /= 1024; ++u; }
  return n.toFixed(u ? 1 : 0) + " " + units[u];
}

function percent(x) { return (100 * x).toFixed(1) + " %"; }

function range(least, most, text) { return least === most ? text(least) : `${text(least)} to ${text(most)}`; }

// The least of 1, 2, 5 x 10^k that is not below `least`.
function roundStep(least) {
  let power = 10 ** Math.floor(Math.log10(least));
  for (const step of [1, 2, 5, 10]) if (step * power >= least * (1 - 1e-9)) return step * power;
  return 10 * power;
}

// At most `most` + 1 round moments from `from` to `to`: [{at, label}], all in one unit.
function ticks(from, to, most) {
  if (!(to > from)) return [];
  const step = roundStep((to - from) / most), largest = Math.max(Math.abs(from), Math.abs(to));
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(u => largest >= u[0]) || [1e-9, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const made = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) {
    made.push({ at: i * step, label: `${(i * step / unit).toFixed(digits).replace(/^-(0\.?0*)$/, "$1")} ${name}` });
  }
  return made;
}

// `view` zoomed by `factor` around the moment `at`, and moved into [0, end].
function zoomed(view, factor, at, end) {
  const width = Math.min(end, Math.max(end * 1e-7, (view.to - view.from) * factor));
  const from = at - (at - view.from) * width / (view.to - view.from);
  return moved({ from: from, to: from + width }, 0, end);
}
function moved(view, by, end) {
  const width = view.to - view.from;
  const from = Math.min(Math.max(0, view.from + by), Math.max(0, end - width));
  return { from: from, to: from + width };
}

function pageTitle(data, plan) {
  const mesh = plan.mesh === "1" ? "one device" : plan.mesh;
  return `${data.model}, ${mesh}, ${plan.schedule}, batch ${plan.batch}: ${seconds(data.step_seconds)} a step`;
}

// Whether something that devices compute with rests in the host's memory.
function restsOnHost(data) { return data.stages.some(s => s.host_arena_bytes > 0); }

// The strips of a stage in the drawing of memory: its device's, and what it holds of its host's.
function memoryStrips(stage) {
  const strips = [{ title: `stage ${stage.stage}`, host: false, planned: stage.arena_bytes, held: stage.persistent_bytes,
                    peak: stage.peak_register_bytes, curve: stage.memory }];
  if (stage.host_arena_bytes > 0) {
    strips.push({ title: `stage ${stage.stage}, host`, host: true, planned: stage.host_arena_bytes, held: stage.host_persistent_bytes,
                  peak: stage.host_peak_register_bytes, curve: stage.host_memory });
  }
  return strips;
}

function planFacts(data, plan) {
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  return [
    ["a step", seconds(data.step_seconds) + plan.compared],
    ...(data.tokens_per_second_per_device > 0
        ? [["tokens a second, a device", Math.round(data.tokens_per_second_per_device).toLocaleString("en")]] : []),
    ["bubble", percent(data.bubble)],
    ["a device computes", (data.flops_a_device_second / 1e12).toPrecision(3) + " TFLOP/s"],
    ["memory of the largest device", bytes(Math.max(...data.stages.map(s => s.arena_bytes)))
      + (plan.price ? ", " + plan.price : "")],
    ...(restsOnHost(data) ? [["memory of the host for a device", bytes(Math.max(...data.stages.map(s => s.host_arena_bytes)))]] : []),
    ["mesh", `${plan.mesh}: ${many(data.devices, "device")}, ${many(data.stages.length, "stage")}`],
    ["batch", `${many(plan.batch, "sequence")} in ${many(plan.micro_batches, "micro-batch").replace(/hs$/, "hes")}`],
    ["schedule", plan.schedule],
    ["precision", plan.precision],
    ["proof", plan.proof],
    ["fingerprint", plan.fingerprint],
    ["cluster", data.cluster],
    ["program", data.program],
  ];
}

// The rows of the timeline: streams of devices that do something; of many stages compute alone.
function groupRows(data) {
  const rows = [];
  for (const stage of data.stages) {
    for (const stream of stage.streams) {
      const shown = data.stages.length <= 12 || stream.name === "compute";
      if (shown && !stream.host && stream.blocks.length > 0 && stream.seconds_a_step > 0) rows.push({ stage: stage.stage, stream: stream });
    }
  }
  return rows;
}

// When the last step begins on the devices.
function beginOfLastStep(data) {
  let from = Infinity;
  for (const row of groupRows(data)) {
    for (const block of row.stream.blocks) if (block[1] === data.steps - 1) from = Math.min(from, block[3]);
  }
  return from === Infinity ? 0 : from;
}

// The blocks of [segment, step, number, begin, end] that are seen in `view`, each at least a
// quarter of a pixel wide. Those that would share their neighbour's pixel are left out.
function seen(blocks, view, scale) {
  const shown = [];
  let drawn = -Infinity;
  for (const block of blocks) {
    if ((block[4] <= view.from && block[3] < view.from) || block[3] > view.to) continue;
    const end = (block[4] - view.from) * scale;
    if (end < drawn + 0.25) continue;
    drawn = Math.max(end, (block[3] - view.from) * scale + 0.25);
    shown.push(block);
  }
  return shown;
}

// The segments of a block that combines several: [segment, its share]; the shares add up to 1.
function blockParts(block) {
  if (!block[8]) return [[block[0], 1]];
  return Object.entries(block[8]).map(([segment, seconds]) => [segment, seconds / block[6]]);
}

// Coordinates of the first devices of a stage along `axes` of [name, size], at most `most`: [{name: coordinate}].
function firstDevices(axes, most) {
  let devices = [{}];
  for (const [name, size] of axes) {
    devices = devices.flatMap(d => Array.from({ length: Math.min(size, most) }, (_, i) => ({ ...d, [name]: i }))).slice(0, most);
  }
  return devices;
}

// What a device holds of a variable: {dimension: [from, to]}, shares of it. `split`: {axis: dimension}, the outermost axis first.
function heldPart(split, axes, device) {
  const part = {};
  for (const [axis, dimension] of Object.entries(split)) {
    const [from, to] = part[dimension] || [0, 1], width = (to - from) / axes.find(a => a[0] === axis)[1];
    part[dimension] = [from + width * device[axis], from + width * (device[axis] + 1)];
  }
  return part;
}

// The page.

const data = JSON.parse(document.getElementById("simulation").textContent);
const plan = JSON.parse(document.getElementById("plan").textContent);
const SVG = "http://www.w3.org/2000/svg";
const ORIGIN = beginOfLastStep(data);
const ROWS = groupRows(data);
let view = { from: ORIGIN, to: data.seconds };

function node(parent, name, attributes, text) {
  const made = name === "svg" || parent.namespaceURI === SVG ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

function setFacts(list, facts) {
  list.replaceChildren();
  for (const [name, value, note] of facts) {
    const fact = node(list, "div", {});
    node(fact, "dt", {}, name);
    node(fact, "dd", {}, value);
    if (note) node(fact, "dd", { class: "note" }, note);
  }
}

function leftMargin(width) { return width < 600 ? 72 : 168; }  // of labels

// An empty drawing in the element, of its width in pixels. Keeps the one that is there: it may have the focus.
function chart(id, height, label) {
  const parent = document.getElementById(id);
  const width = Math.max(280, Math.floor(parent.clientWidth));
  const svg = parent.querySelector("svg") || node(parent, "svg", { role: "img", "aria-label": label });
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { svg: svg, width: width, left: leftMargin(width), right: 8 };
}
function timeScale(c) { return (c.width - c.left - c.right) / Math.max(view.to - view.from, 1e-30); }

// Stripes over a colour: what tells blocks apart without it. F has none.
const STRIPES = { B: "M0 6L6 0", W: "M0 0L6 6", U: "M3 0V6", P: "M0 3H6" };
function patterns(svg, id) {
  const defs = node(svg, "defs", {});
  for (const kind in STRIPES) {
    const pattern = node(defs, "pattern", { id: id + kind, width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    node(pattern, "rect", { class: kind, width: 6, height: 6 });
    node(pattern, "path", { class: "stripes", d: STRIPES[kind] });
  }
}

function header() {
  document.title = pageTitle(data, plan);
  document.getElementById("title").textContent = `${data.model} on ${data.cluster}`;
  setFacts(document.getElementById("facts"), planFacts(data, plan));
  const { seconds: longest, blocks } = plan.condensed;
  document.getElementById("condensed").textContent = longest === 0 ? "" :
    `There are ${blocks.toLocaleString("en")} blocks. Neighbours that together last no longer than ${seconds(longest)} are drawn as one, in ` +
    "which each segment is as high as its share of the time." + (data.stages.length > 12 ? " Of each stage the compute stream is shown." : "");
}

function key() {
  const used = new Set();
  for (const row of ROWS) for (const block of row.stream.blocks) used.add(segmentKind(block[0]));
  for (const kind of [...LETTERS, "other"].filter(k => used.has(k))) {
    const entry = node(document.getElementById("key"), "span", {});
    const svg = node(entry, "svg", { viewBox: "0 0 26 14", "aria-hidden": "true" });
    patterns(svg, "key");
    node(svg, "rect", { width: 26, height: 14, ...(STRIPES[kind] ? { fill: `url(#key${kind})` } : { class: kind }) });
    entry.append(kind === "other" ? "transfers and others" : `${kind}: ${WORDS[kind]}`);
  }
}

function axis(c, bottom) {
  for (const tick of ticks(view.from - ORIGIN, view.to - ORIGIN, Math.max(2, Math.floor((c.width - c.left) / 110)))) {
    const x = c.left + (tick.at + ORIGIN - view.from) * timeScale(c);
    node(c.svg, "line", { class: "grid", x1: x, x2: x, y1: 0, y2: bottom });
    node(c.svg, "text", { x: x, y: bottom + 12, "text-anchor": x > c.width - 40 ? "end" : "middle" }, tick.label);
  }
}

const CRITICAL = new Set(data.critical_path.blocks.map(p => p.slice(0, 5).join("|")));
function isCritical(row, block) {
  return block.length > 5 ? block[7] : CRITICAL.has([row.stage, row.stream.name, ...block.slice(0, 3)].join("|"));
}

function describe(row, block) {
  const [segment, step, number, begin, end] = block;
  const when = `${seconds(begin - ORIGIN)} to ${seconds(end - ORIGIN)}`;
  const path = isCritical(row, block) ? "; on the critical path" : "";
  if (block.length > 5 && block[5] > 1) {
    const busy = percent(block[6] / (end - begin));
    const parts = blockParts(block).map(([name, share]) => `${segmentWord(name)} ${percent(share)}`).join(", ");
    return `stage ${row.stage}, step ${step}: ${block[5]} blocks from ${when}, busy ${busy}, of that ${parts}${path}`;
  }
  return `stage ${row.stage}, ${row.stream.name}, step ${step}: ${segment} ${number} (${segmentWord(segment)}), ${when} (${seconds(end - begin)})${path}`;
}

function timeline() {
  const rowHeight = ROWS.length > 40 ? 10 : ROWS.length > 20 ? 14 : 20;
  const bottom = 6 + ROWS.length * rowHeight;
  const c = chart("timeline", bottom + 18, "timeline of the pipeline: a row for each stream of a stage");
  const scale = timeScale(c);
  patterns(c.svg, "fill");
  axis(c, bottom);
  repeats(c, bottom);
  ROWS.forEach((row, r) => {
    const y = 4 + r * rowHeight;
    const label = c.left < 100 ? `${row.stage} ${row.stream.name}`.slice(0, 9) : `stage ${row.stage} ${row.stream.name}`;
    if (rowHeight >= 12 || r % 2 === 0) node(c.svg, "text", { x: 6, y: y + Math.min(14, rowHeight - 1) }, label);
    for (const block of seen(row.stream.blocks, view, scale)) {
      const x = c.left + Math.max(0, (block[3] - view.from) * scale);
      const width = Math.max(0.6, Math.min(c.width - c.right, c.left + (block[4] - view.from) * scale) - x);
      const kind = segmentKind(block[0]), critical = width > 3 && isCritical(row, block);
      let top = y;
      for (const [segment, share] of blockParts(block)) {
        const part = segmentKind(segment), striped = width >= 4 && STRIPES[part];
        const rect = node(c.svg, "rect", { x: x.toFixed(2), y: top.toFixed(2), width: width.toFixed(2), height: ((rowHeight - 3) * share).toFixed(2),
                                           class: (striped ? "" : part) + (critical && share === 1 ? " critical" : "") });
        if (striped) rect.setAttribute("fill", `url(#fill${part})`);
        rect.described = () => describe(row, block);
        top += (rowHeight - 3) * share;
      }
      if (critical && block[8]) {
        node(c.svg, "rect", { x: x.toFixed(2), y: y, width: width.toFixed(2), height: rowHeight - 3, class: "outline critical" });
      }
      const text = (kind === "other" ? "" : block[0]) + (block[5] > 1 ? `×${block[5]}` : block[2]);
      if (width > 9 + 6 * text.length && rowHeight > 14) {
        node(c.svg, "text", { class: "block on" + kind, x: (x + width / 2).toFixed(1), y: y + rowHeight - 8 }, text);
      }
    }
  });
}

// In repeated periods blocks are not listed; only the number of repetitions is drawn.
function repeats(c, bottom) {
  const x = t => c.left + (Math.min(Math.max(t, view.from), view.to) - view.from) * timeScale(c);
  for (const repeat of data.repeats || []) {
    const from = x(repeat.begin + repeat.seconds), to = x(repeat.begin + (repeat.times + 1) * repeat.seconds);
    if (to <= from) continue;
    const rect = node(c.svg, "rect", { class: "repeat", x: from.toFixed(2), y: 0, width: (to - from).toFixed(2), height: bottom });
    const words = `the ${seconds(repeat.seconds)} before, ${repeat.times} times more`;
    rect.described = () => words;
    if (to - from > 7 * words.length) node(c.svg, "text", { x: (from + to) / 2, y: bottom / 2, "text-anchor": "middle" }, words);
  }
}

function memory() {
  const most = 8;  // of many stages the first ones and the last
  const stages = data.stages.length <= most ? data.stages : [...data.stages.slice(0, most - 1), data.stages[data.stages.length - 1]];
  const strips = stages.flatMap(memoryStrips), height = 84, bottom = strips.length * height;
  const top = host => Math.max(...strips.filter(s => s.host === host).map(s => s.planned), 1);
  const c = chart("memory", bottom + 18, "memory over time: a strip for each stage" + (restsOnHost(data) ? ", and one for its host" : ""));
  const scale = timeScale(c), x = t => c.left + (Math.min(Math.max(t, view.from), view.to) - view.from) * scale;
  axis(c, bottom);
  strips.forEach((strip, i) => {
    const base = (i + 1) * height - 4, up = (height - 26) / top(strip.host);
    const y = n => (base - n * up).toFixed(2);
    let path = `M${c.left} ${y(strip.held)}`, before = 0;
    for (const [time, used] of strip.curve) {
      if (time <= view.from) before = used;
    }
    path += `V${y(strip.held + before)}`;
    for (const [time, used] of strip.curve) {
      if (time > view.from && time < view.to) path += `H${x(time).toFixed(2)}V${y(strip.held + used)}`;
    }
    path += `H${c.width - c.right}V${base}H${c.left}Z`;
    node(c.svg, "path", { d: path, class: "used" });
    node(c.svg, "rect", { class: "held", x: c.left, y: y(strip.held), width: c.width - c.left - c.right, height: strip.held * up });
    node(c.svg, "line", { class: "limit", x1: c.left, x2: c.width - c.right, y1: y(strip.planned), y2: y(strip.planned) });
    const held = c.left < 100 ? "" : `, of it always ${bytes(strip.held)}`;
    node(c.svg, "text", { x: 6, y: base - height + 17 },
         `${strip.title}: planned ${bytes(strip.planned)}${held}; registers up to ${bytes(strip.peak)}`);
  });
}

function draw() {
  timeline();
  memory();
}

let pending = false;
function show(next) {
  view = next;
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; draw(); });
}

const LAST_STEP = { from: ORIGIN, to: data.seconds }, WHOLE_RUN = { from: 0, to: data.seconds };
const middle = () => (view.from + view.to) / 2, width = () => view.to - view.from;
const ACTIONS = {
  in: () => zoomed(view, 0.5, middle(), data.seconds),
  out: () => zoomed(view, 2, middle(), data.seconds),
  left: () => moved(view, -width() / 4, data.seconds),
  right: () => moved(view, width() / 4, data.seconds),
  last: () => LAST_STEP,
  whole: () => WHOLE_RUN,
};
const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "last", End: "whole" };

function controls() {
  for (const [action, text, label] of [["in", "+", "zoom in"], ["out", "−", "zoom out"], ["left", "←", "earlier"], ["right", "→", "later"],
                                       ["last", "last step"], ["whole", "whole run"]]) {
    node(document.getElementById("controls"), "button", { type: "button", "aria-label": label || text }, text)
      .addEventListener("click", () => show(ACTIONS[action]()));
  }
}

function interact(id) {
  const svg = document.getElementById(id).querySelector("svg");
  svg.setAttribute("tabindex", "0");
  svg.classList.add("zooms");
  const momentAt = event => {
    const box = svg.getBoundingClientRect(), left = leftMargin(svg.viewBox.baseVal.width);
    return view.from + Math.max(0, event.clientX - box.left - left) / Math.max(1, box.width - left - 8) * width();
  };
  svg.addEventListener("wheel", event => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!event.ctrlKey && !event.metaKey && !sideways) return;  // the page scrolls
    event.preventDefault();
    if (sideways) return show(moved(view, (event.deltaX || event.deltaY) / 500 * width(), data.seconds));
    show(zoomed(view, Math.exp(event.deltaY / 200), momentAt(event), data.seconds));
  }, { passive: false });
  let last = null;
  svg.addEventListener("pointerdown", event => { last = event.clientX; svg.setPointerCapture(event.pointerId); });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { last = null; });
  svg.addEventListener("pointermove", event => {
    if (last !== null && event.buttons !== 0) {
      show(moved(view, (last - event.clientX) / svg.getBoundingClientRect().width * width(), data.seconds));
      last = event.clientX;
    } else if (event.target.described) {
      document.getElementById("detail").textContent = event.target.described();
    }
  });
  svg.addEventListener("dblclick", event => show(zoomed(view, 0.5, momentAt(event), data.seconds)));
  svg.addEventListener("keydown", event => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    show(ACTIONS[KEYS[event.key]]());
  });
}

function path() {
  const kernels = Object.entries(data.critical_path.seconds_by_kernel).filter(k => k[1] > 0).sort((a, b) => b[1] - a[1]).slice(0, 12);
  const c = chart("path", kernels.length * 34 + 6, "critical path by kernel");
  const most = Math.max(...kernels.map(k => k[1]), 1e-30);
  kernels.forEach(([kernel, time], i) => {
    node(c.svg, "text", { x: 6, y: 15 + i * 34 }, `${kernel}: ${seconds(time)}, ${percent(time / data.seconds)}`);
    node(c.svg, "rect", { class: "bar", x: 6, y: 20 + i * 34, width: (time / most * (c.width - 14)).toFixed(1), height: 11 });
  });
}

// The same path through the last step: "stage 0 F 0 (3 ms) > stage 1 F 0 (4 ms) > ..."
function steps() {
  const last = data.critical_path.blocks.filter(p => p[3] === data.steps - 1), most = 40;
  const long = last.filter(p => p[6] - p[5] >= data.step_seconds * 1e-3);
  const words = long.slice(0, most).map(p => `stage ${p[0]} ${p[2]} ${p[4]} (${seconds(p[6] - p[5])})`);
  const others = Math.max(last.length, plan.condensed.pieces) - words.length;
  document.getElementById("steps").textContent = "In the last step: " + words.join(" \u203a ") +
    (others > 0 ? `; and ${others} more, which come later or are shorter than 0.1 % of a step` : "");
}

// `columns`: [title, text of a row, class, what draws below the text]. Rows with several members show them at a click.
function table(id, rows, columns, membersOf) {
  const parent = document.getElementById(id);
  parent.replaceChildren();
  const made = node(parent, "table", {});
  const head = node(node(made, "thead", {}), "tr", {});
  for (const [title, , kind] of columns) node(head, "th", { class: kind || "" }, title);
  const body = node(made, "tbody", {});
  const add = (row, kind) => {
    const line = node(body, "tr", { class: kind });
    for (const [, value, style, draws] of columns) {
      const cell = node(line, "td", { class: style || "" }, value(row));
      if (draws) draws(cell, row);
    }
    return line;
  };
  for (const row of rows) {
    const line = add(row, ""), members = membersOf ? membersOf(row) : [];
    if (members.length < 2) continue;
    const lines = members.map(member => add(member, "member"));
    const toggle = document.createElement("button");
    const fold = folded => {
      lines.forEach(l => { l.hidden = folded; });
      toggle.textContent = folded ? "+" : "−";
      toggle.setAttribute("aria-expanded", String(!folded));
    };
    toggle.type = "button";
    toggle.setAttribute("aria-label", `the ${members.length} costliest of ${row.name}`);
    toggle.addEventListener("click", () => fold(!lines[0].hidden));
    line.firstChild.prepend(toggle);
    fold(true);
  }
}

// The values of a row of several actors, and of one of them.
const pair = v => Array.isArray(v) ? v : [v, v];
const COLUMNS = [["actor", a => a.name], ["kernel", a => a.kernel || ""], ["actors", a => a.actors || "", "number"],
                 ["stages", a => range(a.first_stage ?? a.stage, a.last_stage ?? a.stage, String), "number"],
                 ["firings a step", a => range(...pair(a.firings), String), "number"],
                 ["one", a => range(...pair(a.seconds), seconds), "number"],
                 ["a step", a => seconds(a.seconds_a_step), "number"], ["slack", a => seconds(a.slack_seconds), "number"]];
const formatShare = s => `${seconds(s)}, ${percent(s / data.step_seconds)}`;
const part = name => [name.replace("_", " "), s => formatShare(s[name + "_seconds"]), "number"];

// A row of squares for each layout: devices, and what they hold of the variable.
const DEVICES = firstDevices(plan.axes, 16);
function drawHeld(cell, layouts) {
  const side = 13;
  for (const { split } of layouts) {
    node(cell, "br", {});
    const svg = node(cell, "svg", { width: DEVICES.length * (side + 2), height: side + 2, role: "img", "aria-label": "parts of devices" });
    DEVICES.forEach((device, i) => {
      const part = Object.values(heldPart(split, plan.axes, device)).map(p => p.map(share => share * side));
      const [top, bottom] = part[0] || [0, side], [left, right] = part[1] || [0, side];
      const x = 1 + i * (side + 2);
      node(svg, "rect", { class: "part", x: x + left, y: 1 + top, width: right - left, height: bottom - top });
      node(svg, "rect", { class: "outline grid", x: x, y: 1, width: side, height: side });
    });
  }
}
const heldColumn = (title, name) => [title, v => v.text[name], "", (cell, v) => drawHeld(cell, v[name])];

function variables() {
  const all = plan.axes.reduce((n, axis) => n * axis[1], 1);
  document.getElementById("devices").textContent = all > DEVICES.length ? `The first ${DEVICES.length} of ${all} devices are drawn.` : "";
  table("variables", plan.variables,
        [["variable", v => v.name], ["variables", v => v.variables, "number"], heldColumn("states", "states"),
         heldColumn("gradient", "gradients"), heldColumn("weight", "weights"), ["gathered", v => v.text.gathered],
         ["reduced", v => v.text.reduced], ...(restsOnHost(data) ? [["in the host's memory", v => v.text.host]] : [])]);
}

header();
key();
controls();
draw();
path();
steps();
variables();
["timeline", "memory"].forEach(interact);
const PARTS = restsOnHost(data) ? ["compute", "exposed_exchange", "exposed_copy", "idle", "hidden_exchange", "hidden_copy"]
                                : ["compute", "exposed_exchange", "idle", "hidden_exchange"];
table("times", data.stages, [["stage", s => s.stage, "number"], ...PARTS.map(part)]);
table("actors", plan.rows.filter(r => !r.boxing).slice(0, 20), COLUMNS, r => r.members);
table("boxing", plan.rows.filter(r => r.boxing).slice(0, 20),
      [...COLUMNS, ["received", a => bytes(a.bytes_moved), "number"], ["why", a => a.why, "why"]], r => r.members);
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (drawnWidth === window.innerWidth) return;
  drawnWidth = window.innerWidth;
  show(view);
  path();
});
