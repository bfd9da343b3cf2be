"""`tools/bench search`: Kendall's tau and the choice of plans against closed forms, and what is read of the commands' JSON; and
`tools/bench tables`: the rows of a page."""
import json
import unittest
from unittest import mock

from benchmarks import search, search_cpu, search_models, tables
from benchmarks.rank_order import choose_spread, distance_from_best, kendall_tau, pairs_apart, thin

PLAN = {"step_seconds": 2.5, "mfu": 0.4, "bytes_a_device": 7, "flags": "--graph=a b --mesh=data=2 --shard=states"}
FOUND = {"given": "--graph=a b", "gap": 0.01, "estimated_gap": 0.0, "complete": True, "counts": {"families": 3}, "plans": [PLAN],
         "simplest": 0, "cpu_seconds_until_estimate": 1.0, "cpu_seconds_until_plan": 2.0}


class TauTest(unittest.TestCase):
    def test_one_order_and_its_reverse(self):
        self.assertEqual((1.0, 6), kendall_tau([1, 2, 3, 4], [10, 20, 30, 40], 0.05))
        self.assertEqual((-1.0, 6), kendall_tau([1, 2, 3, 4], [40, 30, 20, 10], 0.05))

    def test_one_exchange_of_neighbours(self):
        # Of 4 * 3 / 2 pairs one is in the other order.
        tau, pairs = kendall_tau([1, 2, 3, 4], [1, 3, 2, 4], 0.05)
        self.assertEqual(6, pairs)
        self.assertAlmostEqual(4 / 6, tau)

    def test_equal_measurements_count_nothing(self):
        self.assertEqual((0.0, 1), kendall_tau([1, 2], [5, 5], 0.05))

    def test_pairs_that_are_near_are_left_out(self):
        self.assertEqual([(0, 2), (1, 2)], pairs_apart([1.0, 1.04, 1.2], 0.05))
        self.assertEqual([(0, 1)], pairs_apart([1.0, 1.05], 0.05))
        self.assertEqual((1.0, 2), kendall_tau([1.0, 1.04, 1.2], [2, 1, 3], 0.05))
        with self.assertRaisesRegex(ValueError, "no two of 2"):
            kendall_tau([1.0, 1.01], [1, 2], 0.05)

    def test_distance(self):
        self.assertAlmostEqual(0.25, distance_from_best([5.0, 4.0, 6.0], 0))
        self.assertEqual(0.0, distance_from_best([5.0, 4.0, 6.0], 1))


class SpreadTest(unittest.TestCase):
    def test_thin(self):
        self.assertEqual([0, 2, 4], thin([1.0, 1.01, 1.04, 1.06, 1.1], 0.03))

    def test_evenly_by_logarithms(self):
        self.assertEqual([0, 4, 8], choose_spread([1.1 ** i for i in range(9)], 3, 0.03))
        self.assertEqual([0, 8], choose_spread([1.1 ** i for i in range(9)], 2, 0.03))

    def test_first_and_last_and_as_many_as_wanted(self):
        times = [1.0, 1.05, 1.1, 1.15, 1.2, 50.0]  # most are at one end
        self.assertEqual([0, 3, 4, 5], choose_spread(times, 4, 0.03))
        for count in range(2, 7):
            chosen = choose_spread(times, count, 0.03)
            self.assertEqual(count, len(chosen))
            self.assertEqual([0, 5], [chosen[0], chosen[-1]])
            self.assertEqual(sorted(set(chosen)), chosen)

    def test_nearer_ones_where_there_are_few(self):
        self.assertEqual([0, 1, 2], choose_spread([1.0, 1.01, 1.02], 3, 0.03))
        self.assertEqual([0, 2], choose_spread([1.0, 1.0, 1.02], 3, 0.03))  # not one that takes as long


