"""Fits the few `sustained` numbers of a cluster file to the published runs on its kind of device.

The sum of squares of log(simulated / published) over the rows is made least by Gauss-Newton; every evaluation is a simulation of
all rows on a cluster file with other numbers. Weights: each table counts by the square root of its number of models, its models
share that equally, and the rows of a model share what the model has. So 24 rows of two models count as two models do.

Beside the fitted numbers stand their 95 % confidence intervals; the error of each row; its error if the numbers are fitted
without all rows of its model in its table (by the linearised residuals; the rows left out are then simulated with these
numbers); and by how much a number changes at most if any one row is left out. A number keeps within a tenth and ten times its
start, a share (one that is at most 1) at or below 1; one that ends at a bound is named. --write replaces the numbers in the file, and in
its message `compared` the mean and the spread of the errors of rows left out.

Rows are those of --tables that count in the means of `tools/bench published`.
"""
import concurrent.futures
import json
import math
import os
import statistics
import sys
import tempfile

from benchmarks import published
from benchmarks.cluster_text import read_sustained, write_compared, write_sustained
from benchmarks.least_squares import intervals, minimize, refit_without
from benchmarks.published_errors import group_by, summarize
from benchmarks.published_runs import CLUSTERS, Simulator, log_ratio

TARGETS = []


def add_flags(parser):
    parser.add_argument("--device", choices=CLUSTERS, required=True, help="the kind of device whose file is fitted")
    parser.add_argument("--write", action="store_true", help="writes the fitted numbers and the errors into the cluster file")
    published.add_row_flags(parser)


def weigh(rows):
    """The weight of each row, by the rule above; their sum is the number of rows."""
    models = {table: group_by(of_table, lambda row: row.model) for table, of_table in group_by(rows, lambda row: row.table).items()}
    weights = [math.sqrt(len(models[row.table])) / len(models[row.table]) / len(models[row.table][row.model]) for row in rows]
    scale = len(rows) / sum(weights)
    return [w * scale for w in weights]


class Evaluation:
    """Residuals of rows for numbers of a cluster file; those of equal numbers are computed once."""

    def __init__(self, simulator, device, folder, jobs):
        self._simulator, self._device, self._folder, self._known = simulator, device, folder, {}
        self._pool = concurrent.futures.ThreadPoolExecutor(jobs)
        with open(simulator.clusters[device], encoding="utf-8") as file:
            self.text = file.read()
        self.start = read_sustained(self.text)

    def residuals(self, rows, values):
        """log(simulated / published) of each row."""
        key = tuple(f"{value:.9g}" for value in values)
        if key not in self._known:
            path = os.path.join(self._folder, f"numbers-{len(self._known)}.textproto")
            with open(path, "w", encoding="utf-8") as file:
                file.write(write_sustained(self.text, dict(zip(self.start, values))))
            self._known[key] = ({}, self._simulator.on({self._device: path}))
        known, simulator = self._known[key]
        missing = [row for row in rows if id(row) not in known]
        for row, figure in zip(missing, self._pool.map(lambda row: row.simulate(simulator), missing)):
            known[id(row)] = log_ratio(row, figure)
        if missing:
            self._report(values, [known[id(row)] for row in rows])
        return [known[id(row)] for row in rows]

    def _report(self, values, residuals):
        """A line of progress."""
        numbers = " ".join(f"{name}={value:.5g}" for name, value in zip(self.start, values))
        print(f"{numbers}: {len(residuals)} rows, mean error {100 * statistics.mean(map(abs, residuals)):.2f} %", file=sys.stderr)


def find_calibration_rows(args, simulator):
    """The rows of the device that count, and fit its memory."""
    rows = [row for row in published.collect_rows(args) if row.device == args.device and row.counted]
    return [result.row for result in published.simulate_rows(simulator, rows, args.jobs)]


def find_bounds(start):
    return [(value / 10, 1.0 if value <= 1 and value > 0.01 else value * 10) for value in start]


