"""Runs one of bit_runs and says what came out: losses, norms of gradients, weights. All bits of them."""
import hashlib
import json
import math
import os
import re
import struct
import subprocess

from benchmarks.bit_runs import MODELS, STEP

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "tests/bits")
CLUSTER = "--cluster=" + os.path.join(FOLDER, "cluster.textproto")
DATA_TOKENS = 4096
# A rate without a cosine, which moves weights in a step.
TRAIN = "--seed=7 --learning_rate=0.01 --lr_schedule=constant --warmup_steps=0"


class Refused(Exception):
    """A command of a run failed, or its graph does not state all layouts."""


def model_file(model):
    return os.path.join(FOLDER, model + ".textproto")


def layout_file(model, layout):
    return os.path.join(FOLDER, f"{model}.{layout}.layout")


def split_flags(*texts):
    """The flags of several texts, the last of a name winning: ["--batch=16", ...]."""
    flags = {}
    for flag in " ".join(texts).split():
        flags[flag.split("=")[0]] = flag
    return list(flags.values())


def call(binary, *args, cwd):
    done = subprocess.run([binary, *args], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"oneflow {' '.join(args)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def drawn():
    """Numbers of 31 bits by our own generator: the same on every machine and with every Python."""
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield state >> 33


def write_data(folder):
    """Text with some order in it, so that there is something to learn; bytes below 100."""
    tokens, draw = bytearray(1), drawn()
    while len(tokens) < DATA_TOKENS:
        tokens.append(next(draw) % 100 if next(draw) % 4 == 0 else (tokens[-1] + 1) % 100)
    path = os.path.join(folder, "text")
    with open(path, "wb") as out:
        out.write(tokens)
    return path


def write_npy(path, dims):
    """Numbers between -1 and 1, f32."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(dims)}, }}"
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    draw = drawn()
    values = [next(draw) / (1 << 30) - 1 for _ in range(math.prod(dims))]
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(struct.pack(f"<{len(values)}f", *values))


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def axes_split(flags):
    """The axes of a mesh that have several devices, `pipe` aside."""
    mesh = re.search(r"--mesh=(\S+)", flags)
    sizes = dict(axis.split("=") for axis in mesh[1].split(",")) if mesh else {}
    axes = []
    for name, size in sizes.items():
        parts = size.split("x")  # "data=2x2" is data.0 and data.1
        axes += [(f"{name}.{i}" if len(parts) > 1 else name, part) for i, part in enumerate(parts)]
    return [name for name, size in axes if name != "pipe" and size != "1"]


def list_stated_layouts(run):
    """(program, axis) of which a run's graph must state the layouts."""
    program = "run" if run.feeds else "train"
    stated = [(program, axis) for axis in axes_split(run.flags)]
    if "--eval_every" in run.flags:
        stated += [("eval", axis) for _, axis in stated]
    return stated + [(program, axis) for program in ["prefill", "decode"] for axis in axes_split(run.generate)]


def write_graph(run, folder):
    """The model, and the layouts that are stated of it."""
    with open(model_file(run.model), encoding="utf-8") as file:
        text = file.read()
    if run.layout:
        with open(layout_file(run.model, run.layout), encoding="utf-8") as file:
            text += file.read()
    for program, axis in list_stated_layouts(run):
        if f'program: "{program}" axis: "{axis}"' not in text:
            raise Refused(f"{run.name}: its graph does not state the layouts of program {program} on axis {axis}")
    path = os.path.join(folder, "graph.textproto")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    return path


def list_rows(dims, begin, size):
    """(first element in the tensor, in the slice) of each row of a slice's last dimension."""
    rows = [(0, 0)]
    for d, (whole, first, part) in enumerate(zip(dims, begin, size)):
        last = d == len(dims) - 1
        rows = [(at * whole + first + (0 if last else i), piece * part + (0 if last else i))
                for at, piece in rows for i in range(1 if last else part)]
    return rows


def whole_variable(folder, variable):
    """The bytes of a variable, put together from the slices of all ranks."""
    dims, whole = variable["dims"], None
    for piece in variable["slices"]:
        with open(os.path.join(folder, piece["file"]), "rb") as file:
            file.seek(piece["offset"])
            data = file.read(piece["bytes"])
        width = len(data) // math.prod(piece["size"])
        whole = whole or bytearray(math.prod(dims) * width)
        row = (piece["size"][-1] if dims else 1) * width
        for at, of in list_rows(dims, piece["begin"], piece["size"]):
            whole[at * width:at * width + row] = data[of * width:of * width + row]
    return bytes(whole)


def read_weights(checkpoints):
    """A digest of all variables of the latest checkpoint, the optimizer's states among them: however they are cut."""
    steps = [d for d in os.listdir(checkpoints) if os.path.exists(os.path.join(checkpoints, d, "manifest.json"))]
    folder = os.path.join(checkpoints, max(steps, key=lambda d: int(re.sub(r"\D", "", d))))
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        variables = json.load(file)["variables"]
    digest = hashlib.sha256()
    for variable in sorted(variables, key=lambda v: v["name"]):
        digest.update(json.dumps([variable["name"], variable["dtype"], variable["dims"]]).encode())
        digest.update(whole_variable(folder, variable))
    return digest.hexdigest()[:16]


def compute_digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def to_bits(numbers):
    return compute_digest(b"".join(struct.pack("<d", x) for x in numbers))


def read_numbers(metrics, checkpoints):
    with open(metrics, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    numbers = {"loss": rows[-1]["loss"], "losses": to_bits([row["loss"] for row in rows]),
               "weights": read_weights(checkpoints)}
    for name, key in [("norms", "grad_norm"), ("evals", "eval_loss")]:  # where weights lag, there is no norm
        values = [row[key] for row in rows if row.get(key) is not None]
        if values:
            numbers[name] = to_bits(values)
    return numbers


class Oracle:
    """Runs of one binary, at one instruction set, each in its own folder."""

    def __init__(self, binary, instruction_set="baseline", threads=2, flags=""):
        self.binary, self.instruction_set, self.threads, self.flags = binary, instruction_set, threads, flags

    def kernels(self, run):
        return [f"--threads={run.threads or self.threads}", "--instruction_set=" + self.instruction_set]

    def result(self, run, folder):
        """The result of a run: digests, by the names of their data."""
        if run.feeds:
            return self.fetched(run, folder)
        checkpoints = os.path.join(folder, "checkpoints")
        result = self.train(run, folder, checkpoints)
        if run.generate:
            result["tokens"] = self.generate(run, folder, checkpoints)
        return result

    def train(self, run, folder, checkpoints):
        metrics = os.path.join(folder, "metrics.jsonl")
        args = ["--graph=" + write_graph(run, folder), "--data=" + write_data(folder), CLUSTER, *self.kernels(run),
                "--metrics=" + metrics, "--checkpoint_dir=" + checkpoints]
        if run.order:
            args.append("--order=" + os.path.join(folder, "order.textproto"))
            with open(os.path.join(folder, "order.textproto"), "w", encoding="utf-8") as out:
                out.write(run.order)
        if run.resume_at:
            before = split_flags(STEP, TRAIN, run.before or run.flags, self.flags)
            call(self.binary, "train", *args, *before, f"--steps={run.resume_at}", cwd=folder)
            args.append("--resume")
        flags = split_flags(STEP, TRAIN, run.flags, self.flags)
        call(self.binary, "train", *args, *flags, f"--steps={run.steps}", cwd=folder)
        return read_numbers(metrics, checkpoints)

    def generate(self, run, folder, checkpoints):
        text = call(self.binary, "generate", "--checkpoint=" + checkpoints, *run.generate.split(), *self.kernels(run),
                    "--format=json", cwd=folder)
        return " ".join(str(token) for token in json.loads(text)["tokens"])

    def fetched(self, run, folder):
        graph = write_graph(run, folder)
        args = []
        for name, dims in run.feeds:
            path = os.path.join(folder, name + ".npy")
            write_npy(path, dims)
            args.append(f"--feed={name}={path}")
        with open(graph, encoding="utf-8") as file:
            outputs = re.findall(r'^output: "(.*)"', file.read(), re.MULTILINE)
        args += [f"--fetch={name}={os.path.join(folder, name)}.out.npy" for name in outputs]
        call(self.binary, "run", "--graph=" + graph, CLUSTER, *split_flags(run.flags), *args, "--shards", *self.kernels(run),
             cwd=folder)
        result = {}
        for name in outputs:
            files = sorted(f for f in os.listdir(folder) if f.startswith(name + ".out"))
            result[name] = compute_digest(b"".join(read_bytes(os.path.join(folder, f)) for f in files))
        return result

    def write_model(self, model, folder, path, shape=""):
        """A model's file, or one of another shape with ops of the same names."""
        call(self.binary, "model", "gpt", *split_flags(MODELS[model], shape), "--out=" + path, cwd=folder)

    def write_layout(self, name, layout, folder):
        """Lets the compiler choose a layout and makes its file."""
        model = name.split(".")[0]
        source, layouts = model_file(model), os.path.join(folder, "layouts.textproto")
        if layout.shape:
            source = os.path.join(folder, "shaped.textproto")
            self.write_model(model, folder, source, layout.shape)
        if "prefill" in layout.programs:
            checkpoints = os.path.join(folder, "checkpoints")
            call(self.binary, "train", "--graph=" + source, "--data=" + write_data(folder), *split_flags(STEP), "--steps=1",
                 "--checkpoint_dir=" + checkpoints, cwd=folder)
            call(self.binary, "generate", "--checkpoint=" + checkpoints, "--prompt=a", "--tokens=1", *split_flags(layout.flags),
                 "--layouts_out=" + layouts, cwd=folder)
        else:
            call(self.binary, "compile", "--graph=" + source, CLUSTER, *split_flags(layout.flags),
                 "--out=" + os.path.join(folder, "plan"), "--layouts_out=" + layouts, cwd=folder)
        with open(layouts, encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("layout {") and line.split('"')[1] in layout.programs]
        with open(layout_file(*name.split(".")), "w", encoding="utf-8") as out:
            out.writelines(lines)
