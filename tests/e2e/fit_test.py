"""oneflow fit: three lines, what is printed as fitting compiles with the printed flags, and what is refused."""
import json
import re
import shlex
import unittest

from tests.e2e.cli import FolderCase, run

CLUSTER = """name: "four devices"
device { kind: CPU kernel_threads: 1 peak_flops: 1e13 peak_flops_bf16: 1e14 memory_bandwidth: 1e12 memory_bytes: 8000000 }
level { name: "process" size: 4 latency: 1e-6 bandwidth: 1e11 }
level { name: "host" latency: 1e-5 bandwidth: 1e10 }
"""
SMALL = ["fit", "gpt.textproto", "--devices=4", "--cluster=cluster.textproto", "--batch=8", "--budget_seconds=2",
         "--fix=tensor=1,context=1,pipe=1"]


class FitTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=64", "--sequence=128", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        cls.write("cluster.textproto", CLUSTER)

    def fit(self, *args, code=0):
        return run(*args, cwd=self.dir, code=code)[0]

    def refuse(self, words, *args):
        error = run(*args, cwd=self.dir, code=2)[1]
        self.assertIn("oneflow: error: ", error)
        for word in words:
            self.assertIn(word, error)

    def test_three_lines_then_plans_that_compile(self):
        lines = self.fit(*SMALL).splitlines()
        self.assertRegex(lines[0], r"^fits: gpt, .* parameters, on 4 devices of four devices; batch 8 sequences of 128 tokens, f32$")
        self.assertRegex(lines[1], r"^best plan: step .* tokens/s .*MFU .*MiB of 7.63 MiB a device$")
        self.assertRegex(lines[2], r"^largest that fits: a batch of [\d,]+ sequences.* at once.*; sequence is not known")
        flags = re.findall(r"^  oneflow compile (.*)$", "\n".join(lines), re.M)
        self.assertGreaterEqual(len(flags), 2)
        for line in flags:
            run("compile", *shlex.split(line), cwd=self.dir)

    def test_a_model_by_its_name(self):
        found = json.loads(self.fit("fit", "llama-small", "--devices=1x2", "--cluster=h100", "--memory=100MB", "--reserve=0",
                                    "--budget_seconds=2", "--batch=4ktokens", "--format=json", "--fix=tensor=1,pipe=1"))
        self.assertEqual((found["fits"], found["batch"], found["sequence"], found["nodes"]), (True, 64, 64, 1))
        self.assertEqual(found["sequence_note"], "default length: the model's")
        limits = {limit["what"]: limit for limit in found["limits"]}
        self.assertGreater(limits["sequence"]["sequence"], 64)
        plan = limits["sequence"]["plan"]
        compiled = json.loads(run("compile", *shlex.split(plan["flags"]), "--format=json", cwd=self.dir)[0])
        self.assertEqual(compiled["headline"]["bytes_a_device"], plan["bytes_a_device"])
        self.assertLessEqual(plan["bytes_a_device"], 100e6)

    def test_what_does_not_fit_names_what_binds_and_what_would(self):
        text = self.fit(*SMALL, "--memory=800kB", "--reserve=0", code=2)
        lines = text.splitlines()
        self.assertRegex(lines[0], "^does not fit: gpt, .*iB too many$")
        self.assertRegex(lines[1], r"^what binds: .*weights, gradients and states .* [KM]iB, .*with --mesh=")
        self.assertRegex(lines[2], "^nearest that fits: ")
        for line in re.findall(r"^  oneflow compile (.*)$", text, re.M):
            run("compile", *shlex.split(line), cwd=self.dir)

    def test_bad_questions_are_refused(self):
        self.refuse(["no model is given"], "fit", *SMALL[2:])
        self.refuse(["--batch=10tokens: is less than one sequence of "], *SMALL[:4], "--batch=10tokens")
        self.refuse(["a: cannot be read"], "fit", "a", "b", *SMALL[2:])
        self.refuse(["llama3.1-8b"], "fit", "llama3.1-8bb", *SMALL[2:])
        self.refuse(["--devices: is missing"], *SMALL[:2], *SMALL[3:])
        self.refuse(["--devices=8x: is not nodes x devices of a node"], *SMALL, "--devices=8x")
        self.refuse(["the nodes of four devices have 4 devices", "--devices=16"], *SMALL, "--devices=2x8")
        self.refuse(["--cluster: is missing"], *SMALL[:3])
        self.refuse(["--batch=0: is no whole number of sequences"], *SMALL, "--batch=0")
        self.refuse(["--sequence=64: gpt.textproto is a graph of sequences of 128 tokens"], *SMALL, "--sequence=64")
        self.refuse(["--budget_seconds=0: leaves no time"], *SMALL, "--budget_seconds=0")
        self.refuse(["--: has no words behind it"], *SMALL, "--")
        self.refuse(["is not given to `oneflow fit`", "--fix=schedule=VALUE"], *SMALL, "--schedule=1f1b")


if __name__ == "__main__":
    unittest.main()