class ReadTest(unittest.TestCase):
    def test_found(self):
        found = search.read_found(json.dumps(FOUND))
        self.assertEqual("--mesh=data=2 --shard=states", found["flags"])
        self.assertEqual([2.5, 0.4, 0.01, True], [found[name] for name in ("step", "mfu", "gap", "complete")])

    def test_compiled(self):
        text = json.dumps({"headline": {"bytes_a_device": 100, "step_seconds": 1.5, "mfu": 0.3}})
        self.assertTrue(search.read_compiled(text, 100)["fits"])
        self.assertFalse(search.read_compiled(text, 99)["fits"])
        self.assertIsNone(search.read_compiled(json.dumps({"headline": {"bytes_a_device": 1}}), 9)["step"])

    def test_errors(self):
        self.assertEqual("it is too large", search.last_error(2, "1 s: families\noneflow: error: it is too large\n"))
        self.assertEqual("exit code -9: 1 s: families", search.last_error(-9, "0 s: ...\n1 s: families\n"))
        self.assertEqual("exit code 1: no message", search.last_error(1, "\n"))

    def test_ratio_is_of_plans_that_fit(self):
        by_hand = {"fits": True, "step": 3.0}
        self.assertEqual(1.5, search.find_ratio({"found": {"step": 2.0}, "by_hand": by_hand}))
        self.assertIsNone(search.find_ratio({"found": {"step": 2.0}, "by_hand": by_hand | {"fits": False}}))
        self.assertIsNone(search.find_ratio({"found": {"refused": "no"}, "by_hand": by_hand}))
        self.assertIsNone(search.find_ratio({"found": {"step": 2.0}, "by_hand": {"refused": "no"}}))

    def test_failures_of_models(self):
        rows = [{"case": "a", "ratio": 0.99, "found": {}}, {"case": "b", "ratio": 1.0, "found": {}},
                {"case": "c", "ratio": None, "found": {"refused": "no"}}]
        self.assertEqual(["a: by hand it is faster, ratio 0.9900", "c: nothing found"], search.failures_of_models(rows))

    def test_rows_of_all_ends(self):
        found = {"seconds": 1.0, "resident_mib": 10.0, "step": 2.0, "mfu": 0.5, "gap": None, "estimated_gap": 0.05, "complete": False,
                 "flags": "--mesh=data=2", "until_estimate": 1.5, "until_plan": 2.5, "simplest": "--mesh=data=2", "simplest_step": 2.0}
        by_hand = {"flags": "--mesh=data=4", "source": "assumed", "fits": True, "step": 3.0, "mfu": None, "bytes": 9e9}
        lines = search.format_row({"case": "a", "found": found, "by_hand": by_hand, "ratio": 1.5})
        self.assertIn("estimated gap 5.0 %  until 1.5, 2.5 CPU s", lines[1])
        other = search.format_found(found | {"simplest": "--mesh=data=4", "simplest_step": 2.01, "complete": True, "gap": 0.01})
        self.assertIn("gap 1.0 %  complete", other)
        self.assertIn("simplest step 2.010 s  --mesh=data=4", other)
        self.assertIn("ratio 1.500", lines[2])
        self.assertIn("does not fit: 9.0 GB", search.format_by_hand(by_hand | {"fits": False}, None))
        self.assertIn("not simulated", search.format_by_hand(by_hand | {"step": None}, None))
        self.assertIn("refused: no", search.format_by_hand(by_hand | {"refused": "no"}, None))
        self.assertIn("nothing found: no", search.format_found(found | {"refused": "no"}))


