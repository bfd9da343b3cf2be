"""Models that are larger than the memory of their cards: what --offload and --update_on cost, simulated.

Each case is a model, cards, a mesh and a batch. Its first row has unlimited memory and moves nothing to the host; the
others must fit, and `compile` refuses those that do not. No GPU has run them. `all on` is every technique at once, on an
axis data: ZeRO 3, all three offloaded, all blocks recomputed. The columns:

* GiB       of the largest device, and of the host for it.
* step      seconds, simulated; and in relation to the first row of the case.
* exposed   seconds of a step in which a device (the one with most) neither computes nor exchanges but copies.
* waits     the same for idle time beyond that of the first row: the host updates, or other stages wait for copies.
* link      how busy it is, to the host and from it, at most.

A100-40G is A100-80G with less memory. The RTX cards are A100 files with the figures of CARDS in their place, and rates of
attention by the ratio of the peaks.
"""
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile

from benchmarks.sides import ROOT

TARGETS = []
GIB = 2 ** 30
FLAGS = ("--device=cuda", "--precision=bf16", "--residual=bf16")
UNLIMITED = "--memory=1000TB"
# Fields of examples/clusters/a100.textproto that differ.
# RTX 3070, RTX 4090: NVIDIA's whitepapers of GA102 and of Ada, bf16 with sums in f32, dense. A host of two channels, of
# DDR4-3200 and of DDR5-5600. The link is a gen4 x16, as the A100's, which one card has alone. `depth` is the A100's by the
# rate of a processor.
CARDS = {
    "rtx3070": {"name": '"RTX 3070"', "peak_flops": "20.3e12", "peak_flops_bf16": "40.6e12", "memory_bandwidth": "448e9",
                "memory_bytes": "8000000000", "processors": "46", "depth": "22", "sharing": "1", "host_bandwidth": "51.2e9"},
    "rtx4090": {"name": '"RTX 4090"', "peak_flops": "82.6e12", "peak_flops_bf16": "165.2e12", "memory_bandwidth": "1008e9",
                "memory_bytes": "24000000000", "processors": "128", "depth": "31", "sharing": "1", "host_bandwidth": "89.6e9"},
}


@dataclasses.dataclass(frozen=True)
class Plan:
    name: str
    flags: str = ""
    mesh: str = ""    # if another than the case's
    memory: str = ""  # if another than the case's


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: tuple  # flags of `oneflow model`
    cluster: str
    memory: str  # of a card
    mesh: str  # mesh, batch and what stands on both sides of the comparison
    free: str  # further flags of the row with unlimited memory
    plans: tuple


ALL_ON = "--shard=weights --recompute=full --offload=activations,states,weights"
STATES, UPDATE = "--offload=states", "--update_on=host"


def gpt3(where, sequence, memory, pipe, batch, flags, all_on):
    """`all_on`: micro-batches of the row of that name."""
    mesh = f"--mesh=pipe={pipe},tensor=8 --batch={batch} --micro_batches={batch} --sequence_parallel"
    data = f"--mesh=data={8 * pipe} --batch={batch} --micro_batches={all_on}"
    return Case(f"GPT-3 175B, {where}, batch {batch:,}", ("gpt", "--preset=gpt3-175b", f"--sequence={sequence}"), "a100", memory,
                mesh, "", (Plan("states", flags + STATES), Plan("host updates", flags + UPDATE),
                            Plan("activations, too", flags + STATES + ",activations"), Plan("all on", ALL_ON, data)))


def llama_70b(cards, cluster):
    return Case(f"Llama 3 70B, {cards}, batch 128", ("llama", "--preset=llama3-70b", "--sequence=8192"), cluster, "80GB",
                "--mesh=tensor=8 --batch=128 --micro_batches=128 --sequence_parallel", "",
                (Plan("states", "--recompute=none,gather " + STATES), Plan("host updates", "--recompute=none,gather " + UPDATE)))


ONE_CARD = "--offload=activations:all,weights --update_on=host"
CASES = [case for batch in (64, 1536) for case in (
    gpt3("32 A100-80G", 2048, "80GB", 4, batch, "", 2 if batch == 64 else 12),
    gpt3("64 A100-40G", 2048, "40GB", 8, batch, "", 1 if batch == 64 else 24),
    gpt3("64 A100-80G, sequence 8,192", 8192, "80GB", 8, batch, "--recompute=none,gather ", 1 if batch == 64 else 24))]
CASES += [
    Case("GPT-2 1.5B, one RTX 3070 of 8 GB, batch 32", ("gpt", "--preset=gpt2-1.5b"), "rtx3070", "8GB",
         "--batch=32 --loss_pieces=auto", "", (
             Plan("recompute", "--recompute=full", memory=UNLIMITED),
             Plan("all offloaded", "--recompute=full " + ONE_CARD),
             Plan("all offloaded", "--recompute=selective " + ONE_CARD),
             Plan("weights stay", "--recompute=full --offload=activations:all --update_on=host"))),
    Case("Llama 3 8B, one RTX 4090 of 24 GB, batch 8", ("llama", "--preset=llama3-8b", "--sequence=8192"), "rtx4090", "24GB",
         "--batch=8 --loss_pieces=auto", "", (
             Plan("recompute", "--recompute=full", memory=UNLIMITED),
             Plan("all offloaded", "--recompute=full " + ONE_CARD),
             Plan("all offloaded", "--recompute=selective --prefetch=1 " + ONE_CARD))),
    llama_70b("8 A100-80G", "a100"),
    llama_70b("8 H100-80G", "h100"),
]


