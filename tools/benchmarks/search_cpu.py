"""Plans that `oneflow search` finds for this machine, trained: whether they are as fast, in relation to each other, as it says."""
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.rank_order import choose_spread, distance_from_best, kendall_tau

DEVICES, TOP = 2, 40
CANDIDATES = 12    # plans of a model that are trained
APART = 0.05       # of two predictions that must be in the measured order
LEAST_TAU, MOST_DISTANCE = 0.7, 0.05
BETWEEN = 0.03     # of two plans that are trained, at least, where there are enough
WARM_UP = 2        # steps that are not counted
QUIET = 0.1        # cores that other processes may have meanwhile
NOISE_BYTES = 1 << 20
BATCH = 8
MODELS = {
    "GPT, 9M parameters": ("gpt", "--layers=4", "--heads=6", "--hidden=384", "--sequence=256", "--vocab=4096"),
    "Llama, 9M parameters": ("llama", "--layers=4", "--heads=6", "--groups=3", "--head_dim=64", "--hidden=384", "--inner=1024",
                             "--sequence=256", "--vocab=4096"),
}
# What is searched: everything; and parts of the space, whose plans are slower.
PARTS = ["", *(mesh + more for mesh in ("data=2", "tensor=2", "pipe=2") for more in ("", ",recompute=selective", ",recompute=full"))]


def add_flags(parser):
    parser.add_argument("--steps", type=int, default=3, help="--cpu: steps of a run")
    parser.add_argument("--rounds", type=int, default=4, help="--cpu: runs of each plan, all plans in turn")
    parser.add_argument("--seconds", type=float, default=25, help="--cpu: of measuring this machine")


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tools/bench search: {' '.join(command)}: {done.stderr}")
    return done.stdout


def measure_machine(oneflow, path, seconds):
    print("measuring this machine", file=sys.stderr)
    call(oneflow, "calibrate", "--threads=1", f"--devices={DEVICES}", f"--seconds={seconds}", "--out=" + path)


def merge_plans(searches):
    """The plans of several searches, each a list of plans of JSON, each plan once, the fastest first: flags and seconds. Of plans that
    take as long, the first one found is the first."""
    seconds = {}
    for plans in searches:
        for plan in plans:
            seconds.setdefault(plan["flags"], plan["step_seconds"])
    return sorted(seconds.items(), key=lambda item: item[1])


def missed_plans(searches):
    """The plans of parts of the space that are faster than the best of the first search, which is of all of it."""
    best = searches[0][0]["step_seconds"]
    return [flags for flags, seconds in merge_plans(searches[1:]) if seconds < best]


def search_parts(oneflow, graph, cluster, threads):
    searches = []
    for part in PARTS:
        fix = ["--fix=" + part] if part else []
        output = call(oneflow, "search", "--graph=" + graph, f"--devices={DEVICES}", f"--batch={BATCH}", "--cluster=" + cluster,
                      f"--top={TOP}", f"--threads={threads}", "--format=json", *fix)
        searches.append(json.loads(output)["plans"])
    return searches


