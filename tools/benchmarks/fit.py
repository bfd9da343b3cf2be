"""Fits the few numbers of a cluster file that are not measured to the published runs on its kind of device.

These are `sustained`, and the `slowdown` of each system but the one of the most models, to which the others are compared. The
sum of squares of log(simulated / published) over the rows is made least by Gauss-Newton; every evaluation is a simulation of
all rows on a cluster file with other numbers. Weights: each table counts by the square root of its number of models, its models
share that equally, and the rows of a model share what the model has. So 24 rows of two models count as two models do.

Beside the fitted numbers stand their 95 % confidence intervals; the error of each row; its error if the numbers are fitted
without all rows of its model in its table (by the linearised residuals; the rows left out are then simulated with these
numbers); and by how much a number changes at most if any one row is left out. A number keeps within a tenth and ten times its
start, one of `sustained` at or below 1; one that ends at a bound is named.

--write replaces the numbers in the file, its systems and how far they are from each other (the band beside predicted times,
docs/simulate.md). The runs of a system fall into regions: dense models of up to 8,192 tokens a sequence, of more, and mixtures. A
region reaches beyond the least and the most of each figure of its runs by the factors of WIDER (systems.py). Its sigma is the root
mean square of the errors of its runs, model left out, and of four runs more of 6 %, or of 10 % where the runs are of fewer than
three models: so few runs that agree by chance do not promise more than others.

--across leaves out each system in turn, refits, and simulates its runs as those of a system that nobody knows: how many are within
one and two times the band that then stands beside them.

Rows are those of --tables that count in the means of `tools/bench published`.
"""
import concurrent.futures
import dataclasses
import json
import math
import os
import statistics
import sys
import tempfile

from benchmarks import published
from benchmarks.cluster_text import read_slowdowns, read_sustained, write_between, write_slowdowns, write_sustained, write_systems
from benchmarks.least_squares import intervals, minimize, refit_without
from benchmarks.published_errors import group_by, summarize
from benchmarks.published_runs import CLUSTERS, Simulator, log_ratio
from benchmarks.systems import SYSTEMS, find_between, find_systems, order_systems

# Kinds of devices that share a file's fitted numbers: the same chip.
KINDS = {"a100": ["a100"], "h100": ["h100", "h100-96g"], "b200": ["b200"]}
MEASURED = {"b200"}  # devices whose `sustained` is not fitted
TARGETS = []


def add_flags(parser):
    parser.add_argument("--device", choices=KINDS, required=True, help="the kind of device whose file is fitted")
    parser.add_argument("--write", action="store_true", help="writes the fitted numbers and the systems into the cluster file")
    parser.add_argument("--across", action="store_true", help="leaves out one system after the other")
    published.add_row_flags(parser)


def weigh(rows):
    """The weight of each row, by the rule above; their sum is the number of rows."""
    models = {table: group_by(of_table, lambda row: row.model) for table, of_table in group_by(rows, lambda row: row.table).items()}
    weights = [math.sqrt(len(models[row.table])) / len(models[row.table]) / len(models[row.table][row.model]) for row in rows]
    scale = len(rows) / sum(weights)
    return [w * scale for w in weights]


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The fitted numbers: of `sustained`, and the slowdowns of systems."""
    sustained: tuple
    systems: list

    @property
    def names(self):
        return [*self.sustained, *(f"slowdown of {system}" for system in self.systems)]

    def read(self, text):
        """Their values in a file's text."""
        sustained, slowdowns = read_sustained(text), read_slowdowns(text)
        return [sustained[name] for name in self.sustained] + [slowdowns[system] for system in self.systems]

    def split(self, values):
        """What `sustained` has, and the slowdowns of the systems."""
        n = len(self.sustained)
        return dict(zip(self.sustained, values)), dict(zip(self.systems, values[n:]))

    def write(self, text, values):
        """The text with these values."""
        sustained, slowdowns = self.split(values)
        return write_slowdowns(write_sustained(text, sustained), slowdowns)


