"""What rests in the host's memory (--offload, --update_on=host), as users see it: what is refused and why, which flags act on
nothing, and what `compile`, `explain`, `simulate` and `diff` say of it."""
import json
import re
import unittest

from tests.e2e.cli import FolderCase, run
from tests.e2e.page import Page

NO_LOSS = '''op { name: "x" kind: "input" shape { dim { size: 4 } dim { size: 6 } } }
op { name: "w" kind: "variable" shape { dim { size: 6 } dim { size: 8 } } }
op { name: "y" kind: "matmul" input: "x" input: "w" }
output: "y"
'''


class HostMemoryTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=64", "--sequence=32", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        for name, text in [("no_loss.textproto", NO_LOSS), ("nodes.textproto", 'level { name: "node" size: 2 }\nlevel { name: "cluster" }\n')]:
            cls.write(name, text)

    def compile(self, *flags, graph="gpt", out="x", code=0):
        return run("compile", f"--graph={graph}.textproto", "--batch=16", "--micro_batches=4", "--threads=1", f"--out={out}.plan", *flags,
                   cwd=self.dir, code=code)

    def refuse(self, words, *flags, **options):
        error = self.compile(*flags, code=2, **options)[1]
        for word in words:
            self.assertIn(word, error)
        return error

    def told(self, *flags):
        return json.loads(self.compile(*flags, "--format=json")[0])

    def explain(self, *flags, plan="x"):
        return run("explain", f"--plan={plan}.plan", *flags, cwd=self.dir)[0]

    def test_words_that_are_none(self):
        for flag, words in {
                "--offload=activation": ['"activation" is nothing that can be offloaded', "did you mean activations?"],
                "--offload=activations:2": ['"2" is no share of the activations', "above 0 and at most 1"],
                "--offload=activations:x": ['"x" is no share'], "--offload=activations:": ['"" is no share'],
                "--offload=states:1": ['"states:1" is nothing that can be offloaded'],
                "--offload=states,states": ["names states twice", "name each once"],
                "--offload=activations,activations:0.5": ["names activations twice"],
                "--offload=": ["--offload=", "is empty"], "--offload=states,": ['"" is nothing that can be offloaded'],
                "--offload=none,states": ["names none beside others"],
                "--update_on=gpu": ["--update_on=gpu", "device", "host"],
                "--host_memory=abc": ["--host_memory=abc", "is not a size"], "--host_memory=0": ["is not a size"],
                "--host_memory=-1": ["is not a size"], "--host_memory=": ["is empty"]}.items():
            with self.subTest(flag):
                self.refuse(words, flag)
        self.assertIn("--offload", run("generate", "--checkpoint=absent", "--prompt=a", "--offload=weights", cwd=self.dir, code=2)[1])

    def test_variables_whose_weights_lag_rest_in_the_memory_of_the_device(self):
        for schedule in [["--schedule=2bw"], ["--staleness=1"]]:
            for flag, name in [("--offload=states", None), ("--offload=weights", None), ("--offload=states,weights", "--offload=states"),
                               ("--update_on=host", None)]:
                with self.subTest(schedule + [flag]):
                    self.refuse([(name or flag) + ": is not for weights that lag", "--schedule=1f1b", "--offload=activations"], "--mesh=pipe=2",
                                "--clip=0", *schedule, flag)
            self.compile("--mesh=pipe=2", "--clip=0", *schedule, "--offload=activations:0.5")

    def test_what_acts_on_nothing_is_said(self):
        def warning(*flags, graph="gpt"):
            return self.compile(*flags, graph=graph)[1]

        nothing = r"^oneflow: warning: --%s acts on nothing in this plan: .+\n$"
        for flag in ["offload=activations", "offload=states", "update_on=host"]:
            self.assertRegex(warning("--" + flag, graph="no_loss"), nothing % flag)
        self.assertRegex(warning("--host_memory=1GB"), nothing % "host_memory=1GB")
        self.assertEqual("", warning("--offload=weights", graph="no_loss"))
        self.assertEqual("", warning("--offload=states", "--update_on=host"))  # states rest there anyway
        self.assertNotIn("acts on nothing", warning("--offload=activations", "--host_memory=1GB"))
        self.assertEqual("", warning("--offload=none", "--update_on=device", graph="no_loss"))

    def test_a_node_may_take_so_much(self):
        flags = ["--mesh=data=4", "--offload=states"]
        needs = self.told(*flags)["stages"][0]["host_bytes"]
        self.assertGreater(needs, 0)
        self.compile(*flags, f"--host_memory={4 * needs}")
        error = self.refuse(["memory of the host: node 0 needs ", "for its 4 devices", "1 bytes too many", "weights and optimizer", "/m (1 x ",
                             "--offload=activations:0.5", "more nodes"], *flags, f"--host_memory={4 * needs - 1}")
        self.assertRegex(error, r"\nit fits with\n(  --\S+: [\d.]+ GiB.*\n)+")
        self.compile(*flags, "--cluster=nodes.textproto", f"--host_memory={2 * needs}")
        self.refuse(["for its 2 devices"], *flags, "--cluster=nodes.textproto", f"--host_memory={2 * needs - 1}")
        for verb in ["explain", "simulate"]:
            run(verb, "--plan=x.plan", f"--host_memory={4 * needs}", cwd=self.dir)
            self.assertIn("x.plan: memory of the host: node 0", run(verb, "--plan=x.plan", "--host_memory=1KB", cwd=self.dir, code=2)[1])

    def test_it_is_not_silently_offloaded_less(self):
        needs = self.told("--offload=activations:all")["stages"][0]["host_bytes"]
        half = self.told("--offload=activations:0.5")["stages"][0]["host_bytes"]
        self.assertLess(half, needs)
        error = self.refuse(["memory of the host", "a smaller share as in --offload=activations:0.5"], "--offload=activations:all",
                            f"--host_memory={half}")
        self.assertIn("\n  --offload=activations:0.5: ", error)
        self.compile("--offload=activations:0.5", f"--host_memory={half}")

    def test_the_first_lines(self):
        text = self.compile("--mesh=data=4", "--offload=states", "--cluster=nodes.textproto")[0].split("\n\n")[0]
        told = self.told("--mesh=data=4", "--offload=states", "--cluster=nodes.textproto")
        needs = told["stages"][0]["host_bytes"]
        self.assertRegex(text, rf"memory of the host: {needs:,} bytes \(.*\) a device, {2 * needs:,} bytes \(.*\) a node of 2\n")
        self.assertRegex(text, "\nbits: .*equal to those of the plan without --offload")
        self.assertIn("it says nothing of the link to the host, which is taken to have 5 GB/s to the host, 5 GB/s from it", text)
        self.assertEqual(told["headline"]["host_bytes_a_device"], needs)
        self.assertEqual(told["headline"]["host_bytes_a_node"], 2 * needs)
        gpu = ["--device=cuda", "--cluster=h100", "--update_on=host"]
        text = self.compile(*gpu)[0]
        self.assertIn("bits: within rounding of the plan without --update_on=host", text)
        self.assertNotIn("says nothing of the link", text)
        text = self.compile("--device=cuda", "--cluster=h100")[0]
        self.assertNotIn("\nmemory of the host: ", text)  # its data alone
        self.assertNotIn("\nbits: ", text)
        self.assertIn("\npinned memory of the host for a GPU of stage 0: ", text)
        self.assertIn("--offload", self.compile("--mesh=data=2", "--shard=states", "--offload=weights")[0].split("bits: ")[1].split("\n")[0])
        self.assertNotIn("memory of the host", self.compile("--mesh=data=2")[0])

    def test_the_memory_of_the_host_is_listed(self):
        stage = self.told("--offload=activations:0.5,states")["stages"][0]
        text = self.explain()
        self.assertRegex(text, rf"\nmemory of the host for a device of stage 0: {stage['host_bytes']:,} bytes .*= weights and optimizer "
                         rf"{stage['host_persistent_bytes']:,} bytes .* \+ registers ")
        lines = self.explain("--format=memory").splitlines()
        columns = dict(zip(lines[0].split(), map(int, lines[1].split())))
        self.assertEqual(columns["host_states"], stage["host_persistent_bytes"])
        self.assertGreater(columns["host_kept"], 0)
        self.assertTrue(any(line.startswith("largest of stage 0, host: ") for line in lines))
        self.compile(out="plain")
        lines = self.explain("--format=memory", plan="plain").splitlines()
        plain = dict(zip(lines[0].split(), map(int, lines[1].split())))
        self.assertNotIn("host_states", plain)
        states = ["matrices_of_blocks", "other_states"]
        self.assertEqual(sum(plain[name] for name in states), sum(columns[name] for name in states + ["host_states"]))
        self.assertLess(columns["kept_in_blocks"], plain["kept_in_blocks"])
        diff = run("diff", "plain.plan", "x.plan", cwd=self.dir)[0]
        mib = f"{stage['host_bytes'] / 2**20:.1f} MiB"
        self.assertRegex(diff, rf"memory of the host +0 bytes -> {mib} ")
        self.assertRegex(diff, "memory of the host, weights and optimizer +0 bytes -> ")

    def test_weights_that_are_copied_once_a_step_are_states(self):
        def columns(*flags):
            self.compile("--precision=bf16", *flags)
            lines = self.explain("--format=memory").splitlines()
            return dict(zip(lines[0].split(), map(int, lines[1].split())))

        host, plain = columns("--update_on=host"), columns()
        self.assertEqual(host["kept_in_blocks"], plain["kept_in_blocks"])
        # Of 4 + 8 + 4 + 2 bytes an element the gradient and what products read are left to the device.
        self.assertEqual(host["matrices_of_blocks"] * 18, plain["matrices_of_blocks"] * 6)

    def rows(self, *flags):
        """The table of variables: {name: what its column host says}."""
        told = {v["name"]: v for v in self.told(*flags)["variables"]}
        lines = self.explain().splitlines()
        first = [line.startswith("variables of program train") for line in lines].index(True)
        self.assertEqual(re.split(r"  +", lines[first + 1].strip())[-1], "host")
        rows = {}
        for line in lines[first + 2:]:
            if not line.startswith("    "):
                break
            name, *columns = re.split(r"  +", line.strip())
            rows[name] = columns[-1]
        return rows, told

    def test_the_table_of_variables_says_what_rests_where(self):
        fc = "h.*.mlp.fc.weight"
        rows, told = self.rows("--offload=states")
        self.assertEqual(rows[fc], "states in the update; 2 times")
        self.assertEqual(told["h.1.mlp.fc.weight"]["host"],
                         {"states": True, "weights": False, "updates": False, "copied_once": False, "copies_a_micro_batch": 0})
        self.assertEqual(self.rows("--offload=weights")[0][fc], "weights 2 a micro-batch; 2 times")
        self.assertEqual(self.rows("--offload=states,weights", "--precision=bf16")[0][fc],
                         "states in the update, weights 2 a micro-batch; 2 times")
        rows, told = self.rows("--update_on=host")
        self.assertEqual(rows[fc], "states and update, weights once a step; 2 times")
        self.assertEqual(told["h.1.mlp.fc.weight"]["host"],
                         {"states": True, "weights": False, "updates": True, "copied_once": True, "copies_a_micro_batch": 0})
        # What is split and exchanged is told as without it.
        for flag in ["--offload=states", "--update_on=host", "--offload=weights"]:
            with_it = self.told("--mesh=data=2", "--shard=states", flag)["variables"]
            without = self.told("--mesh=data=2", "--shard=states")["variables"]
            for a, b in zip(with_it, without):
                for member in ["states", "gradients", "reduced", "gathered"]:
                    self.assertEqual(a.get(member), b.get(member), (flag, a["name"], member))

    def test_the_attribute_of_a_variable(self):
        text = self.read("gpt.textproto").decode()
        mark = re.search(r'name: "h\.0\.mlp\.fc\.weight" kind: "variable" ', text)
        self.write("stated.textproto", text[:mark.end()] + 'attr { key: "host" value { s: "states,update" } } ' + text[mark.end():])
        self.compile(graph="stated")
        host = {v["name"]: v["host"] for v in json.loads(self.explain("--format=json"))["variables"] if "host" in v}
        self.assertTrue(host["h.0.mlp.fc.weight"]["updates"])
        self.assertEqual([name for name in host if host[name]["states"]], ["h.0.mlp.fc.weight"])

    def test_flags_that_make_it_fit(self):
        flags = ["--mesh=data=2", "--recompute=full", "--micro_batches=4"]
        needs = {flag: self.told(*flags, flag)["stages"][0]["arena_bytes"] for flag in ["--offload=none", "--offload=states", "--update_on=host"]}
        self.assertLess(needs["--offload=states"], needs["--offload=none"])
        error = self.refuse(["it fits with\n"], *flags, f"--memory={needs['--offload=states']}")
        offered = re.findall(r"^  (--.*): ([\d.]+) GiB, a step of (\S+) s", error, re.MULTILINE)
        names = [flag for flag, _, _ in offered]
        self.assertRegex(error, r"\n  --offload=states: .* s(\n|$)")
        self.assertIn("--offload=states", names)
        for flag, gib, _ in offered:
            self.assertAlmostEqual(float(gib), self.told(*flags, flag)["stages"][0]["arena_bytes"] / 2**30, delta=0.01)
        tried = re.findall(r"trying (.*)", error)
        order = ["--loss_pieces=auto", "--shard=states", "--shard=gradients", "--shard=weights", "--micro_batches=8", "--offload=activations",
                 "--offload=states", "--update_on=host"]
        self.assertEqual(tried, order)
        # A line says where bits move.
        given = ["--mesh=data=2", "--recompute=full", "--micro_batches=1"]
        fewer = self.told(*given[:-1], "--micro_batches=2")["stages"][0]["arena_bytes"]
        self.assertRegex(self.refuse(["it fits with\n"], *given, f"--memory={fewer}"),
                         r"\n  --micro_batches=2: .* \(sums in another order\)")
        # All of them, in the order of the help; of several that name one flag the last; what --offload names adds up.
        error = self.refuse(["no flag that was tried makes it fit"], *flags, "--memory=100KB")
        self.assertRegex(error, r"^oneflow: memory of stage 0: needs .*, a device has 100,000 bytes .* too many\n")
        self.assertEqual(re.findall(r"trying (.*)", error)[-1],
                         "--shard=weights --micro_batches=8 --loss_pieces=auto --offload=activations,states --update_on=host")
        # Blocks that are not recomputed yet, and gathers as they are.
        error = self.refuse(["no flag that was tried"], "--recompute=full:1,selective,gather", "--memory=100KB")
        self.assertIn("--recompute=full,gather", re.findall(r"trying (.*)", error))
        # What weights that lag cannot have is not tried.
        error = self.refuse([], "--mesh=pipe=2", "--clip=0", "--schedule=2bw", "--memory=100KB")
        self.assertNotIn("states", error.replace("--shard=states", ""))
        self.assertNotIn("--update_on", error)

    def test_pictures(self):
        self.compile("--offload=activations:all,states", "--mesh=pipe=2")
        page = Page(self.explain("--format=html"))
        for stage in page.json()["stages"]:
            streams = {stream["name"]: stream for stream in stage["streams"]}
            self.assertGreater(len(streams["offload.out"]["blocks"]), 0)
            self.assertGreater(len(streams["offload.in"]["blocks"]), 0)
            self.assertFalse(streams["offload.in"]["host"])
            self.assertGreater(stage["to_host_seconds"], 0)
            self.assertGreater(stage["host_peak_register_bytes"], 0)
            self.assertLessEqual(stage["host_persistent_bytes"] + stage["host_peak_register_bytes"], stage["host_arena_bytes"])
            self.assertEqual(max(used for _, used in stage["host_memory"]), stage["host_peak_register_bytes"])
        self.assertIn("states in the update", json.dumps(page.json("plan")["variables"]))
        simulated, _ = run("simulate", "--plan=x.plan", "--trace=trace.json", cwd=self.dir)
        self.assertIn("    memory of the host ", simulated)
        events = json.loads(self.read("trace.json"))
        events = events["traceEvents"] if isinstance(events, dict) else events
        counters = {event["name"] for event in events if event["ph"] == "C"}
        self.assertEqual(counters, {"bytes of registers in use", "bytes of registers in use in the host's memory"})


if __name__ == "__main__":
    unittest.main()
