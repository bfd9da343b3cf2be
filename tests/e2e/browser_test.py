"""explain --format=html in headless Chromium: the page draws what its JSON says, without an error.

Needs `tools/install_deps browser`; skipped with these words where it is not installed.
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from tests.e2e.cli import run
from tests.e2e.page import Page

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@unittest.skipUnless(BROWSER, "there is no Chromium: `tools/install_deps browser` installs one")
class BrowserTest(unittest.TestCase):
    def rendered(self, folder, *flags):
        """The page after its script has run, and what the browser said."""
        with open(folder + "/page.html", "w") as page:
            page.write(run("explain", "--plan=gpt.plan", "--format=html", *flags, cwd=folder)[0])
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder + "/browser",
                               "--enable-logging=stderr", "--dump-dom", "file://" + folder + "/page.html"],
                              capture_output=True, text=True, check=True, timeout=120, env=dict(os.environ, HOME=folder))
        return Page(done.stdout), done.stderr

    def test_draws_every_block(self):
        with tempfile.TemporaryDirectory() as folder:
            run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=folder)
            run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,tensor=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=folder)
            simulated = json.loads(run("simulate", "--plan=gpt.plan", "--format=json", cwd=folder)[0])
            page, said = self.rendered(folder)
        self.assertNotIn("Uncaught", said)
        self.assertEqual(page.json(), simulated)
        # F and B of 4 micro-batches and U, on 2 stages; a bar for each kernel of the path; a base for each stage.
        fills = [rect["fill"] for rect in page.elements["rect"]]
        self.assertEqual(fills.count("#e08a2e"), 2 * 4)
        self.assertEqual(fills.count("#4a9a5b"), 2 * 1)
        kernels = sum(s > 0 for s in simulated["critical_path"]["seconds_by_kernel"].values())
        self.assertEqual(fills.count("#3b7dd8"), 2 * 4 + min(12, kernels))
        self.assertEqual(len(page.elements["path"]), 2)
        self.assertEqual(len(page.elements["table"]), 2)
        rows = len(page.elements["tr"]) - 2
        self.assertEqual(rows, min(20, len(simulated["actors"])) + min(20, len(simulated["boxing"])))
        self.assertTrue(any(rect.get("stroke") == "#111" for rect in page.elements["rect"]))


if __name__ == "__main__":
    unittest.main()