class Evaluation:
    """Residuals of rows for numbers of a device's cluster files; those of equal numbers are computed once."""

    def __init__(self, simulator, texts, numbers, folder, jobs):
        self._simulator, self.texts, self.numbers, self._folder, self._jobs = simulator, texts, numbers, folder, jobs
        self._known, self._simulators = {}, {}
        self._pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def on(self, texts, numbers):
        """The same with other texts and numbers."""
        return Evaluation(self._simulator, texts, numbers, self._folder, self._jobs)

    def simulator(self, values, system):
        """Of the files with these values, for rows of this system."""
        key = tuple(f"{value:.9g}" for value in values)
        if key not in self._simulators:
            files = {}
            for kind, text in self.texts.items():
                files[kind] = os.path.join(self._folder, f"{kind}-{id(self)}-{len(self._simulators)}.textproto")
                with open(files[kind], "w", encoding="utf-8") as file:
                    file.write(self.numbers.write(text, values))
            self._simulators[key] = self._simulator.on(files)
        return self._simulators[key].of(system)

    def residuals(self, rows, values):
        """log(simulated / published) of each row."""
        sustained, slowdowns = self.numbers.split(values)
        # A row depends on what its system leaves of the numbers, and on nothing else.
        keys = [(id(row), *(f"{value / slowdowns.get(row.system.of, 1):.9g}" for value in sustained.values())) for row in rows]
        missing = {key: row for key, row in zip(keys, rows) if key not in self._known}
        self.simulator(values, "")  # writes the files before rows read them
        simulate = lambda row: row.simulate(self.simulator(values, row.system.of))
        for (key, row), figure in zip(missing.items(), self._pool.map(simulate, missing.values())):
            self._known[key] = log_ratio(row, figure)
        if missing:
            self._report(values, [self._known[key] for key in keys])
        return [self._known[key] for key in keys]

    def _report(self, values, residuals):
        """A line of progress."""
        numbers = " ".join(f"{name}={value:.5g}" for name, value in zip(self.numbers.names, values))
        print(f"{numbers}: {len(residuals)} rows, mean error {100 * statistics.mean(map(abs, residuals)):.2f} %", file=sys.stderr)


def find_calibration_rows(args, simulator):
    """The rows of the device that count, and fit its memory."""
    rows = [row for row in published.collect_rows(args) if row.device in KINDS[args.device] and row.counted]
    return [result.row for result in published.simulate_rows(simulator, rows, args.jobs)]