class CpuTest(unittest.TestCase):
    def test_plans_of_searches_are_merged(self):
        a, b, c = ({"flags": name, "step_seconds": seconds} for name, seconds in (("a", 2.0), ("b", 3.0), ("c", 1.0)))
        self.assertEqual([("c", 1.0), ("a", 2.0), ("b", 3.0)], search_cpu.merge_plans([[a, b], [c, a]]))
        self.assertEqual(["c"], search_cpu.missed_plans([[a, b], [c, a]]))
        self.assertEqual([], search_cpu.missed_plans([[c, a], [b]]))

    def test_steps_of_warm_up_are_left_out(self):
        lines = [json.dumps({"step": i, "step_seconds": seconds}) for i, seconds in enumerate([9, 8, 1, 2])]
        self.assertEqual([1, 2], search_cpu.step_seconds(lines))

    def test_failures(self):
        good = search_cpu.summarize([1.0, 2.0, 3.0], [1.1, 2.1, 2.9])
        self.assertEqual([], search_cpu.failures_of("m", good))
        bad = search_cpu.summarize([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
        self.assertEqual(2, len(search_cpu.failures_of("m", bad)))
        self.assertEqual(1, len(search_cpu.failures_of("m", good | {"missed": ["--graph=g --mesh=data=2"]})))

    def test_flags_of_all_are_left_out(self):
        self.assertEqual("--mesh=data=2", search_cpu.own_flags("--graph='a b' --batch=8 --cluster=c --mesh=data=2"))


class CasesTest(unittest.TestCase):
    def test_meshes_have_the_devices_and_divide_the_batch(self):
        for case in search_models.CASES:
            with self.subTest(case.name):
                devices = 1
                for axis in case.by_hand.mesh.split(","):
                    devices *= int(axis.split("=")[1])
                self.assertEqual(case.devices, devices)
                self.assertEqual(case.batch, case.by_hand.micro_batches(case.batch) * case.by_hand.batch_parts() * case.by_hand.size)
                self.assertIn(f"{case.devices} ", case.name)
                self.assertIn("-40G" if case.cluster.endswith("-40g") else "-80G", case.name)

    def test_names_are_distinct(self):
        self.assertEqual(len(search_models.CASES), len({case.name for case in search_models.CASES}))

    def test_batch_that_is_not_divided(self):
        with self.assertRaisesRegex(ValueError, "do not divide a batch of 7"):
            search_models.ByHand("data=2,tensor=4", 1, (), "assumed").micro_batches(7)

    def test_layers_of_slices(self):
        layers = search_models.llama_layers(64, 126)
        self.assertEqual([1, *[2] * 62, 1], layers)
        self.assertEqual([1, 2, 2, 2], search_models.llama_layers(4, 7))


class TablesTest(unittest.TestCase):
    def test_rows_are_simulated_with_the_flags_of_their_table(self):
        simulated = {"devices": 8, "step_seconds": 1.5, "mfu": 0.4,
                     "stages": [{"arena_bytes": 2**30, "idle_seconds": 1.0}, {"arena_bytes": 2**31, "idle_seconds": 0.25}]}
        page = ["A text.", "| a | b |", "|---|---|", "| 1 | 2 |", "",
                "| `oneflow model` | `oneflow simulate --shard=states` | GPUs | GiB a GPU | step, s | idle, s | MFU |", "|---|---|---|---|---|---|---|",
                "| `gpt --preset=x` | `--mesh=data=8 --batch=8` | 4 | 1.0 | 9 | 9 | 9 % |", "| | `--batch=16` | 4 | 1.0 | 9 | 9 | 9 % |"]
        with mock.patch.object(tables, "call", return_value=json.dumps(simulated)) as call:
            reader = tables.Tables("oneflow", "/folder", only="")
            lines = [reader.update(line) for line in page]
        self.assertEqual([None] * 5 + page[5:7] + ["| `gpt --preset=x` | `--mesh=data=8 --batch=8` | 8 | 2.0 | 1.50 | 1.00 | 40 % |",
                                                   "| | `--batch=16` | 8 | 2.0 | 1.50 | 1.00 | 40 % |"], lines)
        self.assertEqual([("oneflow", "model", "gpt", "--preset=x", "--out=/folder/model.textproto")] * 2,
                         [one.args for one in call.call_args_list[::2]])
        self.assertEqual(("--shard=states", "--batch=16", "--format=json"), call.call_args.args[-3:])


if __name__ == "__main__":
    unittest.main()
