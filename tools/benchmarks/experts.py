"""How the choices of a trained mixture fall on its experts: what queues of x times even routing would drop.

Trains a mixture that drops nothing (16 experts, 2 of them a token, 4 layers, hidden 128, sequences of 512 bytes of the text
of `recipe`, 4 sequences a step, the recipe's rates). Then, with the weights of several steps, it reads what each router chooses
for 64 sequences. Prints the share of choices beyond x, where a run (a sequence), and where a micro-batch, has a queue for each
of G groups; and the tokens of the busiest group relative to even routing, a mean over routers.
"""
import array
import json
import math
import os
import random
import re
import struct
import subprocess
import tempfile

from benchmarks.recipe import gather_text, recipe_flags

TARGETS = []

SEQUENCE, BATCH, HIDDEN = 512, 4, 128
SAMPLES = 64  # sequences whose choices are counted
SHARES = [1.1, 1.25, 1.5, 2, 3]


def add_flags(parser):
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--experts_per_token", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--early", type=int, default=100, help="the step of the early weights")
    parser.add_argument("--aux_loss_coeff", type=float, default=0.01)
    parser.add_argument("--text", help="a file to train on")
    parser.add_argument("--keep", help="a folder for graph and checkpoints; those that are there are read again")
    parser.set_defaults(eval_batches=1)


def run(args, binaries):
    with tempfile.TemporaryDirectory() as folder:
        folder = args.keep or folder
        os.makedirs(folder, exist_ok=True)
        text = args.text or gather_text(folder)
        graph = folder + "/graph.textproto"
        oneflow = binaries + "/tools/oneflow/oneflow"
        execute([oneflow, "model", "llama", "--layers=4", "--heads=4", f"--hidden={HIDDEN}", f"--inner={HIDDEN}",
                 f"--sequence={SEQUENCE}", "--vocab=256", f"--experts={args.experts}",
                 f"--experts_per_token={args.experts_per_token}", f"--aux_loss_coeff={args.aux_loss_coeff}", "--out=" + graph])
        result = {}
        for step in [args.early, args.steps]:
            checkpoint = f"{folder}/checkpoints/step-{step:08}"
            if not os.path.exists(checkpoint):
                train(args, oneflow, graph, text, step, folder)
            choices = read_choices(oneflow, graph, text, checkpoint, folder)
            result[step] = {name: describe(args, choices, runs) for name, runs in
                            [("run", 1), ("micro-batch of 4", 4), ("micro-batch of 16", 16)]}
    show(args, result)


def execute(command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def train(args, oneflow, graph, text, step, folder):
    execute([oneflow, "train", "--graph=" + graph, f"--batch={BATCH}", "--data=" + text, "--tokenizer=bytes",
             f"--threads={args.threads}", *recipe_flags(args), f"--steps={step}", "--resume=auto",
             f"--checkpoint_dir={folder}/checkpoints", "--keep=2"])


def read_choices(oneflow, graph, text, checkpoint, folder):
    """For each router, the choices of each sequence."""
    routing, routers, variables = write_routing(graph, folder)
    with open(checkpoint + "/manifest.json", encoding="utf-8") as file:
        saved = {v["name"]: v for v in json.load(file)["variables"]}
    feeds = {name: write_variable(checkpoint, saved[name], f"{folder}/{name}.npy") for name in variables}
    with open(text, "rb") as file:
        data = file.read()
    rng = random.Random(1)
    starts = [rng.randrange(len(data) - SEQUENCE) for _ in range(SAMPLES)]
    tokens = array.array("i", list(b"".join(data[s:s + SEQUENCE] for s in starts)))
    feeds["tokens"] = write_npy(folder + "/tokens.npy", "<i4", [SAMPLES, SEQUENCE], tokens.tobytes())
    execute([oneflow, "run", "--graph=" + routing, f"--batch={SAMPLES}", *(f"--feed={n}={f}" for n, f in feeds.items()),
             *(f"--fetch={r}={folder}/{r}.npy" for r in routers)])
    return [read_ids(f"{folder}/{r}.npy") for r in routers]


def write_routing(graph, folder):
    """The graph up to its last router, where variables are fed; returns the choices of its routers, and the names of variables."""
    lines, routers, variables = [], [], []
    with open(graph, encoding="utf-8") as file:
        written = file.readlines()
    for line in written:
        name = re.search(r'^op \{ name: "([^"]+)"', line)
        if line.startswith("family") or not name or name[1] == "labels":
            continue
        if 'kind: "variable"' in line or 'kind: "input"' in line:
            variables += [name[1]] if name[1] != "tokens" else []
            line = re.sub(r' attr \{ key: "\w+" value \{[^}]*\} \}', "", line).replace('kind: "variable"', 'kind: "input"')
        lines.append(line)
        if 'kind: "route"' in line:
            routers.append(name[1] + ":1")
            routed = list(lines), list(variables)
    with open(folder + "/routing.textproto", "w", encoding="utf-8") as out:
        out.writelines([*routed[0], *(f'output: "{r}"\n' for r in routers)])
    return out.name, routers, routed[1]


def write_variable(checkpoint, variable, path):
    piece, = variable["slices"]  # of one device
    with open(f"{checkpoint}/{piece['file']}", "rb") as file:
        file.seek(piece["offset"])
        return write_npy(path, "<f4", variable["dims"], file.read(piece["bytes"]))


def write_npy(path, dtype, dims, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({', '.join(map(str, dims))},), }}"
    header = header.ljust(117) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    return path


def read_ids(path):
    with open(path, "rb") as file:
        data = file.read()
    ids = array.array("i", data[10 + struct.unpack_from("<H", data, 8)[0]:])
    size = len(ids) // SAMPLES
    return [ids[i * size:(i + 1) * size] for i in range(SAMPLES)]


def describe(args, choices, sequences):
    """By G, where `sequences` share queues: the shares beyond x, and the busiest group."""
    result = {}
    for groups in sorted({4, 8, args.experts}):
        loads = []
        for router in choices:
            for first in range(0, SAMPLES, sequences):
                counts = [0] * groups
                for ids in router[first:first + sequences]:
                    for expert in ids:
                        counts[expert * groups // args.experts] += 1
                loads.append(counts)
        total = sum(map(sum, loads))
        even = total / len(loads) / groups
        result[groups] = {
            "beyond": {x: sum(max(0, n - math.ceil(x * even)) for counts in loads for n in counts) / total for x in SHARES},
            "busiest": sum(map(max, loads)) / len(loads) / even}
    return result


def show(args, result):
    if args.format == "json":
        print(json.dumps(result))
        return
    print(f"{args.experts} experts, {args.experts_per_token} of a token, sequences of {SEQUENCE}, aux_loss_coeff {args.aux_loss_coeff}; "
          f"choices of {SAMPLES} sequences")
    print(f"| step | queues | G | {' | '.join(f'beyond {x}' for x in SHARES)} | busiest group |\n|---{'|---' * (len(SHARES) + 3)}|")
    for step, tables in result.items():
        for queues, by_groups in tables.items():
            for groups, row in by_groups.items():
                beyond = " | ".join(f"{100 * share:.2f} %" for share in row["beyond"].values())
                print(f"| {step} | {queues} | {groups} | {beyond} | {row['busiest']:.2f} |")
