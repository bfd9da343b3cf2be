"""explain --format=html: one well-formed page that loads nothing, with the numbers of `simulate`."""
import json
import os
import shlex
import unittest

from tests.e2e.cli import FolderCase, run
from tests.e2e.page import Page

CLUSTER = "--cluster=" + os.path.abspath("examples/clusters/a100.textproto")


def without_blocks(simulated):
    """What a page has of it as it is: blocks are those of the last step, and memory is that from its begin on."""
    for stage in simulated["stages"]:
        for stream in stage["streams"]:
            del stream["blocks"]
        del stage["memory"], stage["host_memory"]
    del simulated["critical_path"]["blocks"], simulated["critical_path"]["blocks_left_out"]
    return simulated


class PageTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        # A name that would end the script that it stands in.
        text = cls.read("gpt.textproto").decode().replace('name: "gpt"', 'name: "</script><b>gpt"', 1)
        cls.write("gpt.textproto", text)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,tensor=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=cls.dir)

    def test_is_well_formed_and_loads_nothing(self):
        page = Page(run("explain", "--plan=gpt.plan", CLUSTER, "--format=html", cwd=self.dir)[0])
        self.assertEqual(page.problems, [])
        self.assertEqual(page.links, [])
        self.assertNotIn("b", page.elements)
        ids = [attrs["id"] for tag in ("div", "p", "script") for attrs in page.elements[tag] if "id" in attrs]
        self.assertEqual(len(ids), len(set(ids)))
        for name in ["controls", "timeline", "memory", "parts", "path", "variables", "actors", "boxing", "plan", "simulation"]:
            self.assertIn(name, ids)

    def test_has_the_numbers_of_simulate(self):
        for flags in [[], [CLUSTER], [CLUSTER, "--steps=3"], ["--program=eval"]]:
            page = Page(run("explain", "--plan=gpt.plan", "--format=html", *flags, cwd=self.dir)[0])
            simulated = run("simulate", "--plan=gpt.plan", "--format=json", *flags, cwd=self.dir)[0]
            self.assertEqual(*(without_blocks(run) for run in (page.json(), json.loads(simulated))))

    def test_has_the_blocks_of_the_last_step(self):
        page = Page(run("explain", "--plan=gpt.plan", "--format=html", cwd=self.dir)[0]).json()
        simulated = json.loads(run("simulate", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        path = {(stage, stream, *block[:3]) for stage, stream, *block in simulated["critical_path"]["blocks"]}
        critical = 0
        for drawn, stage in zip(page["stages"], simulated["stages"]):
            for few, many in zip(drawn["streams"], stage["streams"]):
                shown = not many["host"] and many["name"] not in ("copy.in", "copy.out")
                last = [block for block in many["blocks"] if block[1] == 1] if shown else []
                self.assertEqual([block[:5] for block in few["blocks"]], last)
                on_path = [len(block) > 5 and block[7] for block in few["blocks"]]
                self.assertEqual(on_path, [(stage["stage"], many["name"], *block[:3]) in path for block in last])
                critical += sum(on_path)
        self.assertGreater(critical, 0)

    def test_has_the_facts_of_the_plan(self):
        plan = Page(run("explain", "--plan=gpt.plan", "--format=html", cwd=self.dir)[0]).json("plan")
        explained = json.loads(run("explain", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        self.assertEqual(plan["fingerprint"], explained["fingerprint"])
        self.assertEqual(plan["facts"], ["4 devices", "pipe=2,tensor=2", "a batch of 8 sequences in 4 micro-batches", "1f1b", "f32",
                                         "proof: live, memory-safe, type-safe", "program train"])
        self.assertEqual([figure[0] for figure in plan["head"]], ["a step", "tokens a second", "memory of a device"])

    def test_the_command_and_the_recipe_make_the_plan(self):
        flags = ["--mesh=pipe=2,tensor=2", "--batch=8", "--micro_batches=4", "--lr=0.002", "--recompute=selective"]
        run("compile", "--graph=gpt.textproto", CLUSTER, *flags, "--out=made.plan", cwd=self.dir)
        for given in (["--plan=made.plan"], ["--graph=gpt.textproto", CLUSTER, *flags]):
            plan = Page(run("explain", *given, "--format=html", cwd=self.dir)[0]).json("plan")
            self.write("made.recipe", plan["recipe"])
            program, *command = shlex.split(plan["command"])
            self.assertEqual(program, "oneflow")
            for words in (command, ["compile", "--recipe=made.recipe"]):
                run(*words, "--out=again.plan", cwd=self.dir)
                self.assertEqual(self.read("again.plan"), self.read("made.plan"))

    def test_has_the_layouts_of_variables(self):
        plan = Page(run("explain", "--plan=gpt.plan", "--format=html", cwd=self.dir)[0]).json("plan")
        rows = {row["name"]: row for row in plan["variables"]}
        self.assertEqual(rows["h.*.mlp.fc.weight"]["variables"], 2)
        self.assertEqual(rows["h.*.mlp.fc.weight"]["states"], [{"dtype": "f32", "split": {"tensor": 1}}])
        self.assertEqual(rows["h.*.mlp.fc.weight"]["text"],
                         {"states": "tensor", "gradients": "tensor", "weights": "tensor", "gathered": "-", "reduced": "-", "host": "-"})
        explained = json.loads(run("explain", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        [fc] = [v for v in explained["variables"] if v["name"] == "h.1.mlp.fc.weight"]
        for member in ["states", "gradients", "weights", "gathered", "reduced"]:
            self.assertEqual(fc[member], rows["h.*.mlp.fc.weight"][member])

    def test_actors_of_all_layers_share_a_row(self):
        page = Page(run("explain", "--plan=gpt.plan", "--format=html", cwd=self.dir)[0])
        rows = {(row["name"], row["kernel"]): row for row in page.json("plan")["rows"]}
        self.assertEqual(len(rows), len(page.json("plan")["rows"]))
        row = rows["h.*.mlp.fc", "linear+gelu"]
        self.assertEqual((row["actors"], row["first_stage"], row["last_stage"]), (2, 0, 1))
        self.assertEqual({member["name"] for member in row["members"]}, {"h.0.mlp.fc", "h.1.mlp.fc"})
        # One on each stage: a step is that of one of them.
        self.assertEqual(row["seconds_a_step"], max(member["seconds_a_step"] for member in row["members"]))

    def test_a_long_run_makes_a_small_page(self):
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--batch=4096", "--micro_batches=4096", "--out=long.plan", cwd=self.dir)
        text = run("explain", "--plan=long.plan", "--steps=1", "--format=html", cwd=self.dir)[0]
        self.assertLess(len(text), 4e6)
        page = Page(text)
        simulated = json.loads(run("simulate", "--plan=long.plan", "--steps=1", "--format=json", cwd=self.dir)[0])
        # A step of many micro-batches repeats itself; what is left is condensed.
        self.assertGreater(simulated["repeats"][0]["times"], 100)
        self.assertEqual(page.json()["repeats"], simulated["repeats"])
        condensed = page.json("plan")["condensed"]
        self.assertGreater(condensed["seconds"], 0)
        blocks = [[stream["blocks"] for stage in run["stages"] for stream in stage["streams"] if stream["name"] == "compute"]
                  for run in (page.json(), simulated)]
        for few, many in zip(*blocks):
            self.assertEqual(sum(b[5] if len(b) > 5 else 1 for b in few), len(many))
            self.assertAlmostEqual(sum(b[6] if len(b) > 5 else b[4] - b[3] for b in few), sum(b[4] - b[3] for b in many))
        for name in ["step_seconds", "bubble", "actors", "boxing"]:
            self.assertEqual(page.json()[name], simulated[name])


if __name__ == "__main__":
    unittest.main()
