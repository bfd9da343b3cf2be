"""oneflow simulate: a plan on a virtual clock, and its trace beside the one of `train`."""
import collections
import json
import os
import tempfile
import unittest

from tests.e2e.cli import run

CLUSTERS = os.path.abspath("examples/clusters")


def tracks(trace):
    """By (rank, stream): how often each slice of program train is there."""
    names, slices = {}, collections.Counter()
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["args"]["program"] == "train":
            # Processes of what is predicted are counted from a million on.
            slices[event["pid"] % 1000000, names[event["pid"], event["tid"]], event["name"], event["args"]["step"]] += 1
    return slices


class SimulateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = cls.temporary.name
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--out=gpt.plan", cwd=cls.dir)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def simulate(self, *flags):
        return run("simulate", "--plan=gpt.plan", *flags, cwd=self.dir)[0]

    def test_text_names_what_counts(self):
        text = self.simulate()
        for words in ["a step: ", "bubble", "exposed exchange", "idle", "hidden exchange", "stage 0, 1 device", "stage 1, 1 device", "critical path", "costliest boxing", "no --cluster"]:
            self.assertIn(words, text)

    def test_processes_say_what_crosses(self):
        text = self.simulate("--processes=2")
        for words in ["between 2 processes, a step:", "messages out", "pulls", "stage 1", "process 1"]:
            self.assertIn(words, text)
        self.assertNotIn("between", self.simulate())
        simulated = json.loads(self.simulate("--processes=2", "--format=json"))["crossings"]
        explained = json.loads(run("explain", "--plan=gpt.plan", "--processes=2", "--format=json", cwd=self.dir)[0])["crossings"]
        self.assertEqual(simulated, explained)
        self.assertGreater(explained["all"]["bytes_received"], 0)
        for key in ["messages_sent", "messages_received", "pulls", "bytes_sent", "bytes_received"]:
            for parts in ["by_stage", "by_process"]:
                self.assertEqual(sum(part[key] for part in explained[parts]), explained["all"][key], key)
        self.assertIn("train, between 2 processes", run("explain", "--plan=gpt.plan", "--processes=2", cwd=self.dir)[0])
        for verb in ["explain", "simulate"]:
            error = run(verb, "--plan=gpt.plan", "--processes=3", cwd=self.dir, code=2)[1]
            self.assertIn("cannot be divided evenly", error)

    def test_a_slow_link_between_processes_is_paid_for(self):
        def cluster(bandwidth):
            with open(os.path.join(self.dir, "far.textproto"), "w", encoding="utf-8") as out:
                out.write('level { name: "process" size: 1 bandwidth: 1e10 } '
                          f'level {{ name: "host" size: 2 latency: 1e-5 bandwidth: {bandwidth} }}')
            return "--cluster=far.textproto"
        fast = json.loads(self.simulate(cluster(1e10), "--format=json"))
        slow = json.loads(self.simulate(cluster(1e6), "--format=json"))
        self.assertEqual(fast["crossings"]["processes"], 2)  # of the innermost level
        self.assertGreater(slow["step_seconds"], fast["step_seconds"])
        self.assertEqual(json.loads(self.simulate(cluster(1e6), "--processes=1", "--format=json")).get("crossings"), None)
        with open(os.path.join(self.dir, "one.textproto"), "w", encoding="utf-8") as out:
            out.write('level { name: "process" size: 2 bandwidth: 1e9 }')
        error = run("simulate", "--plan=gpt.plan", "--cluster=one.textproto", "--processes=2", cwd=self.dir, code=2)[1]
        self.assertIn("calibrate --processes=2", error)

    def test_json_adds_up(self):
        for cluster in ["a100", "h100", "h200"]:
            result = json.loads(self.simulate(f"--cluster={CLUSTERS}/{cluster}.textproto", "--format=json", "--steps=3"))
            self.assertEqual(result["devices"], 2)
            self.assertEqual(result["steps"], 3)
            self.assertLess(result["step_seconds"], result["seconds"])
            self.assertTrue(0 < result["bubble"] < 1)
            path = sum(result["critical_path"]["seconds_by_kernel"].values())
            self.assertAlmostEqual(path / result["seconds"], 1, places=9)
            for stage in result["stages"]:
                self.assertLessEqual(stage["peak_register_bytes"], stage["arena_bytes"] - stage["persistent_bytes"])
                compute = next(s for s in stage["streams"] if s["name"] == "compute")
                self.assertEqual(len(compute["blocks"]), 3 * (4 + 4 + 1))
                parts = [stage[f"{part}_seconds"] for part in ("compute", "exposed_exchange", "idle")]
                self.assertTrue(min(parts) > 0 and stage["hidden_exchange_seconds"] > 0)
                self.assertAlmostEqual(sum(parts), result["step_seconds"])
                self.assertAlmostEqual(compute["seconds_a_step"], stage["compute_seconds"])
                ends = [block[4] for block in compute["blocks"]]
                self.assertEqual(ends, sorted(ends))

    def test_faster_devices_take_less_time(self):
        seconds = [json.loads(self.simulate(f"--cluster={CLUSTERS}/{c}.textproto", "--format=json"))["step_seconds"]
                   for c in ["a100", "h100", "h200"]]
        self.assertEqual(seconds, sorted(seconds, reverse=True))

    def test_trace_has_the_form_of_the_real_one(self):
        self.simulate("--steps=2", "--trace=simulated.json")
        with open(self.dir + "/text", "w") as text:
            text.write("some words to learn from. " * 50)
        run("train", "--plan=gpt.plan", "--data=text", "--steps=2", "--trace=real.json", cwd=self.dir)
        with open(self.dir + "/simulated.json") as simulated, open(self.dir + "/real.json") as real:
            simulated, real = json.load(simulated), json.load(real)
        self.assertEqual(tracks(simulated), tracks(real))
        arrows = [sum(e["ph"] == "s" and e["name"] == "fill" for e in t["traceEvents"]) for t in (simulated, real)]
        self.assertEqual(arrows[0], arrows[1])


if __name__ == "__main__":
    unittest.main()
