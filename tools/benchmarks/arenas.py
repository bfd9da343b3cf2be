"""The bytes a plan takes, against the least that its order can do with.

Every GPT-2 preset on 1, 2, 4 and 8 devices: arena over lower bound (docs/memory.md), for all bytes and for those that
are not weights or optimizer; of the stages of a plan the worst of each.
"""
import json
import os
import subprocess
import sys
import tempfile

TARGETS = []
PRESETS = ["gpt2-124m", "gpt2-350m", "gpt2-774m", "gpt2-1.5b"]
# mesh, sequences a step, micro-batches
MESHES = [
    ("", 4, 1), ("data=2", 4, 1), ("tensor=2", 4, 1), ("data=2,tensor=2", 4, 1), ("data=8", 8, 1),
    ("", 16, 4), ("data=2", 16, 4), ("tensor=2", 16, 4), ("pipe=2", 16, 4), ("pipe=2,data=2", 16, 4),
    ("pipe=4", 32, 8), ("pipe=2,data=2,tensor=2", 32, 4), ("pipe=4,tensor=2", 32, 8), ("pipe=8", 64, 16),
    ("pipe=2", 8, 2), ("pipe=4", 8, 2), ("pipe=4", 16, 4), ("pipe=4,data=2", 16, 4), ("pipe=8", 32, 8),
]


def compile_memory(oneflow, folder, preset, mesh, batch, micro_batches, schedule, device):
    graph, plan = os.path.join(folder, preset), os.path.join(folder, "plan")
    if not os.path.exists(graph):
        subprocess.run([oneflow, "model", "gpt", "--preset=" + preset, "--out=" + graph], check=True,
                       stdout=subprocess.DEVNULL)
    line = [oneflow, "compile", "--graph=" + graph, f"--batch={batch}", f"--micro_batches={micro_batches}",
            "--schedule=" + schedule, "--device=" + device, "--out=" + plan]
    if subprocess.run(line + (["--mesh=" + mesh] if mesh else []), stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"tools/bench arenas: oneflow compile failed on {preset}, mesh {mesh}")
    explained = subprocess.run([oneflow, "explain", "--plan=" + plan, "--format=json"], check=True, capture_output=True)
    return json.loads(explained.stdout)["stages"]


def add_flags(parser):
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--schedule", default="1f1b", help="another than 1f1b: on the meshes with stages")


def run(args, folder_of_binaries):
    oneflow = os.path.join(folder_of_binaries, "tools/oneflow/oneflow")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for preset in args.presets.split(","):
            for mesh, batch, micro_batches in MESHES:
                if args.schedule != "1f1b" and "pipe" not in mesh:
                    continue
                stages = compile_memory(oneflow, folder, preset, mesh, batch, micro_batches, args.schedule,
                                   args.device)
                arena, bound, kept = ([int(s[k]) for s in stages]
                                      for k in ["arena_bytes", "lower_bound_bytes", "persistent_bytes"])
                row = {"preset": preset, "mesh": mesh or "one device", "micro_batches": micro_batches,
                       "arena_bytes": max(arena),
                       "total": max(a / b for a, b in zip(arena, bound)),
                       "rest": max((a - p) / (b - p) for a, b, p in zip(arena, bound, kept))}
                results.append(row)
                if args.format == "text":
                    print(f"{preset:10} {row['mesh']:24} M={micro_batches:<3} {row['arena_bytes'] / 1e9:7.2f} GB  "
                          f"over the lower bound: all {row['total'] - 1:6.1%}  not weights or optimizer {row['rest'] - 1:6.1%}",
                          flush=True)
    if args.format == "json":
        print(json.dumps(results))
