"""A lock of a plan: `compile --lock` writes it, `diff --lock` holds plans against it; exit codes 0, 2 and 3."""
import json
import unittest

from tests.e2e.cli import FolderCase, run

SMALL = ["--graph=gpt.textproto", "--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--cluster=h100", "--device=cpu"]
LIMITS = "--fail_above=bytes:1%,step:2%,exchanges:1%"


class LockTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", *SMALL, "--out=gpt.plan", "--lock=plan.lock", cwd=cls.dir)

    def diff(self, *args, code=0):
        return run("diff", "--lock=plan.lock", *args, cwd=self.dir, code=code)

    def refuse(self, words, *args):
        error = run(*args, cwd=self.dir, code=2)[1]
        for word in words:
            self.assertIn(word, error)

    def edited(self, change, name="edited.lock"):
        """The lock with what `change` does to its JSON."""
        lock = json.loads(self.read("plan.lock"))
        change(lock)
        self.write(name, json.dumps(lock))
        return "--lock=" + name

    def test_is_small_and_the_same_each_time(self):
        lock = self.read("plan.lock")
        self.assertLess(len(lock), 3000)
        run("compile", *SMALL, "--lock=again.lock", cwd=self.dir)
        self.assertEqual(lock, self.read("again.lock"))
        read = json.loads(lock)
        self.assertEqual(list(read), ["lock", "model", "graph", "recipe", "bits", "devices", "bytes", "step", "exchanges", "costs", "choices"])
        report = json.loads(run("compile", *SMALL, "--format=json", cwd=self.dir)[0])
        self.assertEqual({s: b for s, b in enumerate(read["bytes"].values())}, {s["stage"]: s["arena_bytes"] for s in report["stages"]})
        self.assertAlmostEqual(read["step"]["seconds"] / report["headline"]["step_seconds"], 1, delta=1e-5)
        run("compile", *SMALL, "--mesh=data=1", "--out=one.plan", cwd=self.dir)
        numbers = json.loads(run("diff", "gpt.plan", "one.plan", "--format=json", cwd=self.dir)[0])["numbers"]
        received = sum(n["a"] * (n["last_stage"] - n["first_stage"] + 1) for n in numbers if n["what"] == "received in a step, receive")
        self.assertEqual(read["exchanges"], {"receive over pipe": received})

    def test_a_plan_is_as_locked(self):
        for plan in (["gpt.plan"], SMALL):
            self.assertEqual(self.diff(*plan, LIMITS)[0], "the plan is as locked\n")

    def test_a_change_that_costs_more_is_exit_code_3(self):
        out, error = self.diff(*SMALL, "--micro_batches=2", LIMITS, code=3)
        self.assertIn("micro_batches", out)
        self.assertIn("A -> B, within rounding: sums are made in another order (micro_batches)", out)
        self.assertRegex(error, r"oneflow: error: --fail_above=.*: bytes of stage 0: .* \(\+[0-9.]+ %\), above 1%")
        self.assertLessEqual(max(map(len, out.splitlines())), 120)
        self.diff(*SMALL, "--micro_batches=2")  # without limits nothing fails
        report = json.loads(self.diff(*SMALL, "--micro_batches=2", LIMITS, "--format=json", code=3)[0])
        self.assertEqual(report["choices"], [{"name": "micro_batches", "was": "4", "now": "2"}])
        self.assertEqual(report["bits"], {"letter": "B", "why": ["micro_batches"]})
        self.assertTrue(report["above"])
        self.diff(*SMALL, "--micro_batches=2", "--fail_above=bytes:1GiB,step:1s,exchanges:1GiB")

    def test_what_shrinks_does_not_fail(self):
        larger = self.edited(lambda lock: lock["bytes"].update({"0": 10**9}))
        self.assertIn("bytes of stage 0", run("diff", larger, "gpt.plan", "--fail_above=bytes:0%", cwd=self.dir)[0])
        smaller = self.edited(lambda lock: lock["bytes"].update({"0": 1}))
        run("diff", smaller, "gpt.plan", "--fail_above=bytes:50%", cwd=self.dir, code=3)
        slower = self.edited(lambda lock: lock["step"].update(seconds=lock["step"]["seconds"] * 0.97))
        self.assertIn("step", run("diff", slower, "gpt.plan", "--fail_above=step:2%", cwd=self.dir, code=3)[1])
        run("diff", slower, "gpt.plan", "--fail_above=step:4%", cwd=self.dir)

    def test_changed_costs_are_told_apart(self):
        def other_costs(lock):
            lock["costs"]["version"] += 1000
            lock["step"]["seconds"] /= 2
        lock = self.edited(other_costs)
        out = run("diff", lock, "gpt.plan", LIMITS, cwd=self.dir)[0]
        for words in ["graph   the same\n", "recipe  the same\n", "ours changed, version 1001 -> 1: the step is not held against the lock's"]:
            self.assertIn(words, out)
        self.assertRegex(out, r"\nstep +.* -> .* \(\+100 %\)\n")
        report = json.loads(run("diff", lock, "gpt.plan", LIMITS, "--format=json", cwd=self.dir)[0])
        self.assertEqual((report["graph"], report["choices"], report["step_held"], report["costs"]["same"]), ("same", [], False, False))

        def and_bytes(lock):
            other_costs(lock)
            lock["bytes"] = {"0-1": 64}
        self.assertIn("bytes of stage", run("diff", self.edited(and_bytes), "gpt.plan", LIMITS, cwd=self.dir, code=3)[1])
        out = run("diff", "--lock=plan.lock", "gpt.plan", "--cluster=a100", "--fail_above=step:2%", cwd=self.dir)[0]
        self.assertIn("rates of another cluster, H100-80G nodes of 8 -> ", out)

    def test_a_mixture_is_priced_as_the_lock_was(self):
        run("model", "llama", "--preset=llama-tiny", "--experts=4", "--out=moe.textproto", cwd=self.dir)
        moe = ["--graph=moe.textproto", "--mesh=expert=2", "--batch=8", "--threads=2"]
        run("compile", *moe, "--lock=moe.lock", cwd=self.dir)
        self.assertEqual(json.loads(self.read("moe.lock"))["imbalance"], 1.25)
        self.assertEqual(run("diff", "--lock=moe.lock", *moe, "--fail_above=step:0%", cwd=self.dir)[0], "the plan is as locked\n")
        self.assertIn("imbalance", run("diff", "--lock=moe.lock", *moe, "--imbalance=2", cwd=self.dir)[0])
        run("compile", *moe, "--out=moe.plan", "--lock=worst.lock", cwd=self.dir)
        self.assertEqual(run("diff", "--lock=worst.lock", "moe.plan", cwd=self.dir)[0], "the plan is as locked\n")
        self.assertEqual(run("diff", "--lock=worst.lock", *moe, cwd=self.dir)[0], "the plan is as locked\n")
        self.refuse(["moe.plan: has room for any routing", "imbalance of 1.25"], "diff", "--lock=moe.lock", "moe.plan")

    def test_bad_input(self):
        self.refuse(["--lock=x.lock: would hold on machines", "give --cluster, or --threads"], "compile", "--graph=gpt.textproto", "--lock=x.lock")
        self.refuse(["--lock=gpt.textproto: gpt.textproto is the file of --graph"], "compile", *SMALL, "--lock=gpt.textproto")
        self.refuse(["--cluster: is missing"], "compile", "--graph=gpt.textproto", "--device=cuda", "--threads=2", "--lock=x.lock")
        self.refuse(["--lock", "absent/x.lock"], "compile", *SMALL, "--lock=absent/x.lock")
        self.refuse(["absent.lock"], "diff", "--lock=absent.lock", "gpt.plan")
        self.refuse(["compares one plan, not 2"], "diff", "--lock=plan.lock", "gpt.plan", "gpt.plan")
        self.refuse(["has nothing to compare with --lock=plan.lock"], "diff", "--lock=plan.lock")
        self.refuse(["--schedule: cannot be given together with gpt.plan"], "diff", "--lock=plan.lock", "gpt.plan", "--schedule=gpipe")
        self.refuse(["--program=eval: is not compared"], "diff", "--lock=plan.lock", "gpt.plan", "--program=eval")
        self.refuse(["--fail_above: acts on nothing: two plans"], "diff", "gpt.plan", "gpt.plan", "--fail_above=bytes:1%")
        self.refuse(["--batch: acts on nothing: two plans"], "diff", "gpt.plan", "gpt.plan", "--batch=8")
        self.refuse(["--fail_above=byte:1%: names no bytes"], "diff", "--lock=plan.lock", "gpt.plan", "--fail_above=byte:1%")

        def no_step(lock):
            lock["step"] = None
        self.refuse(["edited.lock has no time of a step", "leave the limit of the step out"],
                    "diff", self.edited(no_step), "gpt.plan", "--fail_above=step:1%")
        self.write("eval.recipe", "recipe { purpose: EVALUATION }")
        self.refuse(["--lock=x.lock: is of plans that train"], "compile", "--graph=gpt.textproto", "--recipe=eval.recipe", "--threads=1", "--lock=x.lock")

    def test_a_lock_that_is_damaged_or_of_a_newer_version(self):
        self.write("half.lock", self.read("plan.lock")[:700])
        self.refuse(["half.lock: is no JSON", "write it anew with `oneflow compile --lock`"], "diff", "--lock=half.lock", "gpt.plan")
        self.refuse(["gpt.plan: is no JSON"], "diff", "--lock=gpt.plan", "gpt.plan")
        newer = self.edited(lambda lock: lock.update(lock=2))
        self.refuse(["edited.lock: is a lock of version 2, and this program reads 1", "use the release that wrote it"], "diff", newer, "gpt.plan")
        for change in (lambda lock: lock.pop("graph"), lambda lock: lock.update(bytes=[1]), lambda lock: lock.update(bytes={}),
                       lambda lock: lock["bytes"].update({"0": "many"}), lambda lock: lock["choices"].update(batch="9"),
                       lambda lock: lock["exchanges"].update(x=-1), lambda lock: lock.update(costs=1)):
            self.refuse(["edited.lock: ", "write it anew"], "diff", self.edited(change), "gpt.plan")


if __name__ == "__main__":
    unittest.main()