def add_flags(parser):
    parser.add_argument("--only", help="only cases whose names contain this")
    parser.add_argument("--rows", nargs="+", help="only rows of these names, and the first one of each case")


def cluster_file(folder, name):
    if name not in CARDS:
        return os.path.join(ROOT, f"examples/clusters/{name}.textproto")
    with open(os.path.join(ROOT, "examples/clusters/a100.textproto")) as file:
        text = re.sub(r" *#.*", "", file.read())
    slower = 1
    for field, value in CARDS[name].items():
        found = re.search(rf"""\b{field}: ("[^"]*"|\S+)""", text)
        if found is None:
            sys.exit(f"tools/bench memory_techniques: a100.textproto has no field {field}")
        if field == "peak_flops_bf16":
            slower = float(value) / float(found[1])
        text = text[:found.start(1)] + value + text[found.end(1):]

    def scale(rates):
        return rates[1] + ", ".join(f"{float(rate) * slower:.4g}" for rate in rates[2].split(","))

    text = re.sub(r"(\b(?:forward|backward): \[)([^]]*)", scale, text)
    path = os.path.join(folder, name + ".textproto")
    with open(path, "w") as file:
        file.write(text)
    return path


def call(oneflow, *args):
    done = subprocess.run([oneflow, *args], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None, done.stderr.strip()


def simulate_row(oneflow, folder, case, name, flags):
    """The figures of a row; a reason if it is refused."""
    graph, plan = os.path.join(folder, "model.textproto"), os.path.join(folder, "model.plan")
    cluster = cluster_file(folder, case.cluster)
    row = {"case": case.name, "name": name, "flags": flags}
    printed, error = call(oneflow, "compile", "--graph=" + graph, *flags.split(), *FLAGS, "--cluster=" + cluster,
                          "--out=" + plan, "--format=json")
    if printed is None:
        return row | {"refused": error.splitlines()[-1] if error else "compile ended without a message"}
    host = max(stage["host_bytes"] for stage in json.loads(printed)["stages"])
    printed, error = call(oneflow, "simulate", "--plan=" + plan, "--cluster=" + cluster, "--format=json")
    if printed is None:
        sys.exit(f"tools/bench memory_techniques: simulate failed: {error}")
    summary = json.loads(printed)
    stages, step = summary["stages"], summary["step_seconds"]
    most = lambda field: max(stage[field] for stage in stages)
    return row | {"gib": most("arena_bytes") / GIB, "host_gib": host / GIB, "step": step,
                  "exposed": most("exposed_copy_seconds"), "idle": most("idle_seconds"), "mfu": summary["mfu"],
                  "to_host": most("to_host_seconds") / step, "from_host": most("from_host_seconds") / step}


def print_row(row):
    if "refused" in row:
        print(f"| {row['name']} | `{row['flags']}` | refused: {row['refused']} |", flush=True)
        return
    print(f"| {row['name']} | `{row['flags']}` | {row['gib']:.1f} | {row['host_gib']:.1f} | {row['step']:.2f} | {row['of']:.3f} "
          f"| {row['exposed']:.2f} | {row['waits']:.2f} | {100 * row['to_host']:.0f} %, {100 * row['from_host']:.0f} % |", flush=True)


def simulate_case(oneflow, folder, case, args):
    printed, error = call(oneflow, "model", *case.model, "--out=" + os.path.join(folder, "model.textproto"))
    if printed is None:
        sys.exit(f"tools/bench memory_techniques: {error}")
    if args.format == "text":
        print(f"\n{case.name}\n\n| | flags | GiB | of the host | step, s | ratio | exposed | waits | link |\n|{9 * '---|'}", flush=True)
    plans = [Plan("unlimited", case.free), *(plan for plan in case.plans if not args.rows or plan.name in args.rows)]
    rows = []
    for plan in plans:
        memory = UNLIMITED if plan.name == "unlimited" else plan.memory or "--memory=" + case.memory
        row = simulate_row(oneflow, folder, case, plan.name, " ".join([plan.mesh or case.mesh, plan.flags, memory]))
        row["flags"] = " ".join(row["flags"].split()) if not rows or plan.mesh else " ".join(f"{plan.flags} {memory}".split())
        if "refused" not in row:
            base = rows[0] if rows else row
            row |= {"of": row["step"] / base["step"], "waits": max(0.0, row["idle"] - base["idle"])}
        rows.append(row)
        if args.format == "text":
            print_row(row)
    return rows


def run(args, binaries):
    oneflow = os.path.join(binaries, "tools/oneflow/oneflow")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not args.only or args.only in case.name:
                rows += simulate_case(oneflow, folder, case, args)
    if args.format == "json":
        print(json.dumps(rows))
