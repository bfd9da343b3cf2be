"""Bytes on the first stage of plans of the models whose memory is published, beside the published GiB.

Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models": 22B, 175B, 530B and 1T, sequence 2048,
tensor=8. Weights and optimizer: the 12 h^2 parameters of each layer, 18 bytes each. Activations: what the layers keep from
forward to backward, tensor parallel only and with sequence parallelism and selective recompute; by the graph
`oneflow model gpt --attention=unfused --dropout=0.1 --masks=stored`, whose bytes must be the published ones exactly, and by our
own (fused attention, masks made again, the residual stream in f32), with what the published tables leave out beside both.
"""
import json
import os
import subprocess
import sys
import tempfile

TARGETS = []
GIB = 2 ** 30
# heads, hidden, layers, pipe, batch, micro-batch, chunks; weights + optimizer, tensor parallel only, sequence parallel + selective
MODELS = {
    "22B": (64, 6144, 48, 1, 4, 4, 1, 45.5625, 59.25, 9.5625),
    "175B": (96, 12288, 96, 8, 64, 1, 3, 45.5625, 66.84375, 12.3515625),
    "530B": (128, 20480, 105, 35, 280, 1, 3, 31.640625, 114.0234375, 23.076171875),
    "1T": (160, 25600, 128, 64, 512, 1, 1, 32.958984375, 131.25, 26.5625),
}
PAPER = ["--attention=unfused", "--dropout=0.1", "--masks=stored"]
SPLIT = ["--sequence_parallel", "--recompute=attention,gather"]
# graph, and how it is compiled
PLANS = {
    "tensor parallel": (PAPER, ["--residual=bf16"]),
    "sequence parallel + selective": (PAPER, ["--residual=bf16"] + SPLIT),
    "ours, tensor parallel": (["--dropout=0.1"], []),
    "ours, sequence parallel": (["--dropout=0.1"], ["--sequence_parallel", "--recompute=gather"]),
}


def call(*line):
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"tools/bench activations: {' '.join(line)} failed")
    return done.stdout


def compile_memory(oneflow, folder, model, graph_flags, plan_flags):
    """The first stage's bytes, by class."""
    heads, hidden, layers, pipe, batch, size, chunks = MODELS[model][:7]
    graph, plan = os.path.join(folder, "graph"), os.path.join(folder, "plan")
    call(oneflow, "model", "gpt", f"--heads={heads}", f"--hidden={hidden}", f"--layers={layers}", "--sequence=2048",
         "--vocab=51200", "--out=" + graph, *graph_flags)
    schedule = ["--schedule=interleaved", f"--chunks={chunks}"] if chunks > 1 else []
    call(oneflow, "compile", "--graph=" + graph, "--out=" + plan, f"--mesh=pipe={pipe},tensor=8", f"--batch={batch}",
         f"--micro_batches={batch // size}", "--precision=bf16", *schedule, *plan_flags)
    head, first = call(oneflow, "explain", "--plan=" + plan, "--format=memory").splitlines()[:2]
    return dict(zip(head.split(), map(int, first.split())))


def make_row(model, plan, memory):
    states, *activations = MODELS[model][7:]
    row = {"model": model, "plan": plan, **memory}
    if not plan.startswith("ours"):
        published = activations[list(PLANS).index(plan)]
        row |= {"published_states": states, "published_activations": published,
                "equal": memory["matrices_of_blocks"] == states * GIB and memory["kept_in_blocks"] == published * GIB}
    return row


def format_row(row):
    gib = lambda key: f"{row[key] / GIB:11.6f}"
    text = (f"{row['model']:5}{row['plan']:30}{gib('matrices_of_blocks')} {gib('kept_in_blocks')}   beside: slots "
            f"{gib('slots_in_blocks')}  states {gib('other_states')}  statistics {gib('kept_statistics')}  outside blocks "
            f"{gib('kept_elsewhere')}")
    if "equal" not in row:
        return text
    verdict = "equal" if row["equal"] else "DIFFERS"
    return text + f"   published {row['published_states']} and {row['published_activations']}: {verdict}"


def add_flags(parser):
    parser.add_argument("--models", default=",".join(MODELS))


def run(args, folder_of_binaries):
    oneflow = os.path.join(folder_of_binaries, "tools/oneflow/oneflow")
    rows = []
    if args.format == "text":
        print(f"GiB on the first stage{'':13}weights+optimizer  activations")
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models.split(","):
            for plan, flags in PLANS.items():
                rows.append(make_row(model, plan, compile_memory(oneflow, folder, model, *flags)))
                if args.format == "text":
                    print(format_row(rows[-1]), flush=True)
    if args.format == "json":
        print(json.dumps(rows))
    if not all(row.get("equal", True) for row in rows):
        sys.exit("tools/bench activations: a plan's bytes are not the published ones")
