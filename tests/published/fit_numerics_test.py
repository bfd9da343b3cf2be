"""Numerics of `tools/bench fit` against closed forms: least squares, intervals, rows left out, cluster files, orders of pairs."""
import collections
import math
import types
import unittest

from benchmarks import cluster_text, least_squares, systems
from benchmarks.published_errors import flat_errors, misordered, misranked, summarize

# Work of rows in three resources; a row takes the sum of work / rate, with the rates as the numbers to find.
WORK = [(5, 1, 2), (1, 4, 1), (2, 2, 6), (8, 1, 1), (1, 1, 1), (3, 5, 2)]
RATES = [0.8, 0.6, 2.5]
CLUSTER = """name: "x"  # a comment
device {
  kind: CUDA
  sustained { products: 0.9 memory: 0.8 launch_seconds: 5e-6 }  # fitted
}
level { bandwidth: 1e9 }
"""

Row = collections.namedtuple("Row", "table device unit name published at_peak model question", defaults=("m", ""))
Row.ratio = lambda row, figure: figure / row.published


def row_seconds(rates):
    return [sum(w / r for w, r in zip(work, rates)) for work in WORK]


def fit_rates(noise, weights=None, start=(1.0, 1.0, 1.0)):
    published = [t * math.exp(e) for t, e in zip(row_seconds(RATES), noise)]
    weights = weights or [1.0] * len(WORK)
    return least_squares.minimize(lambda x: [math.log(s / p) for s, p in zip(row_seconds(x), published)], start, weights)


class LeastSquaresTest(unittest.TestCase):
    def test_finds_numbers_that_fit_exactly(self):
        values, residuals, _ = fit_rates([0.0] * 6)
        for value, rate in zip(values, RATES):
            self.assertAlmostEqual(value / rate, 1, delta=1e-3)
        self.assertLess(max(map(abs, residuals)), 1e-3)

    def test_squares_are_least(self):
        values, residuals, _ = fit_rates([0.1, -0.05, 0.02, 0, -0.1, 0.03])
        least = least_squares.sum_squares(residuals, [1] * 6)
        published = [s / math.exp(r) for s, r in zip(row_seconds(values), residuals)]
        for a in range(3):
            for factor in (0.99, 1.01):
                moved = [v * (factor if a == b else 1) for b, v in enumerate(values)]
                there = [math.log(s / p) for s, p in zip(row_seconds(moved), published)]
                self.assertGreater(least_squares.sum_squares(there, [1] * 6), least)

    def test_a_row_without_weight_changes_nothing(self):
        values, _, _ = fit_rates([0.5, 0, 0, 0, 0, 0], weights=[0.0, 1, 1, 1, 1, 1])
        for value, rate in zip(values, RATES):
            self.assertAlmostEqual(value / rate, 1, delta=1e-3)

    def test_interval_of_one_number_is_that_of_a_mean(self):
        # Residuals log x - log y_i: the fit is the geometric mean, its interval that of the mean of the logarithms.
        logs = [0.1, 0.3, 0.2, 0.6, 0.3]
        values, residuals, jacobian = least_squares.minimize(lambda x: [math.log(x[0]) - y for y in logs], [1.0], [2.0] * 5)
        self.assertAlmostEqual(math.log(values[0]), 0.3, delta=1e-4)
        (low, high), = least_squares.intervals(values, residuals, jacobian, [2.0] * 5)
        half = 2.776 * math.sqrt(sum((y - 0.3) ** 2 for y in logs) / 4 / 5)
        self.assertAlmostEqual(math.log(high / values[0]), half, delta=1e-6)
        self.assertAlmostEqual(math.log(values[0] / low), half, delta=1e-6)

    def test_refit_without_a_row_is_the_mean_of_the_others(self):
        logs = [0.1, 0.3, 0.2, 0.6, 0.3]
        values, residuals, jacobian = least_squares.minimize(lambda x: [math.log(x[0]) - y for y in logs], [1.0], [1.0] * 5)
        refitted = least_squares.refit_without(values, residuals, jacobian, [1.0] * 5, {3})
        self.assertAlmostEqual(math.log(refitted[0]), 0.225, delta=1e-4)

    def test_numbers_that_cannot_be_told_apart_are_refused(self):
        with self.assertRaisesRegex(ValueError, "in the same way"):
            least_squares.minimize(lambda x: [math.log(x[0] * x[1]) - y for y in (0.1, 0.2, 0.3)], [1.0, 1.0], [1.0] * 3)

    def test_bounds_hold_and_the_others_fit(self):
        # log a + log b_i log b - y_i: alone, the least squares want a = e; a is held at 2, and b fits what is left.
        slopes, wanted = (-1, 0, 1, 2), (1.0, 1.0, 1.0, 1.0)
        function = lambda x: [math.log(x[0]) + k * math.log(x[1]) - y for k, y in zip(slopes, wanted)]
        values, _, _ = least_squares.minimize(function, [1.5, 1.0], [1.0] * 4, [(1.0, 2.0), (0.1, 10.0)])
        self.assertAlmostEqual(2.0, values[0], delta=1e-9)
        self.assertAlmostEqual(sum(k * (1 - math.log(2)) for k in slopes) / 6, math.log(values[1]), delta=1e-4)
        free, _, _ = least_squares.minimize(function, [1.5, 1.0], [1.0] * 4, [(1.0, 4.0), (0.1, 10.0)])
        self.assertAlmostEqual(math.e, free[0], delta=1e-3)

    def test_solve_takes_pivots(self):
        self.assertEqual([2.0, 1.0], least_squares.solve([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0]))

    def test_student(self):
        self.assertEqual(2.228, least_squares.student_95(11))
        self.assertEqual(math.inf, least_squares.student_95(0))


