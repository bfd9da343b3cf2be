// The pipeline and the memory of a step, on one axis of time.

const data = JSON.parse(document.getElementById("simulation").textContent);
const plan = JSON.parse(document.getElementById("plan").textContent);
const SVG = "http://www.w3.org/2000/svg";

function node(parent, name, attributes, text) {
  const made = name === "svg" || parent.namespaceURI === SVG ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}

const narrow = width => width < 600;
const leftMargin = width => narrow(width) ? 62 : 128;  // of labels
const RIGHT = 8, TOP = 22;  // TOP: of the periods above the rows

// An empty drawing in the element, of its width in pixels. Keeps the one that is there: it may have the focus.
function chart(id, height, label) {
  const parent = document.getElementById(id);
  const width = Math.max(280, Math.floor(parent.clientWidth));
  const svg = parent.querySelector("svg") || node(parent, "svg", { role: "img", "aria-label": label });
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { svg: svg, width: width, left: leftMargin(width), scale: (width - leftMargin(width) - RIGHT) / Math.max(view.to - view.from, 1e-30) };
}
const xAt = (c, moment) => c.left + (Math.min(Math.max(positionAt(AXIS, moment), view.from), view.to) - view.from) * c.scale;

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

// A stage: its compute stream, the others that do something, and when any of these does.
const STAGES = data.stages.map(stage => {
  const streams = stage.streams.filter(s => !s.host && s.blocks.length > 0 && s.seconds_a_step > 0);
  const compute = streams.find(s => s.name === "compute") || { name: "compute", blocks: [] };
  const others = streams.filter(s => s !== compute);
  return { ...stage, compute, others, exchanged: together(others), open: data.stages.length === 1 };
});

// The axis begins with the first block of the step; the view with the first forward.
const BLOCKS = STAGES.flatMap(s => [s.compute, ...s.others]).flatMap(s => s.blocks);
const beginOf = blocks => blocks.reduce((least, b) => Math.min(least, b[3]), Infinity);
const FORWARDS = BLOCKS.filter(b => segmentKind(b[0]) === "F");
const ORIGIN = BLOCKS.length > 0 ? beginOf(FORWARDS.length > 0 ? FORWARDS : BLOCKS) : 0;
const AXIS = makeAxis(BLOCKS.length > 0 ? beginOf(BLOCKS) : 0, data.seconds, data.repeats || []);
const STEP = { from: positionAt(AXIS, ORIGIN), to: AXIS.length };
let view = STEP;

function key() {
  const list = document.getElementById("key"), used = new Set(BLOCKS.map(b => segmentKind(b[0])));
  const entry = (attributes, words) => {
    const line = node(list, "span", {});
    const svg = node(line, "svg", { viewBox: "0 0 26 14", "aria-hidden": "true" });
    patterns(svg, "key");
    node(svg, "rect", { width: 26, height: 14, ...attributes });
    line.append(words);
  };
  for (const kind of [...LETTERS, "other"].filter(k => used.has(k))) {
    entry(STRIPES[kind] ? { fill: `url(#key${kind})` } : { class: kind }, kind === "other" ? "transfers and others" : `${kind}: ${WORDS[kind]}`);
  }
  if (STAGES.some(s => s.others.length > 0)) entry({ class: "exchanged", y: 5, height: 5 }, "exchanges, sends and receives");
  if (BLOCKS.some(b => b[7])) entry({ class: "outline critical", x: 1, y: 1, width: 24, height: 12 }, "on the critical path");
}

function describe(stage, stream, block) {
  const [segment, , number, begin, end] = block;
  const when = `${seconds(begin - ORIGIN)} to ${seconds(end - ORIGIN)}`, path = block[7] ? "; on the critical path" : "";
  if (segment === "") return `stage ${stage.stage}: exchanges, sends or receives, ${when} (${seconds(end - begin)})`;
  if (block[5] > 1) {
    const parts = blockParts(block).map(([name, share]) => `${segmentWord(name)} ${percent(share)}`).join(", ");
    return `stage ${stage.stage}: ${block[5]} blocks from ${when}, busy ${percent(block[6] / (end - begin))}, of that ${parts}${path}`;
  }
  return `stage ${stage.stage}, ${stream}: ${segment} ${number} (${segmentWord(segment)}), ${when} (${seconds(end - begin)})${path}`;
}

