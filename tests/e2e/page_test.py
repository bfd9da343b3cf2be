"""explain --format=html: one well-formed page that loads nothing, with the numbers of `simulate`."""
import json
import os
import tempfile
import unittest

from tests.e2e.cli import run
from tests.e2e.page import Page

CLUSTER = "--cluster=" + os.path.abspath("examples/clusters/a100.textproto")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = cls.temporary.name
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        # A name that would end the script that it stands in.
        with open(cls.dir + "/gpt.textproto") as graph:
            text = graph.read().replace('name: "gpt"', 'name: "</script><b>gpt"', 1)
        with open(cls.dir + "/gpt.textproto", "w") as graph:
            graph.write(text)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,tensor=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=cls.dir)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_is_well_formed_and_loads_nothing(self):
        page = Page(run("explain", "--plan=gpt.plan", CLUSTER, "--format=html", cwd=self.dir)[0])
        self.assertEqual(page.problems, [])
        self.assertEqual(page.links, [])
        self.assertNotIn("b", page.elements)
        ids = [attrs["id"] for tag in ("div", "p", "script") for attrs in page.elements[tag] if "id" in attrs]
        self.assertEqual(len(ids), len(set(ids)))
        for name in ["timeline", "memory", "path", "actors", "boxing", "simulation"]:
            self.assertIn(name, ids)

    def test_has_the_numbers_of_simulate(self):
        for flags in [[], [CLUSTER], [CLUSTER, "--steps=3"], ["--program=eval"]]:
            page = Page(run("explain", "--plan=gpt.plan", "--format=html", *flags, cwd=self.dir)[0])
            simulated = run("simulate", "--plan=gpt.plan", "--format=json", *flags, cwd=self.dir)[0]
            self.assertEqual(page.json(), json.loads(simulated))


if __name__ == "__main__":
    unittest.main()