class ClusterTextTest(unittest.TestCase):
    def test_numbers(self):
        names = ["memory", "launch_seconds"]
        self.assertEqual({"memory": 0.8, "launch_seconds": 5e-6}, cluster_text.read_sustained(CLUSTER, names))
        self.assertEqual(["products", *names], list(cluster_text.read_sustained(CLUSTER)))
        text = cluster_text.write_sustained(CLUSTER, {"memory": 0.71234567, "launch_seconds": 1.5e-6})
        self.assertIn("sustained { products: 0.9 memory: 0.712346 launch_seconds: 1.5e-06 }  # fitted", text)
        self.assertEqual({"memory": 0.712346, "launch_seconds": 1.5e-6}, cluster_text.read_sustained(text, names))

    def test_missing_numbers(self):
        for text, message in [(CLUSTER, "no number waves"), ("device { }", "no message `sustained`")]:
            with self.assertRaisesRegex(ValueError, message):
                cluster_text.read_sustained(text, ["waves"])

    def test_systems_replace_those_of_the_file(self):
        region = {"experts": True, "runs": 3, "models": 2, "sigma": 0.05, "sequence": (1024, 8192), "parameters": (1e8, 7e10),
                  "devices": (8, 64), "device_tokens": (2048, 4096)}
        found = [{"name": "one", "what": "System one", "slowdown": 1.0, "regions": [region]},
                 {"name": "two", "what": "System two", "slowdown": 1.25, "regions": []}]
        once = cluster_text.write_between(cluster_text.write_systems(CLUSTER, found), 0.1, 3, "Xs")
        self.assertTrue(once.startswith(CLUSTER))
        self.assertEqual({"one": 1.0, "two": 1.25}, cluster_text.read_slowdowns(once))
        self.assertIn("experts: true", once)
        self.assertIn("sequence { least: 1024 most: 8192 }", once)
        self.assertIn("parameters { least: 1e+08 most: 7e+10 }", once)
        self.assertTrue(once.endswith('between_systems { sigma: 0.1 freedom: 3 what: "Xs" }\n'))
        moved = cluster_text.write_slowdowns(once, {"two": 1.5, "three": 9.0})
        self.assertEqual({"one": 1.0, "two": 1.5}, cluster_text.read_slowdowns(moved))
        twice = cluster_text.write_between(cluster_text.write_systems(once, found[:1]), 0.2, 4, "Xs")
        self.assertEqual({"one": 1.0}, cluster_text.read_slowdowns(twice))
        self.assertEqual(1, twice.count("between_systems"))


