"""Small runs give the bits on record, and those that law 6 promises them; see `tools/bench bits`."""
import json
import os
import struct
import tempfile
import unittest

from benchmarks import bit_oracle, bits
from benchmarks.bit_runs import RUNS, Run

BINARY = os.path.join(bit_oracle.ROOT, "tools/oneflow/oneflow")


class BitsTest(unittest.TestCase):
    def hold(self, flags):
        runs = [run for run in RUNS if run.quick or os.environ.get("ONEFLOW_BITS") == "all"]
        results = bits.run_all(runs, bit_oracle.Oracle(BINARY, flags=flags), jobs=2)
        self.assertEqual([], list(bits.find_problems(runs, results, bits.read_record())))

    def test_record(self):
        self.hold("")

    def test_streams_of_exchanges_change_no_bit(self):
        self.hold("--overlap=true --bucket_bytes=1KiB")

    def test_runs(self):
        names = [run.name for run in RUNS]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(names), bits.read_record().keys())
        self.assertLessEqual({run.same for run in RUNS}, {"", *names})


class OracleTest(unittest.TestCase):
    def test_differences(self):
        runs = [Run("a"), Run("b", same="a"), Run("c"), Run("d", same="c")]
        results = {"a": {"loss": 1.5, "losses": "12"}, "b": {"loss": 1.5, "losses": "34", "tokens": "1 2"},
                   "c": "exit code 2", "d": {"losses": "56"}}
        record = {"a": {"loss": 1.25, "losses": "12"}, "b": results["b"]}
        self.assertEqual([
            "a: differs from the record: loss 1.5, not 1.25",
            "b: differs from a: losses 34, not 12",
            "c: exit code 2",
            "d: differs from the record: it is not there",
        ], list(bits.find_problems(runs, results, record)))
        self.assertEqual(["b: differs from a: losses 34, not 12", "c: exit code 2"],
                         list(bits.find_problems(runs, results, None)))
        # The expected results of a run may be in the record alone.
        self.assertEqual(["b: differs from a: loss 1.5, not 1.25, losses 34, not 12"],
                         list(bits.find_problems(runs[1:2], {"b": results["b"]}, record)))

    def test_layouts_that_are_not_stated(self):
        for run, words in [(Run("x", "--mesh=pipe=2,data=2"), "program train on axis data"),
                           (Run("x", "--mesh=data=2 --eval_every=2", layout="data"), "program eval on axis data"),
                           (Run("x", generate="--mesh=tensor=2"), "program prefill on axis tensor")]:
            with self.subTest(run), tempfile.TemporaryDirectory() as folder:
                with self.assertRaisesRegex(bit_oracle.Refused, "x: its graph does not state the layouts of " + words):
                    bit_oracle.write_graph(run, folder)

    def test_refusals_are_told(self):
        runs = [Run("x", "--recompute=nothing")]
        problems = list(bits.find_problems(runs, bits.run_all(runs, bit_oracle.Oracle(BINARY), jobs=1), None))
        self.assertEqual(1, len(problems))
        self.assertRegex(problems[0], r"(?s)^x: oneflow train .*exit code 2.*error: --recompute=nothing: \"nothing\" is not known")

    def test_weights_do_not_depend_on_how_they_are_cut(self):
        values = struct.pack("<15f", *range(15))
        with tempfile.TemporaryDirectory() as folder:
            def checkpoint(name, cuts):
                step = os.path.join(folder, name, "step-00000003")
                os.makedirs(step)
                slices = []
                for i, (begin, size) in enumerate(cuts):
                    data = b"".join(values[4 * (5 * row + begin[1]):][:4 * size[1]]
                                    for row in range(begin[0], begin[0] + size[0]))
                    with open(os.path.join(step, str(i)), "wb") as out:
                        out.write(b"pad" + data)
                    slices.append({"begin": begin, "size": size, "file": str(i), "offset": 3, "bytes": len(data)})
                with open(os.path.join(step, "manifest.json"), "w", encoding="utf-8") as out:
                    json.dump({"variables": [{"name": "w", "dtype": "f32", "dims": [3, 5], "slices": slices}]}, out)
                return bit_oracle.read_weights(os.path.join(folder, name))

            full = checkpoint("full", [([0, 0], [3, 5])])
            self.assertEqual(full, checkpoint("rows", [([0, 0], [2, 5]), ([2, 0], [1, 5])]))
            self.assertEqual(full, checkpoint("columns", [([0, 3], [3, 2]), ([0, 0], [3, 3])]))
            self.assertNotEqual(full, checkpoint("twice", [([0, 0], [3, 3]), ([0, 2], [3, 2])]))


if __name__ == "__main__":
    unittest.main()