// A block of segments from `left` to `right` pixels of the view.
function drawBlock(c, y, height, [block, left, right], described) {
  const x = c.left + left, width = Math.max(0.6, right - left), critical = width > 5 && block[7];
  let top = y;
  for (const [segment, share] of blockParts(block)) {
    const part = segmentKind(segment), striped = width >= 4 && STRIPES[part];
    const rect = node(c.svg, "rect", { x: x.toFixed(2), y: top.toFixed(2), width: width.toFixed(2), height: (height * share).toFixed(2),
                                       class: "block " + (striped ? "" : part) });
    if (striped) rect.setAttribute("fill", `url(#fill${part})`);
    rect.described = described;
    top += height * share;
  }
  if (critical) node(c.svg, "rect", { x: x.toFixed(2), y: y, width: width.toFixed(2), height: height, class: "outline critical" });
  const kind = segmentKind(block[0]), text = (kind === "other" ? "" : block[0]) + (block[5] > 1 ? `×${block[5]}` : ` ${block[2]}`);
  if (width > 8 + 6.5 * text.length && height > 12) {
    node(c.svg, "text", { class: "block on" + kind, x: (x + width / 2).toFixed(1), y: y + height / 2 + 3.5 }, text);
  }
}

// The rows of the timeline, one below the other: {stage, stream, y, height}, and "exchanged" below a folded stage.
function timelineRows() {
  const many = STAGES.length, height = many <= 8 ? 22 : many <= 24 ? 16 : 12, rows = [];
  let y = TOP + 2;
  const add = (row, tall, space) => { rows.push({ ...row, y: y, height: tall }); y += tall + space; };
  for (const stage of STAGES) {
    const strip = !stage.open && many <= 24 && stage.exchanged.length > 0;
    add({ stage: stage, stream: stage.compute, title: true }, height, strip ? 1 : 3);
    if (strip) add({ stage: stage, exchanged: true }, 4, 4);
    if (stage.open) for (const stream of stage.others) add({ stage: stage, stream: stream }, 13, 3);
  }
  return { rows: rows, bottom: y };
}

// The names of the rows; that of a stage with other streams opens them.
function rowLabels(rows, width) {
  const labels = document.getElementById("labels");
  const focused = labels.contains(document.activeElement) ? document.activeElement.dataset.stage : null;
  labels.replaceChildren();
  labels.style.width = leftMargin(width) - 4 + "px";
  for (const row of rows.filter(r => !r.exchanged)) {
    const folds = row.title && row.stage.others.length > 0;
    const words = !row.title ? row.stream.name : narrow(width) ? `${row.stage.stage}` : `stage ${row.stage.stage}`;
    const label = node(labels, folds ? "button" : "span", { class: row.title ? "stage" : "stream", title: row.title ? `stage ${row.stage.stage}` : words },
                       folds ? `${row.stage.open ? "▾" : "▸"} ${words}` : words);
    Object.assign(label.style, { top: row.y + "px", height: row.height + "px", lineHeight: row.height + "px" });
    if (!folds) continue;
    label.type = "button";
    label.dataset.stage = row.stage.stage;
    label.setAttribute("aria-expanded", String(row.stage.open));
    label.setAttribute("aria-label", `exchanges, sends and receives of stage ${row.stage.stage}`);
    label.addEventListener("click", () => { row.stage.open = !row.stage.open; show(view); });
    if (focused === String(row.stage.stage)) label.focus();
  }
}

