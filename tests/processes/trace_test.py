"""`train --trace` of many processes: one file, clocks aligned, arrows across processes."""
import json
import os
import tempfile
import unittest

from tests.e2e.cli import run
from tests.processes.job import make_model


class TraceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        make_model(self.dir, "--layers=4")

    def trace(self, mesh, processes):
        run("compile", "--graph=gpt.textproto", "--batch=16", "--micro_batches=2", f"--mesh={mesh}", "--out=gpt.plan",
            cwd=self.dir)
        _, errors = run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=3", "--trace=trace.json",
                        f"--processes={processes}", cwd=self.dir)
        self.assertRegex(errors, r"the trace's clocks agree with process 0's to within \d+\.\d microseconds")
        self.assertEqual([name for name in os.listdir(self.dir) if "trace" in name], ["trace.json"])
        with open(self.dir + "/trace.json") as file:
            return json.load(file)

    def test_one_file(self):
        for mesh, processes, ranks in [("pipe=2", 2, 2), ("data=2,tensor=2", 2, 4)]:
            with self.subTest(mesh):
                trace = self.trace(mesh, processes)
                events = trace["traceEvents"]
                self.assertEqual({event["pid"] for event in events if event["ph"] == "X"}, set(range(ranks)))
                self.assertEqual(trace["otherData"]["processes"], str(processes))
                error = float(trace["otherData"]["clock_error_us"])
                self.assertGreater(error, 0)

                def process(event):
                    return event["pid"] // (ranks // processes)

                starts = {event["id"]: event for event in events if event["ph"] == "s"}
                ends = {event["id"]: event for event in events if event["ph"] == "f"}
                self.assertEqual(starts.keys(), ends.keys())
                across = [(starts[i], ends[i]) for i in starts if process(starts[i]) != process(ends[i])]
                self.assertTrue(across)
                for start, end in across:
                    self.assertEqual(start["cat"], "exchange")
                    self.assertLessEqual(start["ts"], end["ts"])
                if mesh == "pipe=2":  # who sends is fixed; who enters a collective last is not
                    self.assertEqual({(process(start), process(end)) for start, end in across}, {(0, 1), (1, 0)})
                # An exchange that one process entered last is over later elsewhere, up to the error of the clocks.
                slices = [event for event in events if event["ph"] == "X"]
                for start, end in across:
                    over = max(slice["ts"] + slice["dur"] for slice in slices if slice["tid"] == end["tid"]
                               and slice["ts"] <= end["ts"])
                    self.assertLessEqual(start["ts"], over + 2 * error)


if __name__ == "__main__":
    unittest.main()
