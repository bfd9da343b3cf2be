"""explain --format=html in headless Chromium: the page draws what its JSON says, without an error.

Needs `tools/install_deps browser`; skipped with these words where it is not installed.
"""
import json
import math
import os
import shutil
import subprocess
import unittest

from tests.e2e.cli import FolderCase, run
from tests.e2e.page import Page

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")


# Results of functions of the page, as JSON in the element "checked".
CHECKS = """
<script id="checks">
const labels = (...a) => ticks(...a).map(t => t.label);
const result = {
  ticks: [labels(0, 0.0252, 5), labels(-0.01, 0.02, 4), labels(0, 3, 6), labels(0, 2.5e-7, 5), labels(1.2, 1.2004, 4), labels(1, 1, 5)],
  zoomed: [zoomed({from: 2, to: 4}, 0.5, 3, 10), zoomed({from: 2, to: 4}, 100, 3, 10), moved({from: 2, to: 4}, 9, 10), moved({from: 2, to: 4}, -9, 10)],
  words: ["F", "B1", "W", "U", "h.0.mlp.add.to1"].map(segmentWord),
  seen: seen([["F", 0, 0, 0, 1], ["B", 0, 0, 1, 1.00001], ["F", 0, 1, 2, 3], ["F", 0, 2, 8, 9]], {from: 0, to: 4}, 100).length,
  view: [view.from - ORIGIN, view.to - data.seconds],
  held: [[{}, {t: 1}], [{t: 0}, {t: 1}], [{d: 0, t: 0}, {d: 1, t: 0}], [{d: 1, t: 0}, {d: 1, t: 1}]]
    .map(([split, device]) => heldPart(split, [["d", 2], ["t", 4]], device)),
  devices: firstDevices([["d", 2], ["t", 4]], 6),
  title: document.title,
  narrow: document.documentElement.scrollWidth <= window.innerWidth,
};
const svg = document.querySelector("#timeline svg");
const rect = [...svg.querySelectorAll("rect")].find(r => r.described);
rect.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
result.detail = document.getElementById("detail").textContent;
document.querySelector('[aria-label="zoom in"]').click();
result.clicked = (view.to - view.from) / (data.seconds - ORIGIN);
svg.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
result.whole = [view.from, view.to - data.seconds];
svg.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, ctrlKey: true, clientX: 250 }));
result.wheel = (view.to - view.from) / data.seconds;
svg.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: 250 }));
result.scrolls = (view.to - view.from) / data.seconds;
const unfold = document.querySelector("#actors td button");
const hidden = () => document.querySelectorAll("#actors tr[hidden]").length;
const before = hidden();
unfold.click();
result.unfolded = [unfold.getAttribute("aria-expanded"), before - hidden()];
document.body.append(Object.assign(document.createElement("pre"), { id: "checked", textContent: JSON.stringify(result) }));
</script>
</body>"""


@unittest.skipUnless(BROWSER, "there is no Chromium: `tools/install_deps browser` installs one")
class BrowserTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,tensor=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=cls.dir)
        cls.text = run("explain", "--plan=gpt.plan", "--format=html", cwd=cls.dir)[0]

    def rendered(self, text, *flags):
        """The page after its script has run, and what the browser said."""
        self.write("page.html", text)
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + self.dir + "/browser",
                               "--enable-logging=stderr", *flags, "--dump-dom", "file://" + self.dir + "/page.html"],
                              capture_output=True, text=True, check=True, timeout=120, env=dict(os.environ, HOME=self.dir))
        self.assertNotIn("Uncaught", done.stderr)
        return Page(done.stdout)

    def test_draws_every_block(self):
        simulated = json.loads(run("simulate", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        page = self.rendered(self.text, "--window-size=1600,1200")
        self.assertEqual(page.json(), simulated)
        # F and B of 4 micro-batches and U, on 2 stages; the entry of the legend.
        fills = [rect.get("fill") for rect in page.elements["rect"]]
        classes = [rect.get("class", "").split() for rect in page.elements["rect"]]
        self.assertEqual(fills.count("url(#fillB)"), 2 * 4)
        self.assertEqual(fills.count("url(#fillU)"), 2 * 1)
        self.assertEqual(sum("F" in c for c in classes), 2 * 4 + 1)
        kernels = sum(s > 0 for s in simulated["critical_path"]["seconds_by_kernel"].values())
        self.assertEqual(sum("bar" in c for c in classes), min(12, kernels))
        self.assertEqual(sum("used" in path.get("class", "") for path in page.elements["path"]), 2)
        variables = page.json("plan")["variables"]
        layouts = sum(len(row[name]) for row in variables for name in ["states", "gradients", "weights"])
        self.assertEqual(sum("part" in c for c in classes), 2 * layouts)  # of the 2 devices of a stage
        self.assertEqual(len(page.elements["table"]), 4)
        kinds = [[row for row in page.json("plan")["rows"] if row["boxing"] == boxing] for boxing in (False, True)]
        rows = kinds[0][:20] + kinds[1][:20]
        members = sum(len(row["members"]) for row in rows if len(row["members"]) > 1)
        heads = 4 + len(simulated["stages"])
        self.assertEqual(len(page.elements["tr"]), heads + len(rows) + members + len(variables))
        self.assertTrue(any("critical" in c for c in classes))

    def test_functions_of_the_page(self):
        page = self.rendered(self.text.replace("</body>", CHECKS), "--window-size=500,900")
        checked = page.json("checked")
        self.assertEqual(checked["ticks"], [
            ["0 ms", "10 ms", "20 ms"], ["-10 ms", "0 ms", "10 ms", "20 ms"], ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s", "2.5 s", "3.0 s"],
            ["0 ns", "50 ns", "100 ns", "150 ns", "200 ns", "250 ns"], ["1.2000 s", "1.2001 s", "1.2002 s", "1.2003 s", "1.2004 s"], []])
        self.assertEqual(checked["zoomed"], [{"from": 2.5, "to": 3.5}, {"from": 0, "to": 10}, {"from": 8, "to": 10}, {"from": 0, "to": 2}])
        self.assertEqual(checked["words"], ["forward", "backward of chunk 1", "weight gradients", "update", "transfers and others"])
        self.assertEqual(checked["seen"], 2)
        self.assertEqual(checked["held"], [{}, {"0": [0.25, 0.5]}, {"0": [0.5, 0.625]}, {"0": [0.25, 0.5], "1": [0.5, 1]}])
        self.assertEqual(checked["devices"], [{"d": d, "t": t} for d, t in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]])
        self.assertEqual(checked["view"], [0, 0])
        for words in ["gpt, pipe=2,tensor=2, 1f1b, batch 8: ", " a step"]:
            self.assertIn(words, checked["title"])
        self.assertTrue(checked["narrow"])
        self.assertRegex(checked["detail"], r"^stage 0, compute, step 1: F 0 \(forward\), 0 s to ")
        self.assertAlmostEqual(checked["clicked"], 0.5)
        self.assertEqual(checked["whole"], [0, 0])
        self.assertAlmostEqual(checked["wheel"], math.exp(-1))
        self.assertEqual(checked["scrolls"], checked["wheel"])  # without Ctrl the page scrolls
        first = [row for row in page.json("plan")["rows"] if not row["boxing"] and len(row["members"]) > 1][0]
        self.assertEqual(checked["unfolded"], ["true", len(first["members"])])


if __name__ == "__main__":
    unittest.main()
