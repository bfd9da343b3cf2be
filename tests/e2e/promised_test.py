"""`train` says what it expects and what it took; `--predict` writes both into one trace."""
import collections
import json
import os
import re
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

CLUSTER = "--cluster=" + os.path.abspath("examples/clusters/a100.textproto")
CAUSES = ["compute_seconds", "exposed_exchange_seconds", "idle_seconds"]


def read_events(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


class PromisedTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "".join(f"line {i}: the cat sat on mat {i % 7}.\n" for i in range(400)))
        run("model", "gpt", "--layers=4", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=cls.dir)

    def train(self, *flags):
        return run("train", "--plan=gpt.plan", "--data=text.txt", *flags, cwd=self.dir)[0]

    def test_text_says_what_is_expected_and_what_it_took(self):
        text = self.train("--steps=6")
        lines = text.splitlines()
        expected = next(i for i, line in enumerate(lines) if line.startswith("expects: "))
        self.assertIn(" a step, bubble ", lines[expected])
        self.assertIn("by times of the plan's kernels, just measured here", lines[expected])
        self.assertLess(expected, next(i for i, line in enumerate(lines) if line.startswith("step ")))
        table = {line.split()[0]: line for line in lines[expected + 2:]}
        for row in ["time,", "compute", "exposed", "idle", "bubble", "memory"]:
            self.assertIn(row, table)
        promised, took = table["memory"].split()[-4:-2], table["memory"].split()[-2:]
        self.assertEqual(promised, took)

    def test_a_cluster_may_be_given_beside_a_plan(self):
        text = self.train("--steps=2", CLUSTER)
        simulated = json.loads(run("simulate", "--plan=gpt.plan", CLUSTER, "--format=json", cwd=self.dir)[0])
        self.assertIn("simulated on " + simulated["cluster"], text)
        expected = re.search(r"expects: ([0-9.]+) (s|ms|us) a step", text)
        unit = {"s": 1, "ms": 1e-3, "us": 1e-6}[expected[2]]
        self.assertAlmostEqual(float(expected[1]) * unit / simulated["step_seconds"], 1, places=3)
        self.assertIn("outside", simulated["compared"])
        self.assertRegex(text, r" a step \(no run like this \(.* on A100s\) was compared\), bubble ")

    def test_json_and_outcome_have_the_numbers(self):
        os.makedirs(self.dir + "/job", exist_ok=True)
        self.train("--steps=8", "--metrics=metrics.jsonl", "--job_dir=job", "--format=json")
        rows = read_metrics(self.dir + "/metrics.jsonl")
        outcome = json.loads(self.read("job/outcome.json"))
        promised, took = outcome["promised"], outcome["took"]
        self.assertIsNone(promised["compared"])  # on this machine, the run itself compares
        self.assertEqual({row["promised_step_seconds"] for row in rows}, {promised["step_seconds"]})
        self.assertIn(took["step_seconds"], [row["step_seconds"] for row in rows[1:]])
        self.assertEqual(promised["device_bytes"], took["device_bytes"])
        # Parts add up to what they are parts of.
        for part, whole in [(promised, "step_seconds"), (took, "mean_step_seconds")]:
            self.assertAlmostEqual(sum(part[cause] for cause in CAUSES) / part[whole], 1, places=6)
        self.assertIn(took["machine_was_busy"], (True, False))
        for part in (promised, took):
            for cause in CAUSES:
                self.assertGreaterEqual(part[cause], 0)
            self.assertGreater(part["compute_seconds"], 0)
            self.assertTrue(0 <= part["bubble"] < 1, part)

    def test_processes_promise_together(self):
        run("compile", "--graph=gpt.textproto", "--mesh=data=2", "--batch=8", "--out=data.plan", cwd=self.dir)
        text = run("train", "--plan=data.plan", "--data=text.txt", "--steps=4", "--processes=2", cwd=self.dir)[0]
        self.assertEqual(text.count("expects: "), 1)
        self.assertIn("links between processes assumed", text)
        self.assertEqual(text.count("exposed exchange"), 1)

    def test_predicted_and_measured_in_one_trace(self):
        self.train("--steps=4", "--trace=both.json", "--predict")
        events = read_events(self.dir + "/both.json")
        processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(sorted(processes.values()), ["predicted: stage 0", "predicted: stage 1", "stage 0, rank 0", "stage 1, rank 1"])
        marks = {(processes[e["pid"]], e["name"]): e["ts"] for e in events if e["ph"] == "i" and e["cat"] == "step"}
        # The first step warms up; the predicted ones begin with the second.
        measured = min(marks["stage 0, rank 0", "step 1"], marks["stage 1, rank 1", "step 1"])
        self.assertAlmostEqual(marks["predicted: stage 0", "step 1"], measured, delta=0.002)
        self.assertIn(("predicted: stage 1", "step 2"), marks)
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        fired = collections.defaultdict(set)
        for e in events:
            if e["ph"] == "X" and e["args"]["program"] == "train" and e["args"]["step"] == 1:
                fired[processes[e["pid"]].startswith("predicted")].add((names[e["pid"], e["tid"]], e["name"], e["cat"], e["args"]["micro_batch"]))
        self.assertEqual(fired[True], fired[False])

    def test_a_trace_is_whole(self):
        self.train("--steps=3", "--trace=whole.json")
        events = read_events(self.dir + "/whole.json")
        self.assertEqual({e["cat"] for e in events if e["ph"] == "X" and e["args"]["program"] == "train"},
                         {"forward", "backward", "update", "exchange", "host"})
        tracks = collections.defaultdict(list)
        for e in events:
            if e["ph"] == "X":
                tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
        for slices in tracks.values():  # one after the other: none reaches into the next
            slices.sort()
            for (_, end), (begin, _) in zip(slices, slices[1:]):
                self.assertLessEqual(end, begin + 0.002)
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(starts.keys(), ends.keys())
        for i, start in starts.items():
            for arrow in (start, ends[i]):  # each is in a slice of its track
                self.assertTrue(any(begin - 0.002 <= arrow["ts"] <= end + 0.002 for begin, end in tracks[arrow["pid"], arrow["tid"]]), arrow)
        used = collections.defaultdict(list)
        for e in events:
            if e["ph"] == "C":
                used[e["pid"]].append(e["args"]["bytes"])
        explained = json.loads(run("simulate", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        self.assertEqual(used.keys(), {0, 1})
        for rank, values in used.items():
            self.assertGreaterEqual(min(values), 0)
            self.assertLessEqual(max(values), explained["stages"][rank]["arena_bytes"])

    def test_predict_without_a_trace_is_refused(self):
        error = run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=1", "--predict", cwd=self.dir, code=2)[1]
        for words in ["--predict", "--trace=FILE"]:
            self.assertIn(words, error)


if __name__ == "__main__":
    unittest.main()