class SystemsTest(unittest.TestCase):
    def test_few_runs_have_the_spread_of_all(self):
        figures = {"experts": False, "sequence": 2048, "parameters": 1e9, "devices": 8, "device_tokens": 4096}
        row = lambda table, model, system, **other: types.SimpleNamespace(
            table=table, model=model, system=types.SimpleNamespace(of=system), figures={**figures, **other})
        rows = [row("t", "a", "megatron"), row("t", "b", "megatron", sequence=4096), row("t", "b", "megatron", sequence=32768),
                row("u", "a", "mpt", experts=True, devices=512)]
        errors = [0.02, -0.04, 0.1, 0.0]
        megatron, mpt = systems.find_systems(rows, errors, {"mpt": 1.1})
        self.assertEqual(("megatron", 1.0, "mpt", 1.1), (megatron["name"], megatron["slowdown"], mpt["name"], mpt["slowdown"]))
        typical = 0.1**2  # of few models
        short, long = megatron["regions"]
        self.assertEqual((2, 2, False), (short["runs"], short["models"], short["experts"]))
        self.assertAlmostEqual(math.sqrt((0.02**2 + 0.04**2 + 4 * typical) / 6), short["sigma"])
        self.assertAlmostEqual(math.sqrt((0.1**2 + 4 * typical) / 5), long["sigma"])
        self.assertEqual((2048 / 1.5, 4096 * 1.5), short["sequence"])
        self.assertEqual((32768 / 1.5, 32768 * 1.5), long["sequence"])
        region, = mpt["regions"]
        self.assertEqual((True, 128, 2048), (region["experts"], *region["devices"]))
        self.assertAlmostEqual(math.sqrt(4 * typical / 5), region["sigma"])  # not 0

    def test_between_systems(self):
        sigma, freedom = systems.find_between([{"a": 1.0, "b": 1.1, "c": 0.9}, {"a": 2.0, "b": 2.4}, {"a": 1.0}])
        self.assertEqual(4, freedom)  # b is one system on two kinds of devices; and the two of the prior
        self.assertAlmostEqual(math.sqrt(((math.log(1.1) + math.log(1.2))**2 / 4 + math.log(0.9)**2 + 2 * 0.1**2) / 4), sigma)

    def test_many_models_have_the_errors_of_all(self):
        figures = {"experts": False, "sequence": 2048, "parameters": 1e9, "devices": 8, "device_tokens": 4096}
        rows = [types.SimpleNamespace(table="t", model=m, system=types.SimpleNamespace(of="mpt"), figures=figures) for m in "abc"]
        (system,) = systems.find_systems(rows, [0.02, 0.04, -0.06], {})
        self.assertAlmostEqual(math.sqrt((0.02**2 + 0.04**2 + 0.06**2 + 4 * 0.06**2) / 7), system["regions"][0]["sigma"])


class ErrorsTest(unittest.TestCase):
    def test_summary(self):
        found = summarize([0.1, -0.2, 0.4])
        self.assertEqual(3, found["runs"])
        self.assertAlmostEqual(0.7 / 3, found["mean_absolute"])
        self.assertAlmostEqual(0.1, found["mean"])
        self.assertAlmostEqual(0.3, found["sigma"])

    def test_share_of_the_peak(self):
        rows = [Row("t", "d", "s", "a", 2.0, 1.0), Row("t", "d", "s", "b", 8.0, 1.0)]
        share, errors = flat_errors(rows)
        self.assertAlmostEqual(0.25, share)
        self.assertAlmostEqual(1.0, errors[0])
        self.assertAlmostEqual(-0.5, errors[1])

    def test_pairs(self):
        fast, slow, near = (Row("t", "d", "s", name, at, 1.0) for name, at in (("fast", 2.0), ("slow", 4.0), ("near", 4.2)))
        other = Row("u", "d", "s", "of another table", 100.0, 1.0)
        wrong, compared = misranked([(fast, 3.0), (slow, 2.5), (near, 9.0), (other, 0.1)])
        self.assertEqual(2, compared)  # slow and near are too close
        self.assertEqual([(slow, fast)], wrong)
        self.assertEqual([], misranked([(fast, 1.9), (slow, 2.5)])[0])

    def test_pairs_of_plans_of_one_question(self):
        a, b, c = (Row("t", "d", "s", name, published, 1.0, question="q") for name, published in (("a", 10.0), ("b", 11.0), ("c", 10.0)))
        other, alone = Row("t", "d", "s", "other", 1.0, 1.0, question="r"), Row("t", "d", "s", "alone", 1.0, 1.0)
        wrong, compared = misordered([(a, 12.6), (b, 12.0), (c, 12.6), (other, 99.0), (alone, 99.0)])
        self.assertEqual(3, compared)
        self.assertEqual([(b, a), (b, c)], [pair[:2] for pair in wrong])
        self.assertAlmostEqual(0.05, wrong[0][2])
        self.assertAlmostEqual(1 / 11, wrong[0][3])
        self.assertEqual([], misordered([(a, 12.0), (b, 12.6), (c, 12.0)])[0])


if __name__ == "__main__":
    unittest.main()