def busy_seconds():
    """Seconds in which cores of this machine worked, or were kept from it by its host, since it began."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Of the processor, of this process and of all that it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Others:
    """Counts the cores that others had since it was made."""

    def __init__(self):
        self.begin, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def cores(self):
        busy, own = busy_seconds() - self.busy, own_seconds() - self.own
        return max(0.0, busy - own) / (time.monotonic() - self.begin)


def step_seconds(metrics):
    """Seconds of the steps after those of warm-up, from the lines of --metrics."""
    return [json.loads(line)["step_seconds"] for line in metrics][WARM_UP:]


def train(oneflow, plan, data, steps):
    metrics = plan + ".jsonl"
    call(oneflow, "train", "--plan=" + plan, "--data=" + data, f"--steps={steps + WARM_UP}", f"--threads={DEVICES}",
         "--learning_rate=1e-4", "--metrics=" + metrics)
    with open(metrics) as lines:
        return step_seconds(lines)


def train_plans(oneflow, folder, candidates, args):
    """The median step of each, measured in rounds, so that a machine that slows down slows all."""
    data = os.path.join(folder, "noise")
    with open(data, "wb") as out:
        out.write(os.urandom(NOISE_BYTES))
    plans = []
    for i, (flags, _) in enumerate(candidates):
        plans.append(os.path.join(folder, f"{i}.plan"))
        call(oneflow, "compile", *shlex.split(flags), f"--threads={DEVICES}", "--out=" + plans[-1])
    seconds = [[] for _ in plans]
    for _ in range(args.rounds):
        for of_plan, plan in zip(seconds, plans):
            of_plan += train(oneflow, plan, data, args.steps)
    return [statistics.median(of_plan) for of_plan in seconds]


def summarize(predicted, measured):
    """What the measured order says of the predicted one; the first plan is the best one found."""
    tau, pairs = kendall_tau(predicted, measured, APART)
    errors = [a / b - 1 for a, b in zip(predicted, measured)]
    return {"tau": tau, "pairs": pairs, "distance": distance_from_best(measured, 0), "mean_error": statistics.mean(map(abs, errors))}


def failures_of(name, summary):
    """Why a model's plans are not as they must be. The plans missed may be left out."""
    failures = [f"{name}: the search of all missed a faster plan: {own_flags(flags)}" for flags in summary.get("missed", ())]
    if summary["tau"] < LEAST_TAU:
        failures.append(f"{name}: Kendall's tau is {summary['tau']:.2f}, below {LEAST_TAU}")
    if summary["distance"] > MOST_DISTANCE:
        failures.append(f"{name}: the best plan found is {100 * summary['distance']:.1f} % from the fastest measured")
    return failures


def own_flags(flags):
    """The flags of a plan beside those that are the same for all."""
    return " ".join(word for word in shlex.split(flags) if not word.startswith(("--graph=", "--cluster=", "--batch=")))


def run_model(oneflow, folder, cluster, name, args):
    graph = os.path.join(folder, "model.textproto")
    call(oneflow, "model", *MODELS[name], "--out=" + graph)
    searches = search_parts(oneflow, graph, cluster, args.threads)
    found = merge_plans(searches)
    candidates = [found[i] for i in choose_spread([seconds for _, seconds in found], CANDIDATES, BETWEEN)]
    others = Others()
    measured = train_plans(oneflow, folder, candidates, args)
    cores = others.cores()
    predicted = [seconds for _, seconds in candidates]
    plans = [{"flags": own_flags(flags), "predicted_seconds": a, "measured_seconds": b, "error": a / b - 1}
             for (flags, a), b in zip(candidates, measured)]
    return {"model": name, "found": len(found), "missed": missed_plans(searches), "plans": plans, "cores_of_others": cores,
            **summarize(predicted, measured)}


def format_model(row):
    lines = [f"{row['model']}: {len(row['plans'])} of {row['found']} plans found"]
    for plan in row["plans"]:
        lines.append(f"  predicted {1e3 * plan['predicted_seconds']:8.1f} ms   measured {1e3 * plan['measured_seconds']:8.1f} ms   error "
                     f"{100 * plan['error']:+6.1f} %   {plan['flags']}")
    lines.append(f"  Kendall's tau {row['tau']:.2f} over {row['pairs']} pairs predicted {100 * APART:.0f} % apart; the best plan found is "
                 f"{100 * row['distance']:.1f} % from the fastest measured; mean error {100 * row['mean_error']:.1f} %")
    if row["cores_of_others"] > QUIET:
        lines.append(f"  other processes had {row['cores_of_others']:.2f} cores of this machine meanwhile: its times say little")
    return lines


def run(args, oneflow):
    """The lines that were printed, and what is not as it must be."""
    rows, lines, failures = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "machine.textproto")
        measure_machine(oneflow, cluster, args.seconds)
        for name in MODELS:
            if args.only not in name:
                continue
            rows.append(run_model(oneflow, folder, cluster, name, args))
            lines += format_model(rows[-1])
            failures += failures_of(name, rows[-1])
            if args.format == "text":
                print("\n".join(format_model(rows[-1])), flush=True)
    if args.format == "json":
        print(json.dumps(rows))
    return lines, failures
