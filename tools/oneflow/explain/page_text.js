"use strict";
// Numbers, words and positions of the page: functions that depend on their arguments alone.

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

// The multiples of `step` from `from` to `to`, in the unit of `largest`: [{at, label}].
function ticks(from, to, step, largest) {
  if (!(step > 0)) return [];
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(u => largest >= u[0]) || [1e-9, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const made = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) {
    made.push({ at: i * step, label: `${(i * step / unit).toFixed(digits).replace(/^-(0\.?0*)$/, "$1")} ${name}` });
  }
  return made;
}

// The axis of a step from `begin` to `end`. Of periods that repeat themselves the first is drawn, and
// a gap for the others: positions on the axis are seconds from its begin without those left out.
function makeAxis(begin, end, repeats) {
  const breaks = repeats.map(r => ({ ...r, from: r.begin + r.seconds, to: r.begin + (r.times + 1) * r.seconds }))
    .filter(b => b.from >= begin);
  const drawn = end - begin - breaks.reduce((sum, b) => sum + b.to - b.from, 0);
  for (const b of breaks) b.gap = Math.min(b.to - b.from, drawn * 0.02);
  return { begin, end, breaks, length: drawn + breaks.reduce((sum, b) => sum + b.gap, 0) };
}

function positionAt(axis, moment) {
  let position = moment - axis.begin;
  for (const b of axis.breaks) {
    if (moment > b.from) position -= (Math.min(moment, b.to) - b.from) * (1 - b.gap / (b.to - b.from));
  }
  return position;
}

// The stretches of the axis that are seen in `view`, without gaps: [{from, to}], moments.
function stretches(axis, view) {
  const made = [];
  let from = axis.begin;
  for (const b of [...axis.breaks, { from: axis.end, to: axis.end }]) {
    const first = positionAt(axis, from), last = positionAt(axis, b.from);
    const left = Math.max(first, view.from), right = Math.min(last, view.to);
    if (left < right) made.push({ from: from + left - first, to: from + right - first });
    from = b.to;
  }
  return made;
}

// `view` zoomed by `factor` around the position `at`, and moved into [0, end].
function zoomed(view, factor, at, end) {
  const width = Math.min(end, Math.max(end * 1e-6, (view.to - view.from) * factor));
  const from = at - (at - view.from) * width / (view.to - view.from);
  return moved({ from: from, to: from + width }, 0, end);
}
function moved(view, by, end) {
  const width = view.to - view.from;
  const from = Math.min(Math.max(0, view.from + by), Math.max(0, end - width));
  return { from: from, to: from + width };
}

// The blocks of [segment, step, number, begin, end] that are seen in `view`, as [block, from, to] in
// pixels of the view, each at least a quarter of a pixel wide. Those that would share their
// neighbour's pixel are left out.
function seen(blocks, axis, view, scale) {
  const shown = [];
  let drawn = -Infinity;
  for (const block of blocks) {
    const from = positionAt(axis, block[3]), to = positionAt(axis, block[4]);
    if ((to <= view.from && from < view.from) || from > view.to) continue;
    const left = (Math.max(from, view.from) - view.from) * scale, right = (Math.min(to, view.to) - view.from) * scale;
    if (right < drawn + 0.25) continue;
    drawn = Math.max(right, left + 0.25);
    shown.push([block, left, right]);
  }
  return shown;
}

// The segments of a block that combines several: [segment, its share]; the shares add up to 1.
function blockParts(block) {
  if (!block[8]) return [[block[0], 1]];
  return Object.entries(block[8]).map(([segment, seconds]) => [segment, seconds / block[6]]);
}

// When any of the streams does something: blocks of no segment, in order of time, that do not overlap.
function together(streams) {
  const merged = [];
  for (const block of streams.flatMap(s => s.blocks).sort((a, b) => a[3] - b[3])) {
    const last = merged[merged.length - 1];
    if (last && block[3] <= last[4]) last[4] = Math.max(last[4], block[4]);
    else merged.push(["", block[1], 0, block[3], block[4]]);
  }
  return merged;
}

// What a device does of a step, in a sentence each.
const PARTS = {
  "products": "matrix products",
  "attention": "attention in one kernel",
  "other compute": "norms, activations, losses, casts and all other kernels of forward and backward",
  "update": "kernels of the optimizer, once a step",
  "exposed exchange": "devices of a stage exchange data while no kernel runs",
  "exposed copy": "data moves between device and host while nothing else runs",
  "bubble": "the device waits for other stages, or for transfers between them",
  "exchange": "devices of a stage exchange data",
  "transfer": "data moves from stage to stage",
  "copy": "data moves between device and host",
  "host": "the host reads and reports",
  "waiting": "messages between workers, and launches",
};
