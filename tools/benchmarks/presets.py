"""Plans of the presets for H100s, as rows of a table of docs/models.md: parameters, bytes a GPU, simulated step, MFU.

Each preset is compiled with the mesh and flags of PLANS; the plan is proved, and its step simulated. No GPU is needed:
the figures are predictions.
"""
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

TARGETS = []
ALL = ("--cluster=h100", "--device=cuda", "--precision=bf16", "--shard=states")
SEQUENCE_PARALLEL = "--sequence_parallel"
LARGE = (SEQUENCE_PARALLEL, "--residual=bf16", "--recompute=selective,gather")
GIB = 2 ** 30


@dataclasses.dataclass(frozen=True)
class Plan:
    preset: str
    sequence: int
    mesh: str
    size: int  # sequences of a micro-batch on each rank of the axis data
    micro_batches: int
    flags: tuple = ()
    model_flags: tuple = ()

    def family(self):
        return "gpt" if self.preset.startswith("gpt") else "llama"

    def batch(self):
        degrees = dict(axis.split("=") for axis in self.mesh.split(","))
        return int(degrees["data"]) * self.size * self.micro_batches


PLANS = [
    Plan("gpt2-124m", 1024, "data=8", 16, 4),
    Plan("gpt2-350m", 1024, "data=8", 16, 4),
    Plan("gpt2-774m", 1024, "data=8", 8, 8),
    Plan("gpt2-1.5b", 1024, "data=8", 4, 16),
    Plan("gpt3-175b", 2048, "pipe=8,data=8,tensor=8", 1, 192, (SEQUENCE_PARALLEL,)),
    Plan("llama2-7b", 4096, "data=8,tensor=2", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("llama2-13b", 4096, "data=8,tensor=4", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("llama2-70b", 4096, "pipe=4,data=8,tensor=8", 1, 64, (SEQUENCE_PARALLEL,)),
    Plan("llama3-8b", 8192, "data=8,tensor=2", 1, 16, (SEQUENCE_PARALLEL,)),
    Plan("llama3-70b", 8192, "pipe=4,data=8,tensor=8", 1, 64, (SEQUENCE_PARALLEL,)),
    Plan("llama3.1-8b", 8192, "data=8,tensor=2", 1, 16, (SEQUENCE_PARALLEL,)),
    Plan("llama3.1-70b", 8192, "pipe=4,data=8,tensor=8", 1, 64, (SEQUENCE_PARALLEL,)),
    Plan("llama3.1-405b", 8192, "pipe=18,data=8,tensor=8", 1, 128, LARGE),
    Plan("llama3.2-1b", 8192, "data=8", 1, 16),
    Plan("llama3.2-3b", 8192, "data=8", 1, 16),
    # A window as long as the sequence hides nothing.
    Plan("mistral-7b", 4096, "data=8,tensor=2", 2, 16, (SEQUENCE_PARALLEL,), ("--window=0",)),
    Plan("qwen2.5-0.5b", 4096, "data=8", 2, 16),
    Plan("qwen2.5-1.5b", 4096, "data=8", 2, 16),
    Plan("qwen2.5-3b", 4096, "data=8", 2, 16),
    Plan("qwen2.5-7b", 4096, "data=8,tensor=2", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen2.5-14b", 4096, "data=8,tensor=4", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen2.5-32b", 4096, "pipe=2,data=8,tensor=8", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen3-0.6b", 4096, "data=8", 2, 16),
    Plan("qwen3-1.7b", 4096, "data=8", 2, 16),
    Plan("qwen3-4b", 4096, "data=8,tensor=2", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen3-8b", 4096, "data=8,tensor=2", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen3-14b", 4096, "data=8,tensor=4", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen3-32b", 4096, "pipe=2,data=8,tensor=8", 2, 16, (SEQUENCE_PARALLEL,)),
    Plan("mixtral-8x7b", 4096, "data=8,tensor=8", 1, 16, (SEQUENCE_PARALLEL,)),
    Plan("mixtral-8x22b", 4096, "pipe=4,data=8,tensor=8", 1, 32, (SEQUENCE_PARALLEL,)),
    Plan("qwen3-30b-a3b", 4096, "data=8,tensor=4", 1, 16, (SEQUENCE_PARALLEL,)),
    Plan("qwen3-235b-a22b", 4096, "pipe=8,data=8,tensor=4x2", 1, 64, LARGE),
]


def add_flags(parser):
    parser.add_argument("--only", help="only presets whose names contain this")


def call(oneflow, *args):
    done = subprocess.run([oneflow, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tools/bench presets: oneflow {' '.join(args)} failed: {done.stderr}")
    return done.stdout


def compile_plan(oneflow, folder, plan):
    """What `compile` says of the plan: a dictionary."""
    graph, out = (os.path.join(folder, name) for name in ("model.textproto", "model.plan"))
    call(oneflow, "model", plan.family(), "--preset=" + plan.preset, f"--sequence={plan.sequence}", *plan.model_flags,
         "--out=" + graph)
    text = call(oneflow, "compile", "--graph=" + graph, "--mesh=" + plan.mesh, f"--batch={plan.batch()}",
                f"--micro_batches={plan.micro_batches}", *ALL, *plan.flags, "--out=" + out, "--format=json")
    return json.loads(text)["headline"]


def format_row(plan, headline):
    flags = " ".join(f"`{flag}`" for flag in plan.flags + plan.model_flags)
    cells = [f"`{plan.preset}`", f"{headline['parameters'] / 1e9:,.2f}", f"{plan.sequence:,}", f"{plan.batch():,}",
             f"`{plan.mesh}`", str(headline["devices"]), str(plan.micro_batches), flags,
             f"{headline['bytes_a_device'] / GIB:.1f}", f"{headline['step_seconds']:.2f}", f"{100 * headline['mfu']:.0f} %"]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def run(args, binaries):
    oneflow = os.path.join(binaries, "tools/oneflow/oneflow")
    rows = []
    if args.format == "text":
        print("| preset | parameters, billions | sequence | batch | mesh | GPUs | micro-batches | other flags "
              "| GiB a GPU | step, s | MFU |\n|" + 11 * "---|")
    with tempfile.TemporaryDirectory() as folder:
        for plan in PLANS:
            if args.only and args.only not in plan.preset:
                continue
            headline = compile_plan(oneflow, folder, plan)
            rows.append({**dataclasses.asdict(plan), "batch": plan.batch(), **headline})
            if args.format == "text":
                print(format_row(plan, headline), flush=True)
    if args.format == "json":
        print(json.dumps(rows))
