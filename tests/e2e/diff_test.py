"""oneflow diff: two plans of one model, and what the change does to bytes, time and memory."""
import json
import unittest

from tests.e2e.cli import FolderCase, run


class DiffTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        for name, flags in {"1f1b": ["--mesh=pipe=2"], "gpipe": ["--mesh=pipe=2", "--schedule=gpipe"], "tensor": ["--mesh=tensor=2"]}.items():
            run("compile", "--graph=gpt.textproto", *flags, "--batch=16", "--micro_batches=8", f"--out={name}.plan", cwd=cls.dir)

    def diff(self, *args):
        return run("diff", *args, cwd=self.dir)[0]

    def test_a_plan_is_like_itself(self):
        self.assertEqual(self.diff("1f1b.plan", "1f1b.plan"), "the plans are alike\n")

    def test_is_short_and_narrow(self):
        run("model", "gpt", "--layers=12", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=deep.textproto", cwd=self.dir)
        for name, flags in {"one": ["--mesh=pipe=4,data=2", "--shard=weights", "--device=cuda", "--schedule=zero_bubble"],
                            "two": ["--mesh=pipe=4,tensor=2", "--sequence_parallel", "--device=cuda", "--recompute=full"]}.items():
            run("compile", "--graph=deep.textproto", *flags, "--batch=16", "--micro_batches=8", f"--out={name}.plan", cwd=self.dir)
        for a, b in [("one", "two"), ("two", "one"), ("1f1b", "tensor"), ("one", "1f1b")]:
            lines = self.diff(f"{a}.plan", f"{b}.plan", "--cluster=h100").splitlines()
            self.assertLess(len(lines), 70)
            self.assertLessEqual(max(map(len, lines)), 120, max(lines, key=len))
            # A thing that differs has one line.
            things = [line[:43] for line in lines if line.startswith("  ") and " -> " in line]
            self.assertEqual(len(things), len(set(things)))

    def test_schedule_changes_orders_slots_and_memory(self):
        text = self.diff("1f1b.plan", "gpipe.plan")
        for words in [r"schedule +1f1b -> gpipe\n", r"order of compute +.* -> F\u00d78 B\u00d78 U  stage 0 of 2 that differ\n",
                      r"memory, registers and workspaces  +[0-9.]+ KiB -> [0-9.]+ KiB \(\+[0-9.]+ %\)  stage "]:
            self.assertRegex(text, words)
        self.assertNotIn("actors", text)
        self.assertRegex(text, r"^simulated on .*\n  times \(no run of this kind was compared\)\n  time of a step(: .* in both\n|  .* -> )")
        tensor = self.diff("1f1b.plan", "tensor.plan")
        self.assertRegex(tensor, r"\n  bubble +[0-9.]+ % -> 0.0 %\n")
        self.assertRegex(tensor, r"\n  mesh +pipe=2 -> tensor=2\n")
        numbers = {(n["what"], n.get("first_stage")): n for n in json.loads(self.diff("1f1b.plan", "gpipe.plan", "--format=json"))["numbers"]}
        memory = numbers["memory", 0]
        self.assertEqual(memory["unit"], "bytes")
        self.assertLess(memory["a"], memory["b"])

    def test_mesh_changes_boxing_time_and_actors(self):
        result = json.loads(self.diff("1f1b.plan", "tensor.plan", "--format=json"))
        self.assertIn({"what": "mesh", "a": "pipe=2", "b": "tensor=2"}, result["facts"])
        whats = {n["what"] for n in result["numbers"]}
        for what in ["stages", "actors, receive", "received in a step, receive", "bubble, part of a step", "memory"]:
            self.assertIn(what, whats)
        self.assertTrue(any(what.startswith("time of a step on ") for what in whats))
        self.assertTrue(any("(receive, group stage" in actor for actor in result["actors_only_in_a"]))
        self.assertTrue(any("(all_reduce, group tensor)" in actor or "(reduce_scatter, group tensor)" in actor for actor in result["actors_only_in_b"]))


if __name__ == "__main__":
    unittest.main()
