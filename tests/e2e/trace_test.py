"""--trace=FILE in Perfetto's format: read by its own field numbers, it has all that the JSON of the same run has."""
import collections
import json
import os
import unittest

from tests.e2e.cli import TwoStagesCase, run
from tests.e2e.perfetto import Slice, Trace, read_perfetto


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def read_json(path):
    """The same of a Chrome trace. A flow joins the slices of its tracks in which its moments are."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    devices, tracks, slices, at = {}, {}, [], collections.defaultdict(list)
    trace = Trace(data["otherData"], slices, [], [], [])
    starts = {}
    kinds = collections.defaultdict(list)
    for event in data["traceEvents"]:
        kinds[event["ph"]].append(event)
        if event["name"] == "process_name":
            devices[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            tracks[event["pid"], event["tid"]] = event["args"]["name"]
    for e in kinds["X"]:
        begin, where = nanoseconds(e["ts"]), (e["pid"], e["tid"])
        at[where].append(len(slices))
        slices.append(Slice(devices[e["pid"]], tracks[where], e["cat"], e["name"], begin, begin + nanoseconds(e["dur"]), e["args"]))

    def find(e):
        return next((i for i in at[e["pid"], e["tid"]]
                     if slices[i].begin <= nanoseconds(e["ts"]) <= max(slices[i].begin, slices[i].end - 1)), None)

    for e in kinds["s"]:
        starts[e["id"]] = find(e)
    trace.flows.extend((starts[e["id"]], find(e)) for e in kinds["f"])
    trace.counters.extend((devices[e["pid"]], e["name"], nanoseconds(e["ts"]), e["args"]["bytes"]) for e in kinds["C"])
    trace.marks.extend((devices[e["pid"]], e["cat"], e["name"], nanoseconds(e["ts"])) for e in kinds["i"])
    return trace


def named_flows(trace):
    def key(index):
        s = trace.slices[index]
        return s.device, s.track, s.name, s.begin
    return sorted((key(source), key(target)) for source, target in trace.flows)


class TraceTest(TwoStagesCase):
    def both(self, *flags):
        for name in ["t.json", "t.pftrace"]:
            self.simulate(*flags, f"--trace={name}")
        return read_json(self.dir + "/t.json"), read_perfetto(self.dir + "/t.pftrace")

    def compare(self, chrome, perfetto):
        self.assertGreater(len(chrome.slices), 100)
        self.assertEqual(chrome.facts, perfetto.facts)
        self.assertEqual(sorted(chrome.slices, key=str), sorted(perfetto.slices, key=str))
        self.assertTrue(chrome.flows)
        self.assertEqual(named_flows(chrome), named_flows(perfetto))
        self.assertTrue(chrome.counters)
        self.assertEqual(sorted(chrome.counters), sorted(perfetto.counters))
        self.assertEqual(sorted(chrome.marks), sorted(perfetto.marks))

    def test_has_all_that_the_json_has(self):
        self.compare(*self.both("--steps=2"))

    def test_devices_that_are_alike_share_a_track(self):
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,data=2,tensor=2", "--batch=128", "--micro_batches=32",
            "--out=alike.plan", cwd=self.dir)
        chrome, perfetto = self.both("--plan=alike.plan", "--steps=2", "--cluster=h100")
        self.compare(chrome, perfetto)
        self.assertEqual({s.device for s in perfetto.slices}, {f"predicted: stage {stage}, ranks {ranks} alike (4 devices)"
                                                               for stage, ranks in [(0, "0..3"), (1, "4..7")]})
        sizes = [os.path.getsize(f"{self.dir}/{name}") for name in ["t.pftrace", "t.json"]]
        self.assertLess(sizes[0] * 20, sizes[1])

    def test_measured_devices_are_apart(self):
        self.write("text", "some words to learn from. " * 50)
        run("train", "--plan=gpt.plan", "--data=text", "--steps=3", "--trace=real.pftrace", "--predict", cwd=self.dir)
        trace = read_perfetto(self.dir + "/real.pftrace")
        fired = collections.defaultdict(collections.Counter)
        for s in trace.slices:
            if s.arguments["program"] == "train" and s.arguments["step"] == 1:
                fired[s.device][s.track, s.category, s.name, s.arguments["micro_batch"]] += 1
        for stage in 0, 1:
            self.assertTrue(fired[f"stage {stage}, rank {stage}"])
            self.assertEqual(fired[f"stage {stage}, rank {stage}"], fired[f"predicted: stage {stage}"])
        for source, target in trace.flows:
            self.assertLessEqual(trace.slices[source].begin, trace.slices[target].end)
        self.assertEqual({device for device, *_ in trace.counters}, fired.keys())
        self.assertIn(("stage 0, rank 0", "step", "step 1"), {mark[:3] for mark in trace.marks})


if __name__ == "__main__":
    unittest.main()
