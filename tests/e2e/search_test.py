"""oneflow search: the best plan, as flags that `oneflow compile` takes and as a file; and what is refused."""
import json
import math
import os
import re
import shlex
import signal
import subprocess
import unittest

from tests.e2e.cli import FolderCase, ONEFLOW, run

CLUSTER = """name: "two nodes"
device { kind: CPU peak_flops: 1e11 memory_bandwidth: 1e10 kernel_threads: 1 memory_bytes: 100000000 }
level { name: "process" size: 2 latency: 1e-6 bandwidth: 1e10 }
level { name: "host" latency: 1e-5 bandwidth: 1e9 }
"""
SMALL = ["search", "--graph=gpt.textproto", "--devices=2", "--batch=4", "--cluster=cluster.textproto"]


class SearchTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=64", "--out=gpt.textproto", cwd=cls.dir)
        cls.write("cluster.textproto", CLUSTER)

    def search(self, *flags):
        return run(*SMALL, *flags, cwd=self.dir)[0]

    def json(self, *flags):
        return json.loads(self.search("--format=json", *flags))

    def refuse(self, words, *flags, command=SMALL):
        error = run(*command, *flags, cwd=self.dir, code=2)[1]
        self.assertIn("oneflow: error: ", error)
        for word in words:
            self.assertIn(word, error)

    def test_the_flags_of_the_best_compile_to_its_plan(self):
        cases = [["--fix=context=1"], ["--fix=pipe=2,schedule=zero_bubble", "--precision=bf16"], ["--cluster=h100", "--fix=data=2,shard=weights"],
                 ["--fix=tensor=2,sequence_parallel=true,recompute=full", "--loss_pieces=2"]]
        for flags in cases:
            with self.subTest(flags):
                text = self.search(*flags, "--out=best.plan")
                line = re.search(r"\n *1 .*\n +(--.*)\n", text)[1]
                run("compile", *shlex.split(line), "--out=compiled.plan", cwd=self.dir)
                self.assertEqual(self.read("best.plan"), self.read("compiled.plan"))

    def test_the_recipe_of_the_best_compiles_to_its_plan(self):
        cases = [["--fix=context=1,tensor=1"], ["--fix=pipe=2,schedule=zero_bubble", "--clip=0", "--learning_rate=1e-4"],
                 ["--cluster=h100", "--fix=data=2,shard=weights,recompute=full"], ["--fix=data=2,micro_batches=1", "--memory=20MB"]]
        for flags in cases:
            with self.subTest(flags):
                self.search(*flags, "--out=best.plan", "--out_recipe=best.recipe")
                run("compile", "--recipe=best.recipe", "--out=compiled.plan", cwd=self.dir)
                self.assertEqual(self.read("best.plan"), self.read("compiled.plan"))
        self.refuse(["--out_recipe: cannot say --memory, --reserve and --system", "add --out=best.plan"], "--memory=20MB", "--out_recipe=best.recipe")

    def test_what_a_recipe_says_of_choices_is_searched(self):
        self.write("all.recipe", 'recipe { mesh { axis { name: "data" size: 4 } } batch: 4 recompute { term { policy: "full" } } fill_memory: true }\n'
                                 'cluster: "cluster.textproto"\n')
        found = json.loads(run("search", "--graph=gpt.textproto", "--devices=2", "--recipe=all.recipe", "--fix=data=2", "--top=1", "--format=json",
                               "--out=best.plan", cwd=self.dir)[0])
        self.assertEqual(found["plans"][0]["recompute"], "none")
        run("compile", *shlex.split(found["plans"][0]["flags"]), "--out=compiled.plan", cwd=self.dir)
        self.assertEqual(self.read("best.plan"), self.read("compiled.plan"))

    def test_a_name_with_a_blank_is_quoted(self):
        os.makedirs(self.dir + "/my model", exist_ok=True)
        self.write("my model/gpt's.textproto", self.read("gpt.textproto"))
        found = self.json("--graph=my model/gpt's.textproto", "--fix=data=2,micro_batches=1", "--top=1")
        run("compile", *shlex.split(found["plans"][0]["flags"]), "--out=x.plan", cwd=self.dir)

    def test_text(self):
        text = self.search("--fix=context=1,tensor=1", "--top=3")
        for words in ["gpt on 2 devices of two nodes, 95.37 MiB each\n", "\nsearched: ", "\nfixed: context=1,tensor=1\n", "\nnot searched: tensor across nodes",
                      " plan groups, ", " instead of ", "the bits of 1", "other bits than 1",
                      "(no run of this kind was compared)"]:
            self.assertIn(words, text)
        self.assertRegex(text, r"no plan of the space is more than [0-9.]+ % faster, by the simulator's times")
        self.assertEqual(len(re.findall(r"^ *[1-9] ", text, re.MULTILINE)), 3)

    def test_json_has_the_same(self):
        found = self.json("--fix=context=1,tensor=1", "--top=4")
        self.assertEqual(found["model"], "gpt")
        self.assertEqual(found["devices"], 2)
        self.assertEqual(found["device_capacity_bytes"], 100000000)
        self.assertTrue(found["complete"])
        self.assertGreater(found["counts"]["families"], 5)
        self.assertLessEqual(len(found["plans"]), 4)
        steps = [plan["step_seconds"] for plan in found["plans"]]
        self.assertEqual(steps, sorted(steps))
        self.assertLessEqual(found["bound_seconds"], steps[0])
        self.assertGreaterEqual(found["gap"], 0)
        for plan in found["plans"]:
            self.assertGreater(plan["bytes_a_device"], 0)
            self.assertGreater(plan["tokens_a_second"], 0)
            self.assertIn("--mesh=" + plan["mesh"], plan["flags"])
        best = found["plans"][0]
        run("compile", *shlex.split(best["flags"]), "--out=x.plan", cwd=self.dir)
        simulated = json.loads(run("simulate", "--plan=x.plan", "--cluster=cluster.textproto", "--format=json", cwd=self.dir)[0])
        self.assertAlmostEqual(simulated["step_seconds"], best["step_seconds"], delta=1e-9)

    def test_fixes_hold(self):
        for fix, holds in {"pipe=2": lambda plan: "pipe=2" in plan["mesh"], "schedule=gpipe": lambda plan: plan["schedule"] == "gpipe",
                           "micro_batches=2,context=1,tensor=1": lambda plan: plan["micro_batches"] == 2,
                           "recompute=full,context=1,tensor=1": lambda plan: plan["recompute"] == "full"}.items():
            with self.subTest(fix):
                plans = self.json("--fix=" + fix)["plans"]
                self.assertTrue(plans)
                self.assertTrue(all(map(holds, plans)))
                for plan in plans:
                    self.assertEqual(math.prod(int(degree) for degree in re.findall(r"[=x](\d+)", plan["mesh"])), 2, plan)

    def test_same_letters_of_bits_for_schedules_and_stages(self):
        plans = self.json("--fix=pipe=2,micro_batches=2")["plans"]
        self.assertGreater(len(plans), 1)
        self.assertEqual({plan["bits"] for plan in plans}, {"A"})

    def test_why_not(self):
        text = self.search("--fix=context=1,tensor=1,micro_batches=1", "--why_not=pipe=2")
        self.assertRegex(text, r"\nwhy not pipe=2: the best of all \d+ plan groups with it takes .* a step for .*; pipe=2 instead of ")
        self.assertIn("pipe=2", text.splitlines()[-1])
        self.assertIn("why_not", self.json("--fix=context=1,tensor=1,micro_batches=1", "--why_not=pipe=2"))
        self.assertIn("\nwhy not tensor=8: ", self.search("--fix=context=1,micro_batches=1,data=2", "--why_not=tensor=8"))

    def test_the_simplest_within_the_spread_is_shown_first_and_written(self):
        found = self.json("--fix=micro_batches=1", "--top=4", "--out=first.plan")
        simplest, limit = found["simplest"], found["plans"][0]["step_seconds"] * (1 + found["class"]["spread"])
        self.assertEqual(found["class"]["plans"], sum(plan["step_seconds"] <= limit for plan in found["plans"]))
        self.assertLess(simplest, found["class"]["plans"])
        flags = found["plans"][simplest]["flags"]
        self.assertRegex(self.search("--fix=micro_batches=1", "--top=4"), r"\n1 .*\n +" + re.escape(flags) + "\n")
        run("compile", *shlex.split(flags), "--out=compiled.plan", cwd=self.dir)
        self.assertEqual(self.read("first.plan"), self.read("compiled.plan"))

    def test_compare(self):
        flags = ["--compare=data=2,shard=weights", "--compare=pipe=2,recompute=full", "--compare=data=2,pipe=2"]
        text = self.search(*flags)
        self.assertRegex(text, r"\ndata=2,shard=weights +\d.*\n +--.*--mesh=data=2 .*--shard=weights.*\n +the best of all \d+ plan groups\n")
        self.assertRegex(text, r"\npipe=2,recompute=full +\d[^\n]*\n[^\n]*\n[^\n]*\n +pipe=2 instead of data=2, ")
        self.assertRegex(text, r"\ndata=2,pipe=2\n +.*no mesh")
        compared = self.json(*flags)["compare"]
        self.assertEqual([side["choices"] for side in compared], [flag.split("=", 1)[1] for flag in flags])
        self.assertIsNone(compared[2]["flags"])
        for i, side in enumerate(compared[:2]):
            run("compile", *shlex.split(side["flags"]), f"--out=side{i}.plan", cwd=self.dir)
        alone = self.json("--fix=micro_batches=1", "--compare=pipe=2")["compare"]
        self.assertEqual([(side["micro_batches"], side["mesh"]) for side in alone], [(1, "pipe=2")])
        self.refuse(["--compare: no part has a plan", "needs at least", "--mesh=data=2"], "--memory=10000",
                    "--compare=data=2,micro_batches=1")

    def test_largest(self):
        self.write("small.recipe", 'model { family: "gpt" layers: 2 heads: 2 hidden: 16 sequence: 8 vocab: 64 }\n')
        fixes = ["--fix=tensor=1,context=1,pipe=1,recompute=full", "--memory=2MB", "--budget_seconds=60", "--largest"]
        command = ["search", "--recipe=small.recipe", "--devices=2", "--batch=4", "--cluster=cluster.textproto"]
        preset, layers, sequence, batch = json.loads(run(*command, *fixes, "--format=json", cwd=self.dir)[0])["largest"]
        self.assertRegex(preset.get("limit", preset.get("none")), r"^(tiny|small|gpt2-124m), .* parameters( does not fit, as a bound of bytes says|: no plan was found)")
        self.assertTrue(batch["flags"])
        for row in (preset, layers, sequence, batch):
            if not row["flags"] or not row["compiled"]:
                continue  # on a busy machine
            if "model" in row:
                run(*shlex.split(row["model"])[1:], cwd=self.dir)
            run("compile", *shlex.split(row["flags"]), "--out=largest.plan", cwd=self.dir)
            self.assertLessEqual(row["bytes_a_device"], 2000000)
        text = self.search(*fixes)
        self.assertEqual(text.count("the numbers of the model are not known"), 3)
        self.assertRegex(text, r"\nbatch of one micro-batch +\d.*\n +[\d,]+ sequences, [\d,]+ a device\n")

    def test_gpus_of_the_cluster_are_the_devices(self):
        found = self.json("--cluster=h100", "--fix=data=2,micro_batches=1")
        self.assertIn("--device=cuda", found["plans"][0]["flags"])
        self.assertNotIn("--device=cuda", self.json("--fix=data=2,micro_batches=1")["plans"][0]["flags"])
        self.assertIn("--device=cpu", self.json("--cluster=h100", "--device=cpu", "--fix=data=2,micro_batches=1")["plans"][0]["flags"])

    def test_nothing_fits(self):
        self.refuse(["nothing fits 9.77 KiB", "nearest to it is a plan that needs ", "--mesh=", "use more devices"],
                    "--memory=10000", "--fix=data=2,micro_batches=1")

    def test_what_is_missing(self):
        self.refuse(["--cluster: is missing", "--cluster=h100", "calibrate"], command=[flag for flag in SMALL if "cluster" not in flag])
        self.refuse(["--devices: is missing"], command=[flag for flag in SMALL if "devices" not in flag])
        self.refuse(["--graph: is missing", "oneflow model"], command=[flag for flag in SMALL if "graph" not in flag])

    def test_flags_that_are_chosen(self):
        for flag in ["micro_batches=2", "schedule=1f1b", "chunks=2", "recompute=full", "shard=weights", "offload=states", "stage_layers=1,1",
                     "sequence_parallel=true", "extra_in_flight=1"]:
            name = flag.split("=")[0]
            self.refuse([f"--{name}: is not given to `oneflow search`; it is chosen; to fix it write --fix={name}=VALUE"], "--" + flag)
        self.refuse(["--mesh: ", "--fix=pipe=2,tensor=4"], "--mesh=pipe=2")
        self.refuse(["--fill_memory: ", "--fix=extra_in_flight=N"], "--fill_memory")
        self.refuse(["--order: ", "`oneflow compile`"], "--order=order.textproto")
        self.refuse(["--sync_every: ", "--batch"], "--sync_every=2")
        self.refuse(["--experts: ", "--fix=expert=8"], "--experts=data.1")

    def test_bad_values(self):
        for flags, words in [
                (["--devices=0"], ["--devices=0: is out of range"]), (["--devices=-8"], ["--devices=-8: is out of range; use 1 or more"]),
                (["--devices=many"], ["is no whole number"]), (["--devices=2..4"], ["is a range, and one number is needed"]),
                (["--devices=7", "--fix=tensor=2"], ["--devices=7: no mesh has so many devices", "tensor=2 is fixed", "use 6 or 8"]),
                (["--batch=1", "--fix=data=2"], ["--batch=1: has no number of micro-batches", "use 2 or more"]),
                (["--batch=0"], ["--batch=0: is out of range"]),
                (["--fix=tensr=2"], ['--fix=tensr=2: "tensr" is nothing that the search chooses; did you mean tensor?']),
                (["--fix=pipe=2,pipe=1"], ["--fix=pipe=1: contradicts an earlier --fix=pipe=2"]),
                (["--fix=pipe=1,schedule=interleaved"], ["no plan on 2 devices has all of it; without schedule there are "]),
                (["--fix=schedule=zb"], ["--fix=schedule=zb"]), (["--fix=expert=2"], ["no mixture of experts"]),
                (["--why_not=pipe=two"], ["--why_not=pipe=two: is no whole number"]),
                (["--why_not=pipe=1", "--fix=pipe=2"], ["--why_not=pipe=1: contradicts"]),
                (["--compare=pipe=two"], ["--compare=pipe=two: is no whole number"]), (["--compare="], ["--compare=: is empty"]),
                (["--compare=tensr=2"], ["did you mean tensor?"]), (["--compare=pipe=1", "--fix=pipe=2"], ["--compare=pipe=1: contradicts"]),
                (["--compare=pipe=1", "--out=x.plan"], ["--out: acts on nothing with --compare"]),
                (["--compare=pipe=1", "--out_recipe=x"], ["--out_recipe: acts on nothing with --compare"]),
                (["--compare=pipe=1", "--why_not=pipe=2"], ["--why_not: acts on nothing with --compare"]),
                (["--compare=pipe=1", "--pareto"], ["--pareto: acts on nothing with --compare"]),
                (["--largest", "--top=3"], ["--top: acts on nothing with --largest"]),
                (["--largest", "--out=x.plan"], ["--out: acts on nothing with --largest"]),
                (["--largest", "--pareto"], ["--pareto: acts on nothing with --largest"]),
                (["--largest", "--compare=pipe=1"], ["--largest: acts on nothing with --compare"]),
                (["--compare=pipe=1", "--top=3"], ["--top: acts on nothing with --compare"]),
                (["--budget_seconds=0"], ["--budget_seconds=0: leaves no time"]), (["--budget_seconds=nan"], ["leaves no time"]),
                (["--top=0"], ["--top=0: is out of range; use 1 or more"]), (["--top=100000"], ["use at most 1000"]),
                (["--format=html"], ["use text, json"]), (["--cluster=h1000"], ["did you mean h100?"]),
                (["--memory=big"], ["is not a size"]), (["--out=gpt.textproto"], ["is the file of --graph, too"])]:
            with self.subTest(flags):
                self.refuse(words, *flags)

    def test_pareto_of_bytes(self):
        found = json.loads(self.search("--pareto", "--fix=data=2,micro_batches=1,recompute=none", "--format=json"))
        self.assertEqual(found["axis"], "bytes_a_device")
        front = [point for point in found["points"] if point["on_front"]]
        self.assertTrue(front)
        self.assertEqual([point["bytes_a_device"] for point in front], sorted((p["bytes_a_device"] for p in front), reverse=True))
        for i, point in enumerate(front[:2]):
            run("compile", *shlex.split(point["flags"]), f"--out=point{i}.plan", cwd=self.dir)
        self.assertEqual([search["memory"] for search in found["searches"]], [100000000, 75000000, 50000000, 37500000, 25000000])
        self.assertIn("plans that are best by time of a step and bytes of a device", self.search("--pareto", "--fix=data=2,micro_batches=1,recompute=none"))

    def test_pareto_of_devices_and_money(self):
        flags = ["--pareto", "--devices=1..4", "--fix=tensor=1,context=1,micro_batches=1,shard=none,recompute=none,schedule=1f1b", "--format=json"]
        self.assertEqual(json.loads(self.search(*flags))["axis"], "devices")
        found = json.loads(self.search(*flags, "--price_per_device_hour=2"))
        self.assertEqual(found["axis"], "cost_of_1e9_tokens")
        self.assertEqual([search["devices"] for search in found["searches"]], [1, 2, 4])
        for point in found["points"]:
            self.assertAlmostEqual(point["cost_of_1e9_tokens"], point["devices"] * 2 / 3600 * 1e9 / point["tokens_a_second"])

    def test_pareto_page(self):
        said = self.search("--pareto", "--fix=data=2,micro_batches=1,recompute=none", "--format=html", "--out=front")
        self.assertIn("front/index.html", said)
        page = self.read("front/index.html").decode()
        links = set(re.findall(r'href="([^"]+)"', page))
        self.assertIn("plan-1.html", links)
        for link in links:
            self.assertIn(b"</html>", self.read("front/" + link))
            run("verify", "--plan=front/" + link.replace(".html", ".plan"), cwd=self.dir)
        self.assertNotIn("http", page)

    def test_pareto_flags(self):
        for flags, words in [(["--pareto", "--devices=2..7"], "is no range of doublings"), (["--pareto", "--out=x"], "--format=html"),
                             (["--pareto", "--format=html"], "--out: is missing"), (["--pareto", "--out_recipe=x"], "is of one plan"),
                             (["--pareto", "--why_not=pipe=2"], "leave one of the two out"),
                             (["--price_per_device_hour=2"], "acts on nothing without --pareto"),
                             (["--pareto", "--price_per_device_hour=-1"], "is no price"),
                             (["--pareto", "--format=html", "--out=gpt.textproto/x"], "cannot be made")]:
            with self.subTest(flags):
                self.refuse([words], *flags)

    def test_a_cluster_with_fewer_devices(self):
        self.write("small.textproto", CLUSTER.replace("CPU", "CUDA").replace('name: "host"', 'name: "host" size: 2'))
        self.refuse(["has 4 devices", "has 8"], "--cluster=small.textproto", "--devices=8")

    def test_a_graph_without_blocks_or_loss(self):
        self.write("flat.textproto", 'op { name: "x" kind: "input" shape { dim { size: 4 } dim { size: 6 } } }\n'
                                     'op { name: "w" kind: "variable" shape { dim { size: 6 } dim { size: 8 } } }\n'
                                     'op { name: "y" kind: "matmul" input: "x" input: "w" }\noutput: "y"\n')
        self.refuse(["flat.textproto: has no blocks", "`oneflow model`"], "--graph=flat.textproto")

    def test_the_mesh_of_the_graph_is_not_used(self):
        self.write("mesh.textproto", self.read("gpt.textproto") + b'mesh { axis { name: "data" size: 2 } }\n')
        flags = ["--graph=mesh.textproto", "--devices=1", "--batch=1", "--top=1", "--out=best.plan"]
        text, warning = run(*SMALL, *flags, cwd=self.dir)
        self.assertIn("the mesh of mesh.textproto is not used", warning)
        line = re.search(r"\n *1 .*\n +(--.*)\n", text)[1]
        run("compile", *shlex.split(line), "--out=compiled.plan", cwd=self.dir)
        self.assertEqual(self.read("best.plan"), self.read("compiled.plan"))

    def test_the_time_ends(self):
        done = run(*SMALL, "--budget_seconds=1e-9", cwd=self.dir, code=2)[1]
        self.assertIn("give a larger --budget_seconds", done)

    def test_an_interrupted_search_prints_what_it_found(self):
        run("model", "llama", "--preset=llama3-8b", "--sequence=8192", "--out=large.textproto", cwd=self.dir)
        command = ["search", "--graph=large.textproto", "--devices=64", "--batch=512", "--cluster=h100", "--precision=bf16",
                   "--budget_seconds=3600"]
        process = subprocess.Popen([ONEFLOW, *command], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        for line in process.stderr:
            if "; best " in line:
                break
        process.send_signal(signal.SIGINT)
        table, _ = process.communicate(timeout=250)
        self.assertEqual(0, process.returncode)
        self.assertRegex(table, r"\n *1 +[0-9.]+ s")
        # The first plan may fit before the others are looked at.
        self.assertRegex(table, "estimated: no other plan group is more than|nothing is known of [0-9,]+ of 1,")


if __name__ == "__main__":
    unittest.main()
