"""The pages of `explain` and `search` in headless Chromium: what is visible, at three sizes.

Needs `tools/install_deps browser`; without it the test says "skipped".
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import unittest

from tests.e2e.cli import FolderCase, run
from tests.e2e.page import Page

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SIZES = {"desktop": ["--window-size=1400,900"], "phone": ["--window-size=390,844"],
         "dark": ["--window-size=1400,900", "--blink-settings=preferredColorScheme=0"]}

# Puts what `look` returns into the element "checked", as JSON.
REPORT = """
<script>
const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
const boxes = selector => [...document.querySelectorAll(selector)].filter(e => e.getClientRects().length > 0).map(box);
const report = async look => document.body.append(
  Object.assign(document.createElement("pre"), { id: "checked", textContent: JSON.stringify(await look()) }));
</script>"""

# What is seen of the page of a plan.
SEEN = """
<script>
const colours = e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor];
const texts = selector => [...document.querySelectorAll(selector)].map(e => e.textContent);
report(async () => ({
  title: document.title,
  size: [window.innerWidth, document.documentElement.scrollWidth],
  inside: boxes("h1, h2, p, #head > div, summary, button, #labels > *, svg, svg text, .bar, .bar *"),
  head: [...document.querySelectorAll("#head > div")].map(d => [...d.children].map(c => c.textContent)),
  heads: boxes("#head > div"),
  labels: boxes("#labels > *"),
  cut: [...document.querySelectorAll("#labels > .stage")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent),
  rows: [...new Set([...document.querySelectorAll("#timeline rect.block")].map(e => Math.round(e.getBoundingClientRect().top)))],
  ticks: boxes("#timeline text.tick"),
  periods: [texts("#timeline text.tick").filter(t => t.includes("period")), boxes("#timeline .gap")],
  view: [view.from, view.to, AXIS.length],
  over: document.querySelector("#memory svg").lastElementChild.tagName,
  path: texts("#path > * > .number, #path > * > summary > .number"),
  parts: texts("#parts .number"),
  kinds: [...new Set([...document.querySelectorAll("#timeline rect.block")].map(e => e.getAttribute("fill") || e.getAttribute("class")))],
  body: colours(document.body),
  live: document.getElementById("live").hidden,
}));
</script>
</body>"""

# The functions of the page, and what it does with clicks and keys.
DONE = """
<script>
const labels = (from, to, most) => ticks(from, to, roundStep((to - from) / most), Math.max(Math.abs(from), Math.abs(to))).map(t => t.label);
// No frames are drawn on the browser's virtual clock.
window.requestAnimationFrame = draw => setTimeout(draw, 10);
const frame = () => new Promise(resolve => setTimeout(resolve, 50));
report(async () => {
  const broken = makeAxis(10, 110, [{ begin: 20, seconds: 5, times: 10 }, { begin: 2, seconds: 1, times: 3 }]);
  const result = {
    ticks: [labels(0, 0.0252, 5), labels(-0.01, 0.02, 4), labels(0, 3, 6), labels(0, 2.5e-7, 5), labels(1.2, 1.2004, 4)],
    axis: [10, 25, 50, 75, 110].map(t => positionAt(broken, t)),
    stretches: stretches(broken, { from: 10, to: 20 }),
    zoomed: [zoomed({from: 2, to: 4}, 0.5, 3, 10), zoomed({from: 2, to: 4}, 100, 3, 10), moved({from: 2, to: 4}, 9, 10), moved({from: 2, to: 4}, -9, 10)],
    words: ["F", "B1", "W", "U", "h.0.mlp.add.to1"].map(segmentWord),
    seen: seen([["F", 0, 0, 0, 1], ["B", 0, 0, 1, 1.00001], ["F", 0, 1, 2, 3], ["F", 0, 2, 8, 9]], makeAxis(0, 10, []), {from: 0, to: 4}, 100).length,
    together: together([{ blocks: [["F", 0, 0, 0, 2]] }, { blocks: [["B", 0, 0, 1, 3], ["B", 0, 1, 4, 5]] }]).map(b => b.slice(3)),
  };
  const svg = document.querySelector("#timeline svg"), before = document.querySelectorAll("#labels > *").length;
  [...svg.querySelectorAll("rect.block")].find(r => r.described).dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
  result.detail = document.getElementById("detail").textContent;
  const stage = document.querySelector("#labels button");
  stage.focus();
  stage.click();
  await frame();
  result.opened = [document.querySelectorAll("#labels > *").length - before, boxes("#memory svg").length, document.activeElement.getAttribute("aria-expanded")];
  result.streams = boxes("#labels .stream").length - [...document.querySelectorAll("#labels .stream")].filter(e => e.textContent).length;
  const width = () => (view.to - view.from) / (STEP.to - STEP.from);
  document.querySelector('[aria-label="zoom in"]').click();
  result.clicked = width();
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
  result.key = width();
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
  result.home = [view.from - STEP.from, view.to - STEP.to];
  svg.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, ctrlKey: true, clientX: 250 }));
  result.wheel = width();
  svg.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: 250 }));
  result.scrolls = width();
  const fold = document.querySelector("#path details");
  fold.querySelector("summary").click();
  result.path = [fold.open, fold.querySelectorAll("div.bar").length];
  const unfold = document.querySelector("#actors td button"), hidden = () => document.querySelectorAll("#actors tr[hidden]").length;
  const folded = hidden();
  unfold.click();
  result.unfolded = [unfold.getAttribute("aria-expanded"), folded - hidden()];
  document.querySelector("#command button").click();
  await frame();
  await frame();
  result.copied = [document.querySelector("#command button").textContent, document.querySelector("#command code").textContent];
  return result;
});
</script>
</body>"""

FRONT = """
<script>
report(async () => {
  const button = document.querySelector("td.flags button");
  const result = {
    size: [window.innerWidth, document.documentElement.scrollWidth],
    inside: boxes("h1, p, svg, svg text, th, td, td code, button"),
    plot: boxes("svg .grid"), points: boxes("svg circle"), plans: document.querySelectorAll("tr.plan").length,
    columns: [...document.querySelectorAll("th")].map(e => e.textContent),
  };
  button.click();
  await new Promise(resolve => setTimeout(resolve, 50));
  return { ...result, copied: button.textContent };
});
</script>
</body>"""


def overlap(a, b):
    """True if two boxes [left, top, right, bottom] share more than a pixel."""
    return min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1


def luminance(colour):
    """Of "rgb(20, 23, 27)", by WCAG 2."""
    parts = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    red, green, blue = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def read_seconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]


class BrowserTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=4", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        # Long enough that periods are skipped.
        cls.flags = ["--graph=gpt.textproto", "--cluster=h100", "--device=cuda", "--mesh=pipe=4,tensor=2", "--batch=4096",
                     "--micro_batches=4096"]
        cls.text = run("explain", *cls.flags, "--format=html", cwd=cls.dir)[0]
        cls.simulated = json.loads(run("simulate", *cls.flags, "--format=json", cwd=cls.dir)[0])

    def look(self, text, checks, *flags):
        """What the checks report of the page."""
        self.write("page.html", text.replace("</body>", REPORT + checks))
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + self.dir + "/browser",
                               "--enable-logging=stderr", "--virtual-time-budget=5000", *flags, "--dump-dom",
                               "file://" + self.dir + "/page.html"],
                              capture_output=True, text=True, check=True, timeout=120, env=dict(os.environ, HOME=self.dir))
        self.assertNotIn("Uncaught", done.stderr)
        return Page(done.stdout).json("checked")

    def check_inside(self, found):
        width, scrolled = found["size"]
        self.assertLessEqual(scrolled, width)
        for left, _, right, _ in found["inside"]:
            self.assertGreaterEqual(left, -0.5)
            self.assertLessEqual(right, width + 0.5)

    def check_apart(self, boxes):
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                self.assertFalse(overlap(a, b), (a, b))

    def check_figures(self, found):
        """The four numbers of the head, and the sums of the parts of a step, are those of `simulate`."""
        step, tokens, mfu, memory = found["head"]
        seconds = self.simulated["step_seconds"]
        self.assertEqual(step[0], "a step")
        self.assertAlmostEqual(read_seconds(step[1]) / seconds, 1, places=3)
        low, high = [read_seconds(text) for text in step[2].split(" to ")] if " to " in step[2] else (0, math.inf)
        self.assertTrue(low < seconds < high)
        self.assertAlmostEqual(int(tokens[1].replace(",", "")), 8 * self.simulated["tokens_per_second_per_device"], delta=1)
        self.assertEqual(mfu[1], f"{100 * self.simulated['mfu']:.1f} %")
        self.assertTrue(memory[-1].startswith(f"{max(s['arena_bytes'] for s in self.simulated['stages']):,} bytes"))
        for parts in (found["parts"], found["path"]):
            self.assertAlmostEqual(sum(float(text.split(", ")[1][:-2]) for text in parts), 100, delta=0.06 * len(parts))

    def check_timeline(self, found):
        """Every row has its name beside it, and one period is drawn, from the first forward on."""
        self.assertEqual(len(found["labels"]), 4)
        self.assertEqual(found["cut"], [])
        self.assertEqual(len(found["rows"]), 4)
        for row, label in zip(sorted(found["rows"]), found["labels"]):
            self.assertAlmostEqual(row, label[1], delta=2)
        self.check_apart(found["labels"])
        self.check_apart(found["ticks"])
        [repeat] = [r for r in self.simulated["repeats"] if r["begin"] > self.simulated["seconds"] - self.simulated["step_seconds"]]
        [words], [gap] = found["periods"]
        self.assertIn(f"of {repeat['times'] + 1} ", words)
        self.assertTrue(0 < gap[2] - gap[0] < 0.1 * found["size"][0])
        self.assertEqual(found["over"], "text")  # no gap hides a title
        self.assertEqual(found["view"][1:], [found["view"][2]] * 2)
        self.assertGreaterEqual(found["view"][0], 0)
        self.assertTrue({"url(#fillB)", "url(#fillU)"} <= set(found["kinds"]) or found["size"][0] < 600)

    def test_is_seen_at_three_sizes(self):
        for name, flags in SIZES.items():
            with self.subTest(name):
                found = self.look(self.text, SEEN, *flags)
                self.assertEqual(found["size"][0], 390 if name == "phone" else 1400)
                self.assertIn("gpt, pipe=4,tensor=2, 1f1b, batch 4096: ", found["title"])
                self.check_inside(found)
                self.check_apart(found["heads"])
                self.assertLess(found["heads"][-1][3], 844)  # without scrolling
                self.check_figures(found)
                self.check_timeline(found)
                self.assertTrue(found["live"])
                text, page = map(luminance, found["body"])
                self.assertEqual(page < text, name == "dark")
                self.assertGreater((max(text, page) + 0.05) / (min(text, page) + 0.05), 7)

    def test_functions_clicks_and_keys(self):
        done = self.look(self.text, DONE, *SIZES["desktop"])
        self.assertEqual(done["ticks"], [
            ["0 ms", "10 ms", "20 ms"], ["-10 ms", "0 ms", "10 ms", "20 ms"], ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s", "2.5 s", "3.0 s"],
            ["0 ns", "50 ns", "100 ns", "150 ns", "200 ns", "250 ns"], ["1.2000 s", "1.2001 s", "1.2002 s", "1.2003 s", "1.2004 s"]])
        # 50 seconds are left out behind the 15 before them: a gap of 2 % of what is drawn.
        self.assertEqual(done["axis"], [0, 15, 15.5, 16, 51])
        self.assertEqual(done["stretches"], [{"from": 20, "to": 25}, {"from": 75, "to": 79}])
        self.assertEqual(done["zoomed"], [{"from": 2.5, "to": 3.5}, {"from": 0, "to": 10}, {"from": 8, "to": 10}, {"from": 0, "to": 2}])
        self.assertEqual(done["words"], ["forward", "backward of chunk 1", "weight gradients", "update", "transfers and others"])
        self.assertEqual(done["seen"], 2)
        self.assertEqual(done["together"], [[0, 3], [4, 5]])
        self.assertRegex(done["detail"], r"^stage 0, compute: F 0 \(forward\), [0-9.]+ µs to ")
        streams = [s for s in self.simulated["stages"][0]["streams"]
                   if not s["host"] and s["seconds_a_step"] > 0 and s["name"] not in ("compute", "copy.in", "copy.out")]
        self.assertEqual(done["opened"], [len(streams), 1, "true"])
        self.assertEqual(done["streams"], 0)  # none without a name
        self.assertAlmostEqual(done["clicked"], 0.5)
        self.assertAlmostEqual(done["key"], 0.25)
        self.assertEqual(done["home"], [0, 0])
        self.assertAlmostEqual(done["wheel"], math.exp(-1))
        self.assertEqual(done["scrolls"], done["wheel"])  # without Ctrl the page scrolls
        self.assertTrue(done["path"][0] and done["path"][1] > 1)
        plan = Page(self.text).json("plan")
        first = [row for row in plan["rows"] if not row["boxing"] and len(row["members"]) > 1][0]
        self.assertEqual(done["unfolded"], ["true", len(first["members"])])
        self.assertIn(done["copied"][0], ["copied", "selected"])
        self.assertEqual(done["copied"][1], "oneflow compile " + " ".join(self.flags))

    def test_a_front(self):
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=small.textproto", cwd=self.dir)
        run("search", "--graph=small.textproto", "--devices=2", "--batch=8", "--cluster=h100", "--pareto", "--format=html", "--out=front",
            "--fix=data=2,recompute=none,micro_batches=1", cwd=self.dir)
        page = self.read("front/index.html").decode()
        for name in ("desktop", "phone"):
            with self.subTest(name):
                found = self.look(page, FRONT, *SIZES[name])
                self.check_inside(found)
                self.assertEqual(found["columns"], ["", "devices", "step", "tokens/s", "memory"])
                self.assertGreater(found["plans"], 1)
                for first, last in ((0, 2), (1, 3)):  # along both axes
                    plot = [b[first] for b in found["plot"]] + [b[last] for b in found["plot"]]
                    at = [(b[first] + b[last]) / 2 for b in found["points"]]
                    self.assertGreater(max(at) - min(at), 0.6 * (max(plot) - min(plot)))
                self.assertIn(found["copied"], ["copied", "selected"])


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no Chromium: `tools/install_deps browser` installs one")
        sys.exit(0)
    unittest.main()
