"""The two sides of a comparison, as processes: oneflow and PyTorch. And what both train."""
import json
import math
import os
import resource
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of the family of gpt where none is named.
MODELS = {
    "gpt2-124m": dict(layers=12, heads=12, hidden=768, sequence=256, vocab=50257, batch=4, bias=1),
    "small": dict(layers=4, heads=4, hidden=128, sequence=64, vocab=256, batch=12, bias=0),
    "llama-124m": dict(family="llama", layers=12, heads=12, groups=4, head_dim=64, hidden=768, inner=2432, sequence=256,
                       vocab=50257, batch=4),
    "llama-small": dict(family="llama", layers=4, heads=4, groups=2, head_dim=32, hidden=128, inner=384, sequence=64,
                        vocab=256, batch=12),
}
# Shapes of published models as config.json has them, but for their positions.
SHAPES = {
    "gpt2-124m": {"model_type": "gpt2"},
    "smollm2-135m": {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
                     "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "rope_theta": 100000.0,
                     "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    "qwen2.5-0.5b": {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
                     "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "rope_theta": 1000000.0,
                     "rms_norm_eps": 1e-6, "tie_word_embeddings": True},
    "llama3.2-1b": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
                    "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    "tiny": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "rope_theta": 10000.0, "rms_norm_eps": 1e-5,
             "tie_word_embeddings": True},
}
SCRIPTS = {"gpt": "torch_gpt2.py", "llama": "torch_llama.py"}
TORCH = "torch==2.13.0"
TORCH_CACHE = os.path.expanduser("~/.cache/oneflow/torch2")


def family(model):
    return model.get("family", "gpt")


def size_flags(model):
    """Flags of `oneflow model FAMILY`, and of the family's script."""
    return [f"--{name}={size}" for name, size in model.items() if name not in ("family", "batch")]


def build(targets):
    """Installs and builds what the figures need; returns the folder of the binaries."""
    subprocess.run([os.path.join(ROOT, "tools/install_deps"), "build", "bench"], check=True)
    if "ONEFLOW_BIN" in os.environ:  # built before
        return os.environ["ONEFLOW_BIN"]
    subprocess.run(["bazel", "build", "//tools/oneflow", *targets], cwd=ROOT, check=True)
    return os.path.join(ROOT, "bazel-bin")


def add_clock_flag(parser):
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="cpu: CPU seconds over threads, which a busy machine hardly changes; without waiting")


def add_peer_flags(parser):
    parser.add_argument("--peer", choices=["debian", "torch2"], default="debian",
                        help="Debian's python3-torch, or a newer PyTorch, eager and compiled")
    parser.add_argument("--torch_python", help="python of a virtual environment with torch and numpy")
    parser.add_argument("--install_torch", action="store_true", help=f"install {TORCH} under {TORCH_CACHE}")


def peer_python(args):
    """The python of the peer; exits where there is none."""
    if args.peer == "debian":
        return "/usr/bin/python3"
    if args.install_torch and not os.path.exists(TORCH_CACHE + "/bin/python"):
        subprocess.run(["/usr/bin/python3", "-m", "venv", TORCH_CACHE], check=True)
        subprocess.run([TORCH_CACHE + "/bin/pip", "install", TORCH, "numpy"], check=True)
    python = args.torch_python or TORCH_CACHE + "/bin/python"
    if not shutil.which(python):
        sys.exit(f"tools/bench: {python} is not there; give --torch_python=PATH or --install_torch (see --help)")
    return python


def has_avx512():
    with open("/proc/cpuinfo") as cpu:
        return "avx512f" in cpu.read()


def processor():
    """Its name."""
    with open("/proc/cpuinfo") as cpu:
        return next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), "?")