def find_bounds(numbers, start):
    return [(value / 10, value * 10 if name.startswith("slowdown") else 1.0) for name, value in zip(numbers.names, start)]


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
    names, start = evaluation.numbers.names, evaluation.numbers.read(next(iter(evaluation.texts.values())))
    bounds = find_bounds(evaluation.numbers, start)
    if names:
        values, residuals, jacobian = minimize(lambda x: evaluation.residuals(rows, x), start, weights, bounds)
    else:
        values, residuals, jacobian = [], evaluation.residuals(rows, []), [[] for _ in rows]
    confidence = intervals(values, residuals, jacobian, weights)
    worst = find_largest_change(values, residuals, jacobian, weights, bounds)
    left_out = leave_models_out(rows, values, residuals, jacobian, weights, bounds, evaluation)
    numbers = [{"name": name, "start": begin, "value": value, "low": low, "high": high, "largest_change": change,
                "by_row": rows[i].name, "at_bound": min(abs(value / bound - 1) for bound in within) < 1e-6}
               for name, begin, value, (low, high), (change, i), within in zip(names, start, values, confidence, worst, bounds)]
    fitted = [{"table": row.table, "model": row.model, "name": row.name, "weight": w, "error": math.exp(r) - 1, "left_out_error": out,
               "derivatives": derivatives}
              for row, w, r, out, derivatives in zip(rows, weights, residuals, left_out, jacobian)]
    return {"values": values, "numbers": numbers, "rows": fitted, "errors": summarize([f["error"] for f in fitted]),
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


def read_files(clusters):
    """The slowdowns of the file of each device."""
    found = {}
    for device, kinds in KINDS.items():
        with open(clusters[kinds[0]], encoding="utf-8") as file:
            found[device] = read_slowdowns(file.read())
    return found


def write_files(clusters, texts, device):
    """Writes the files of a device, and into all files that have systems how far these are from each other."""
    for kind in KINDS[device]:
        with open(clusters[kind], "w", encoding="utf-8") as out:
            out.write(texts[kind])
    sigma, freedom = find_between(filter(None, read_files(clusters).values()))
    for name, kinds in KINDS.items():
        for kind in kinds:
            with open(clusters[kind], encoding="utf-8") as file:
                text = file.read()
            if read_slowdowns(text):
                with open(clusters[kind], "w", encoding="utf-8") as out:
                    out.write(write_between(text, sigma, freedom, name.upper() + "s"))


def leave_system_out(system, rows, found, systems, evaluation, clusters, device):
    """Of each run of a system, refitted without its rows: log(simulated / published) and the sigma of a system that nobody knows; no
    sigma where no run of another system is like it."""
    order = order_systems(rows)
    others = [name for name in order if name != system]
    sustained, slowdowns = evaluation.numbers.split(found["values"])
    slowdowns = {order[0]: 1.0, **slowdowns}
    first = slowdowns[others[0]]
    # The same prediction of all other rows, with the first of the others as the one to which they are compared.
    numbers = Numbers(evaluation.numbers.sustained, others[1:])
    start = [value / first for value in sustained.values()] + [slowdowns[name] / first for name in others[1:]]
    columns = [evaluation.numbers.names.index(name) for name in numbers.names]
    kept = [i for i, row in enumerate(rows) if row.system.of != system]
    residuals = [math.log1p(found["rows"][i]["error"]) for i in kept]
    jacobian = [[found["rows"][i]["derivatives"][c] for c in columns] for i in kept]
    values = refit_without(start, residuals, jacobian, weigh([rows[i] for i in kept]), set(), find_bounds(numbers, start))
    known = read_files(clusters)
    known[device] = {name: slowdowns[name] for name in order}
    remaining = [{name: value for name, value in of.items() if name != system} for of in known.values()]
    sigma, freedom = find_between(filter(None, remaining))
    texts = {kind: write_between(write_systems(text, [s for s in systems if s["name"] != system]), sigma, freedom, "these devices")
             for kind, text in evaluation.texts.items()}
    alone = evaluation.on(texts, numbers)
    tested = [row for row in rows if row.system.of == system and row.band]
    errors = alone.residuals(tested, values)
    return [(row, error, row.band(alone.simulator(values, "")).get("sigma")) for row, error in zip(tested, errors)]


def print_across(results):
    print("a system left out, as one that nobody knows: error, band")
    for row, error, sigma in results:
        band = "no run of another system is like it" if sigma is None else f"{100 * sigma:.1f} %"
        print(f"  {row.system.of:12} {row.table:14} {row.name:40} {100 * math.expm1(error):+6.1f} %  {band}")
    known = [(abs(error), sigma) for _, error, sigma in results if sigma is not None]
    within = [sum(error <= times * sigma for error, sigma in known) / len(known) for times in (1, 2)]
    rms = math.sqrt(statistics.mean(error * error for error, _ in known))
    print(f"  {len(known)} rows: {100 * within[0]:.0f} % within the band, {100 * within[1]:.0f} % within twice; its mean width is "
          f"{statistics.mean(sigma for _, sigma in known) / rms:.2f} of the root mean square error")


def run(args, binaries):
    across = []
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(binaries, args.keep or folder, dict(args.cluster))
        try:
            rows = find_calibration_rows(args, simulator)
            texts = {}
            for kind in KINDS[args.device]:
                with open(simulator.clusters[kind], encoding="utf-8") as file:
                    texts[kind] = file.read()
            order = order_systems(rows)
            known = read_slowdowns(texts[args.device])
            start = find_systems(rows, [1.0] * len(rows), known)
            texts = {kind: write_between(write_systems(text, start), 1, 1, args.device) for kind, text in texts.items()}
            numbers = Numbers(() if args.device in MEASURED else tuple(read_sustained(texts[args.device])), order[1:])
            evaluation = Evaluation(simulator, texts, numbers, folder, args.jobs)
            found = fit(rows, evaluation)
            _, slowdowns = numbers.split(found["values"])
            systems = find_systems(rows, [math.log1p(r["left_out_error"]) for r in found["rows"]], slowdowns)
            if args.across:
                for system in order if len(order) > 1 else ():
                    across += leave_system_out(system, rows, found, systems, evaluation, simulator.clusters, args.device)
        except ValueError as error:
            sys.exit(f"tools/bench fit: {simulator.clusters[args.device]}: {error}")
        if args.write:
            texts = {kind: write_systems(numbers.write(text, found["values"]), systems) for kind, text in texts.items()}
            write_files(simulator.clusters, texts, args.device)
    print(json.dumps(found)) if args.format == "json" else print_text(found, args.device)
    if across and args.format == "text":
        print_across(across)
