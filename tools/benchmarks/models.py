"""The best plan that `oneflow fit` finds for published models on H100s and B200s, as the table of docs/models.md.

A row is a model, a cluster, devices, a batch of about 4 million tokens and 4,096 positions; its plan is compiled, proved and simulated,
so the figures are predictions. A model that does not fit has no row's figures. --write puts the table into the page, between its two
marks; rows that were not run again stay.
"""
import json
import os
import re
import subprocess

from benchmarks.sides import ROOT

TARGETS = []
PAGE = os.path.join(ROOT, "docs/models.md")
BEGIN, END = "<!-- tools/bench models -->", "<!-- end of tools/bench models -->"
SEQUENCE, TOKENS = 4096, 4 << 20
GIB = 2 ** 30
HEAD = "| model | cluster | devices | mesh | micro-batches | schedule | recomputed | GiB | step, s | tokens/s a device | MFU |"

# The devices on which a model is planned.
MODELS = {
    "gemma2-2b": (8, 64), "gemma2-9b": (8, 64), "gemma2-27b": (64, 256),
    "gemma3-270m": (8,), "gemma3-1b": (8,), "gemma3-4b": (8, 64), "gemma3-12b": (8, 64), "gemma3-27b": (64, 256),
    "gpt-oss-20b": (8, 64), "gpt-oss-120b": (64, 256),
    "olmo2-1b": (8,), "olmo2-7b": (8, 64), "olmo2-13b": (8, 64), "olmo2-32b": (64, 256), "olmo3-7b": (8, 64), "olmo3-32b": (64, 256),
    "smollm2-135m": (8,), "smollm2-360m": (8,), "smollm2-1.7b": (8,), "smollm3-3b": (8, 64),
    "qwen3-0.6b": (8,), "qwen3-1.7b": (8,), "qwen3-4b": (8, 64), "qwen3-8b": (8, 64), "qwen3-14b": (8, 64), "qwen3-32b": (64, 256),
    "qwen3-30b-a3b": (8, 64), "qwen3-235b-a22b": (256, 1024),
    "llama3.2-1b": (8,), "llama3.2-3b": (8, 64), "llama3.1-8b": (8, 64), "llama3.1-70b": (64, 256), "llama3.1-405b": (512, 1024),
    "glm4.5-air": (64, 256), "glm4.5": (256, 1024),
}
CLUSTERS = ("h100", "b200")


def add_flags(parser):
    parser.add_argument("--only", default="", help="only rows that contain this, as gemma3 or b200")
    parser.add_argument("--seconds", type=int, default=60, help="of a row's search")
    parser.add_argument("--write", action="store_true", help="writes the rows into docs/models.md")


def key(row):
    """What tells rows apart: model, cluster and devices."""
    return tuple(cell.strip() for cell in row.strip("|").split("|")[:3])


def shorten(recompute):
    """"selective:2/1/1/1/1/1/1/1/1" -> "selective in 10 blocks": numbers of more than 8 slices are added up."""
    return re.sub(r"([\w@]+):((?:\d+/){8,}\d+)", lambda m: f"{m[1]} in {sum(map(int, m[2].split('/')))} blocks", recompute)


def plan_row(oneflow, model, cluster, devices, seconds):
    command = [oneflow, "fit", model, "--cluster=" + cluster, f"--devices={devices}", f"--batch={TOKENS // SEQUENCE}",
               f"--sequence={SEQUENCE}", f"--budget_seconds={seconds}", "--format=json"]
    done = subprocess.run(command, capture_output=True, text=True)
    begin = f"| `{model}` | {cluster} | {devices:,} |"
    if done.returncode != 0 or not json.loads(done.stdout)["plans"]:
        reason = done.stderr.strip().splitlines()[-1:] or ["no plan was found"]
        print(f"{model} on {devices} of {cluster}: {reason[0]}")
        return begin + " none was found |" + " |" * 7
    plan = min(json.loads(done.stdout)["plans"], key=lambda plan: plan["step_seconds"])
    chunks = f" in {plan['chunks']} chunks" if plan["chunks"] > 1 else ""
    schedule = plan["schedule"] + chunks if "pipe=" in plan["mesh"] else ""
    shard = f", {plan['shard']} split" if plan["shard"] not in ("", "none") else ""
    cells = [f"`{plan['mesh']}`{shard}", f"{plan['micro_batches']:,}", schedule, shorten(plan["recompute"]),
             f"{plan['bytes_a_device'] / GIB:.1f}", f"{plan['step_seconds']:.2f}", f"{plan['tokens_per_second_per_device']:,.0f}",
             f"{100 * plan['mfu']:.0f} %"]
    return f"{begin} " + " | ".join(cells) + " |"


def write(rows):
    with open(PAGE) as file:
        before, middle, after = re.split(f"{re.escape(BEGIN)}|{re.escape(END)}", file.read())
    table = {key(line): line for line in middle.strip().splitlines()[2:]}
    table.update({key(row): row for row in rows})
    order = [(f"`{model}`", cluster, f"{devices:,}") for model, all_devices in MODELS.items() for cluster in CLUSTERS
             for devices in all_devices]
    lines = [HEAD, "|" + "---|" * HEAD.count(" | ") + "---|", *(table[at] for at in order if at in table)]
    with open(PAGE, "w") as file:
        file.write(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)


def run(args, binaries):
    oneflow, rows = os.path.join(binaries, "tools/oneflow/oneflow"), []
    print(HEAD)
    for model, all_devices in MODELS.items():
        for cluster in CLUSTERS:
            for devices in all_devices:
                if args.only not in f"{model} {cluster} {devices}":
                    continue
                rows.append(plan_row(oneflow, model, cluster, devices, args.seconds))
                print(rows[-1], flush=True)
                if args.write:
                    write(rows)