function timeAxis(c, top, bottom) {
  const seenNow = stretches(AXIS, view), most = Math.max(2, Math.floor((c.width - c.left) / 110));
  const step = roundStep((view.to - view.from) / most), largest = Math.max(...seenNow.map(s => Math.abs(s.to - ORIGIN)), 1e-30);
  let free = -Infinity;
  for (const { from, to } of seenNow) {
    for (const tick of ticks(from - ORIGIN, to - ORIGIN, step, largest)) {
      const x = xAt(c, tick.at + ORIGIN), wide = 6.5 * tick.label.length, at = Math.min(Math.max(x, wide / 2), c.width - wide / 2);
      node(c.svg, "line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom });
      if (at - wide / 2 < free + 6) continue;
      node(c.svg, "text", { class: "tick", x: at, y: bottom + 12 }, tick.label);
      free = at + wide / 2;
    }
  }
}

// The gap where equal periods are left out.
function gaps(c, top, bottom) {
  for (const b of AXIS.breaks) {
    const from = xAt(c, b.from), to = xAt(c, b.to);
    if (to - from < 0.5) continue;
    const rect = node(c.svg, "rect", { class: "gap", x: from, y: top, width: to - from, height: bottom - top });
    rect.described = () => `the period of ${seconds(b.seconds)} before this gap, ${b.times} times more: ${seconds(b.to - b.from)}`;
    for (const x of [from, to]) {
      let path = `M${x} ${top}`;
      for (let y = top; y < bottom; y += 8) path += `l3 ${Math.min(4, bottom - y)}l-3 ${Math.min(4, Math.max(0, bottom - y - 4))}`;
      node(c.svg, "path", { class: "torn", d: path });
    }
  }
}

// Above the rows: the period that is drawn, and how many like it follow.
function periods(c) {
  for (const b of AXIS.breaks) {
    const from = xAt(c, b.begin), to = xAt(c, b.from);
    if (to - from < 1) continue;
    node(c.svg, "path", { class: "period", d: `M${from} ${TOP}V${TOP - 5}H${to}V${TOP}` });
    const words = narrow(c.width) ? `1 of ${b.times + 1} periods` : `one period of ${seconds(b.seconds)}, one of ${b.times + 1} like it`;
    const half = 3.2 * words.length, x = Math.min(Math.max((from + to) / 2, c.left + half), c.width - RIGHT - half);
    node(c.svg, "text", { class: "tick", x: x, y: TOP - 9 }, words);
  }
}

function timeline() {
  const { rows, bottom } = timelineRows();
  const c = chart("timeline", bottom + 18, "timeline of the pipeline: a row for each stage");
  patterns(c.svg, "fill");
  timeAxis(c, TOP, bottom);
  for (const row of rows) {
    for (const [block, left, right] of seen(row.exchanged ? row.stage.exchanged : row.stream.blocks, AXIS, view, c.scale)) {
      const described = () => describe(row.stage, row.exchanged ? "" : row.stream.name, block);
      if (!row.exchanged) { drawBlock(c, row.y, row.height, [block, left, right], described); continue; }
      const rect = node(c.svg, "rect", { class: "exchanged", x: (c.left + left).toFixed(2), y: row.y, width: Math.max(0.6, right - left).toFixed(2), height: row.height });
      rect.described = described;
    }
  }
  gaps(c, TOP, bottom);
  periods(c);
  rowLabels(rows, c.width);
}

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

// Of the stage that takes most, and of those that are open.
function memory() {
  const largest = STAGES.reduce((a, b) => b.arena_bytes > a.arena_bytes ? b : a);
  const strips = STAGES.filter(s => s === largest || s.open).flatMap(memoryStrips), height = 84, bottom = strips.length * height;
  const top = host => Math.max(...strips.filter(s => s.host === host).map(s => s.planned), 1);
  const c = chart("memory", bottom + 18, "memory over time");
  timeAxis(c, 0, bottom);
  strips.forEach((strip, i) => {
    const base = (i + 1) * height - 4, up = (height - 26) / top(strip.host);
    const y = n => (base - n * up).toFixed(2);
    let path = `M${c.left} ${y(strip.held)}`, before = 0;
    for (const [time, used] of strip.curve) {
      if (positionAt(AXIS, time) <= view.from) before = used;
    }
    path += `V${y(strip.held + before)}`;
    for (const [time, used] of strip.curve) {
      const at = positionAt(AXIS, time);
      if (at > view.from && at < view.to) path += `H${xAt(c, time).toFixed(2)}V${y(strip.held + used)}`;
    }
    path += `H${c.width - RIGHT}V${base}H${c.left}Z`;
    node(c.svg, "path", { d: path, class: "used" });
    node(c.svg, "rect", { class: "held", x: c.left, y: y(strip.held), width: c.width - c.left - RIGHT, height: strip.held * up });
    node(c.svg, "line", { class: "limit", x1: c.left, x2: c.width - RIGHT, y1: y(strip.planned), y2: y(strip.planned) });
  });
  gaps(c, 0, bottom);
  strips.forEach((strip, i) => {
    node(c.svg, "text", { x: 6, y: i * height + 13 },
         narrow(c.width) ? `${strip.title}: ${bytes(strip.planned)}, of it always ${bytes(strip.held)}`
                         : `${strip.title}: planned ${bytes(strip.planned)}, of it always ${bytes(strip.held)}; registers up to ${bytes(strip.peak)}`);
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

const middle = () => (view.from + view.to) / 2, width = () => view.to - view.from;
const ACTIONS = {
  in: () => zoomed(view, 0.5, middle(), AXIS.length),
  out: () => zoomed(view, 2, middle(), AXIS.length),
  left: () => moved(view, -width() / 4, AXIS.length),
  right: () => moved(view, width() / 4, AXIS.length),
  step: () => STEP,
};
const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "step" };

function controls() {
  const bar = document.getElementById("controls");
  const button = (text, label, act) => {
    const made = node(bar, "button", { type: "button", "aria-label": label }, text);
    made.addEventListener("click", act);
    return made;
  };
  for (const [action, text, label] of [["in", "+", "zoom in"], ["out", "−", "zoom out"], ["left", "←", "earlier"], ["right", "→", "later"],
                                       ["step", "the step", "the step"]]) {
    button(text, label, () => show(ACTIONS[action]()));
  }
  if (STAGES.every(s => s.others.length === 0)) return;
  const areOpen = () => STAGES.every(s => s.open);
  const words = () => areOpen() ? "fold all stages" : "open all stages";
  const all = button(words(), "open or fold all stages", () => {
    const open = !areOpen();
    for (const stage of STAGES) stage.open = open;
    all.textContent = words();
    show(view);
  });
}

function interact(id) {
  const svg = document.getElementById(id).querySelector("svg");
  svg.setAttribute("tabindex", "0");
  svg.classList.add("zooms");
  const positionOf = event => {
    const box = svg.getBoundingClientRect(), left = leftMargin(svg.viewBox.baseVal.width);
    return view.from + Math.max(0, event.clientX - box.left - left) / Math.max(1, box.width - left - RIGHT) * width();
  };
  svg.addEventListener("wheel", event => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!event.ctrlKey && !event.metaKey && !sideways) return;  // the page scrolls
    event.preventDefault();
    if (sideways) return show(moved(view, (event.deltaX || event.deltaY) / 500 * width(), AXIS.length));
    show(zoomed(view, Math.exp(event.deltaY / 200), positionOf(event), AXIS.length));
  }, { passive: false });
  const say = event => {
    if (event.target.described) document.getElementById("detail").textContent = event.target.described();
  };
  let last = null;
  svg.addEventListener("pointerdown", event => { say(event); last = event.clientX; svg.setPointerCapture(event.pointerId); });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { last = null; });
  svg.addEventListener("pointermove", event => {
    if (last === null || event.buttons === 0) return say(event);
    show(moved(view, (last - event.clientX) / svg.getBoundingClientRect().width * width(), AXIS.length));
    last = event.clientX;
  });
  svg.addEventListener("dblclick", event => show(zoomed(view, 0.5, positionOf(event), AXIS.length)));
  svg.addEventListener("keydown", event => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    show(ACTIONS[KEYS[event.key]]());
  });
}
