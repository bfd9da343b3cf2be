// Draws the page of `explain --format=html` from its two JSON elements. This file follows
// page_text.js (numbers and words) and page_timeline.js (pipeline and memory).
//
// A script may follow (`live_script` of explain_page.h): an element of its own, so an error in it
// leaves the page as it is. It runs when the page is drawn and may use
//   #live                                 an empty hidden section under the head, which no other code changes
//   data, plan                            the two JSON objects
//   seconds(s), bytes(n), percent(share)  numbers as text
//   node(parent, name, attributes, text)  appends an element, of SVG inside an svg, and returns it
//   setFacts(list, facts)                 replaces the content of a dl by facts of [name, value, smaller notes...]
//   table(id, rows, columns)              replaces the content of the element by a table; columns: [title, text of a row, class]

function setFacts(list, facts) {
  list.replaceChildren();
  for (const [name, value, ...notes] of facts) {
    const fact = node(list, "div", {});
    node(fact, "dt", {}, name);
    node(fact, "dd", {}, value);
    for (const note of notes) if (note) node(fact, "dd", { class: "note" }, note);
  }
}

function header() {
  document.title = plan.title;
  document.getElementById("title").textContent = data.cluster ? `${data.model} on ${data.cluster}` : data.model;
  setFacts(document.getElementById("head"), plan.head);
  document.getElementById("facts").textContent = plan.facts.join(" · ");
  document.getElementById("fingerprint").textContent = "fingerprint " + plan.fingerprint;
  if (data.steps_a_round > 1) document.getElementById("drawn").textContent = `A round of ${data.steps_a_round} steps`;
  const { seconds: longest, blocks } = plan.condensed;
  document.getElementById("condensed").textContent = longest === 0 ? "" :
    `The step has ${blocks.toLocaleString("en")} blocks. Neighbours that together last no longer than ${seconds(longest)} are drawn as one, in ` +
    "which each segment is as high as its share of the time; those of a period that repeats itself are not, where there is room.";
}

// A text that a button copies; the section is hidden where there is none.
function copied(id, text) {
  const section = document.getElementById(id);
  section.hidden = text === "";
  section.querySelector("code").textContent = text;
  const button = section.querySelector("button");
  button.addEventListener("click", async event => {
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch (refused) {  // a page from a file may not write: the text is selected, and Ctrl+C copies it
      section.open = true;
      getSelection().selectAllChildren(section.querySelector("code"));
      button.textContent = document.execCommand("copy") ? "copied" : "selected";
    }
  });
}

// Rows of {name, seconds, members: rows} as bars of one sum, the longest first; those with several members unfold.
function bars(id, rows, sum) {
  const list = document.getElementById(id), most = Math.max(...rows.map(r => r.seconds), 1e-30);
  const line = (parent, row, kind) => {
    const made = node(parent, kind, { class: "bar" });
    node(made, "span", { class: "name" }, row.name);
    node(made, "span", { class: "number" }, `${seconds(row.seconds)}, ${percent(row.seconds / sum)}`);
    const track = node(made, "span", { class: "track" });
    node(track, "span", { class: "fill " + row.name.replace(" ", "_") }).style.width = 100 * row.seconds / most + "%";
    if (PARTS[row.name]) node(made, "span", { class: "why" }, PARTS[row.name]);
    return made;
  };
  for (const row of [...rows].sort((a, b) => b.seconds - a.seconds)) {
    const members = row.members || [];
    if (members.length < 2) { line(list, row, "div"); continue; }
    const fold = node(list, "details", {});
    line(fold, row, "summary");
    for (const member of [...members].sort((a, b) => b.seconds - a.seconds)) line(fold, member, "div");
  }
}

function stepParts() {
  const parts = Object.entries(data.step_parts || {}).map(([name, time]) => ({ name: name, seconds: time }));
  bars("parts", parts, data.step_seconds);
  document.getElementById("why").hidden = parts.length === 0;
}

function criticalPath() {
  const { seconds: sum, seconds_by_kind: kinds } = data.critical_path;
  const rows = Object.entries(kinds).map(([kind, kernels]) => {
    const members = Object.entries(kernels).map(([name, time]) => ({ name: name, seconds: time }));
    return { name: kind, seconds: members.reduce((all, m) => all + m.seconds, 0), members: members };
  });
  bars("path", rows, sum);
}

// `columns`: [title, text of a row, class]. Rows with several members show them at a click.
function table(id, rows, columns, membersOf) {
  const parent = document.getElementById(id);
  parent.replaceChildren();
  const made = node(parent, "table", {});
  const head = node(node(made, "thead", {}), "tr", {});
  for (const [title, , kind] of columns) node(head, "th", { class: kind || "" }, title);
  const body = node(made, "tbody", {});
  const add = (row, kind) => {
    const line = node(body, "tr", { class: kind });
    for (const [, value, style] of columns) node(line, "td", { class: style || "" }, value(row));
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

// True if something that devices compute with rests in the host's memory.
const RESTS_ON_HOST = data.stages.some(s => s.host_arena_bytes > 0);

// The values of a row of several actors, and of one of them.
const pair = v => Array.isArray(v) ? v : [v, v];
const COLUMNS = [["actor", a => a.name, "long"], ["kernel", a => a.kernel || ""], ["actors", a => a.actors || "", "number"],
                 ["stages", a => range(a.first_stage ?? a.stage, a.last_stage ?? a.stage, String), "number"],
                 ["firings a step", a => range(...pair(a.firings), String), "number"],
                 ["one", a => range(...pair(a.seconds), seconds), "number"],
                 ["a step", a => seconds(a.seconds_a_step), "number"], ["slack", a => seconds(a.slack_seconds), "number"]];
const formatShare = s => `${seconds(s)}, ${percent(s / data.step_seconds)}`;
const part = name => [name.replace("_", " "), s => formatShare(s[name + "_seconds"]), "number"];

header();
copied("command", plan.command);
copied("recipe", plan.recipe);
key();
controls();
draw();
["timeline", "memory"].forEach(interact);
stepParts();
criticalPath();
const TIMES = RESTS_ON_HOST ? ["compute", "exposed_exchange", "exposed_copy", "idle", "hidden_exchange", "hidden_copy"]
                            : ["compute", "exposed_exchange", "idle", "hidden_exchange"];
table("times", data.stages, [["stage", s => s.stage, "number"], ...TIMES.map(part)]);
table("variables", plan.variables,
      [["variable", v => v.name, "long"], ["variables", v => v.variables, "number"], ["states", v => v.text.states],
       ["gradient", v => v.text.gradients], ["weight", v => v.text.weights], ["gathered", v => v.text.gathered],
       ["reduced", v => v.text.reduced], ...(RESTS_ON_HOST ? [["in the host's memory", v => v.text.host]] : [])]);
table("actors", plan.rows.filter(r => !r.boxing).slice(0, 20), COLUMNS, r => r.members);
table("boxing", plan.rows.filter(r => r.boxing).slice(0, 20),
      [...COLUMNS, ["received", a => bytes(a.bytes_moved), "number"], ["why", a => a.why, "why"]], r => r.members);
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (drawnWidth === window.innerWidth) return;
  drawnWidth = window.innerWidth;
  show(view);
});