class Torch:
    """PyTorch in its own process, in its fastest configuration: see docs/performance.md."""

    def __init__(self, python, model, threads, *flags):
        # OpenMP's threads spin while they wait, against OpenBLAS's own: passive is up to twice as fast.
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
        env["OPENBLAS_CORETYPE"] = "SKYLAKEX" if has_avx512() else "HASWELL"
        script = os.path.join(ROOT, "tools/benchmarks", SCRIPTS[family(model)])
        sizes = [*size_flags(model), f"--batch={model['batch']}", f"--threads={threads}"]
        self.process = subprocess.Popen([python, script, *sizes, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)

    def ask(self, what, n):
        self.process.stdin.write(f"{what} {n}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("tools/bench: PyTorch ended; its message is above")
        return [float(x) for x in line.split()]

    def steps(self, n):
        return self.ask("steps", n)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Oneflow:
    """A plan of the model in a folder, and runs of it."""

    def __init__(self, binaries, folder, model, mesh="", threads=2, precision="f32", name="gpt", micro_batches=1,
                 schedule="1f1b", flags=()):
        self.binary = os.path.join(binaries, "tools/oneflow/oneflow")
        self.folder, self.threads = folder, threads
        self.cores = threads * math.prod(int(axis.split("=")[1]) for axis in mesh.split(",") if axis)
        self.plan, self.metrics = (os.path.join(folder, name + end) for end in [".plan", ".jsonl"])
        graph = os.path.join(folder, "model.textproto")
        self.run("model", family(model), *size_flags(model), "--out=" + graph)
        narrow = [] if precision == "f32" else ["--precision=" + precision, "--residual=f32"]  # as autocast
        self.run("compile", "--graph=" + graph, "--mesh=" + mesh, f"--batch={model['batch']}",
                 f"--micro_batches={micro_batches}", "--schedule=" + schedule, f"--threads={threads}", "--out=" + self.plan, *narrow,
                 *flags)

    def run(self, *args):
        return subprocess.run([self.binary, *args], check=True, stdout=subprocess.PIPE, text=True).stdout

    def noise(self):
        """Data that costs nothing to make."""
        path = os.path.join(self.folder, "noise")
        if not os.path.exists(path):
            with open(path, "wb") as out:
                out.write(os.urandom(1 << 20))
        return path

    def train(self, data, steps, *flags):
        """The metrics of a run, a dict a step."""
        self.run("train", "--plan=" + self.plan, "--data=" + data, f"--steps={steps}", f"--threads={self.threads}",
                 "--metrics=" + self.metrics, *flags)
        return self.rows()

    def rows(self):
        """The metrics of the last run."""
        with open(self.metrics) as lines:
            return [json.loads(line) for line in lines]

    def steps(self, n, clock="wall"):
        """Seconds of n steps, after one of warm-up; by the CPU's clock their mean."""
        if clock == "cpu":
            return [(self.cpu_seconds(n + 1) - self.cpu_seconds(1)) / n / self.cores]
        return [row["step_seconds"] for row in self.train(self.noise(), n + 1, "--learning_rate=1e-4")][1:]

    def cpu_seconds(self, steps):
        def used():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime
        before = used()
        self.steps(steps - 1)
        return used() - before


def weights(model):
    """Rows, columns and number of the weights that are multiplied."""
    h, layers = model["hidden"], model["layers"]
    if family(model) == "gpt":
        shapes = [(h, 3 * h, layers), (h, h, layers), (h, 4 * h, layers), (4 * h, h, layers)]
    else:
        heads, groups = (model[name] * model["head_dim"] for name in ("heads", "groups"))
        inner = model["inner"]
        shapes = [(h, heads + 2 * groups, layers), (heads, h, layers), (h, inner, 2 * layers), (inner, h, layers)]
    return [*shapes, (h, model["vocab"], 1)]


def products(model):
    """Every matrix product of a step, forward and backward, as matrix_floor wants them; attention's left out."""
    rows = model["batch"] * model["sequence"]
    for k, n, count in weights(model):
        yield f"{rows},{n},{k},{count},N,N"  # y = x w
        yield f"{rows},{k},{n},{count},N,T"  # dx = dy wT
        yield f"{k},{n},{rows},{count},T,N"  # dw = xT dy


def floor_seconds(binaries, model, threads, precision="f32"):
    """Seconds that the step's products alone take with oneDNN."""
    binary = os.path.join(binaries, "tools/benchmarks/matrix_floor")
    passive = dict(os.environ, OMP_WAIT_POLICY="passive")  # spinning would count as the CPU's time
    done = subprocess.run([binary, str(threads), precision, *products(model)], check=True, capture_output=True, text=True,
                          env=passive)
    return float(done.stdout.split()[0])