def leave_models_out(rows, values, residuals, jacobian, weights, bounds, evaluation):
    """The error of each row, by numbers that are fitted without its model in its table."""
    found = [0.0] * len(rows)
    for _, left_out in group_by(range(len(rows)), lambda i: (rows[i].table, rows[i].model)).items():
        refitted = refit_without(values, residuals, jacobian, weights, set(left_out), bounds)
        for i, residual in zip(left_out, evaluation.residuals([rows[i] for i in left_out], refitted)):
            found[i] = math.exp(residual) - 1
    return found


def find_largest_change(values, residuals, jacobian, weights, bounds):
    """For each number its largest relative change if one row is left out, and the index of that row."""
    worst = [(0.0, 0)] * len(values)
    for i in range(len(residuals)):
        refitted = refit_without(values, residuals, jacobian, weights, {i}, bounds)
        for a, (new, value) in enumerate(zip(refitted, values)):
            if abs(new / value - 1) > abs(worst[a][0]):
                worst[a] = (new / value - 1, i)
    return worst


def fit(rows, evaluation):
    """All that is printed, as a dictionary."""
    weights = weigh(rows)
    names, start = list(evaluation.start), list(evaluation.start.values())
    bounds = find_bounds(start)
    values, residuals, jacobian = minimize(lambda x: evaluation.residuals(rows, x), start, weights, bounds)
    confidence = intervals(values, residuals, jacobian, weights)
    worst = find_largest_change(values, residuals, jacobian, weights, bounds)
    left_out = leave_models_out(rows, values, residuals, jacobian, weights, bounds, evaluation)
    numbers = [{"name": name, "start": begin, "value": value, "low": low, "high": high, "largest_change": change,
                "by_row": rows[i].name, "at_bound": min(abs(value / bound - 1) for bound in within) < 1e-6}
               for name, begin, value, (low, high), (change, i), within in zip(names, start, values, confidence, worst, bounds)]
    fitted = [{"table": row.table, "model": row.model, "name": row.name, "weight": w, "error": math.exp(r) - 1, "left_out_error": out,
               "derivatives": derivatives}
              for row, w, r, out, derivatives in zip(rows, weights, residuals, left_out, jacobian)]
    return {"numbers": numbers, "rows": fitted, "errors": summarize([f["error"] for f in fitted]),
            "left_out_errors": summarize(left_out)}


def print_text(found, device):
    print(f"numbers of {device}: fitted, 95 % interval, start; largest change if one row is left out")
    for n in found["numbers"]:
        print(f"  {n['name']:20} {n['value']:.5g} ({n['low']:.5g} to {n['high']:.5g}), {n['start']:.5g}; "
              f"{100 * n['largest_change']:+.1f} % without {n['by_row']}"
              + ("; at its bound" if n["at_bound"] else ""))
    print("rows: weight; error, error if its model is left out; change of the time in % for 1 % more of each number")
    for r in found["rows"]:
        derivatives = " ".join(f"{d:+5.2f}" for d in r["derivatives"])
        print(f"  {r['table']:14} {r['name']:34} {r['weight']:5.2f} {100 * r['error']:+6.1f} % {100 * r['left_out_error']:+6.1f} %  "
              f"{derivatives}")
    for what, name in (("errors", "fitted"), ("left_out_errors", "model left out")):
        published.print_summary(name, [r["error" if what == "errors" else "left_out_error"] for r in found["rows"]])


def write(file, evaluation, found, device):
    """Replaces the numbers and the comparison in the cluster file."""
    text = write_sustained(evaluation.text, {n["name"]: n["value"] for n in found["numbers"]})
    errors = found["left_out_errors"]
    text = write_compared(text, errors["runs"], errors["mean_absolute"], errors["sigma"], f"published runs on {device.upper()}s")
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)


def run(args, binaries):
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(binaries, args.keep or folder, dict(args.cluster))
        try:
            evaluation = Evaluation(simulator, args.device, folder, args.jobs)
            found = fit(find_calibration_rows(args, simulator), evaluation)
        except ValueError as error:
            sys.exit(f"tools/bench fit: {simulator.clusters[args.device]}: {error}")
        if args.write:
            write(simulator.clusters[args.device], evaluation, found, args.device)
    print(json.dumps(found)) if args.format == "json" else print_text(found, args.device)
