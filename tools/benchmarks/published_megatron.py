"""Megatron-LM (Narayanan et al., SC'21), Table 1: TFLOP/s a GPU of five models on A100-80G.

Full recompute, interleaved 1F1B with scatter and gather between stages. The paper gives neither micro-batch nor chunks: the
micro-batch is searched, as there, and the rows at 1, 2 and 4 are shown; a stage has two chunks, or the next number that
divides its layers. FLOPs are those of the paper's formula, with recompute. No collective overlaps computation: Megatron-LM
does so for tensor parallelism since February 2022 (async_tensor_model_parallel_allreduce) and for data parallelism since
August 2023 (--overlap-grad-reduce), by its repository's log.
"""
from benchmarks.published_runs import PEAK, Model, Row

PAPER = "SC'21"
SHOWN, SEARCHED = (1, 2, 4), (1, 2, 4, 8, 16)
# billions of parameters, heads, hidden, layers, tensor, pipe, GPUs, global batch, TFLOP/s
TABLE = [
    (1.7, 24, 2304, 24, 1, 1, 32, 512, 137),
    (7.5, 32, 4096, 36, 4, 1, 128, 512, 142),
    (39.1, 64, 8192, 48, 8, 2, 512, 1536, 138),
    (145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148),
    (529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163),
]


def count_chunks(layers):
    """Chunks of a stage with this number of layers."""
    return next(v for v in range(2, layers + 1) if layers % v == 0)


def simulate_seconds(simulator, model, tensor, pipe, data, batch, size):
    """Seconds of a step; None if the micro-batch does not divide the batch, or the plan does not fit."""
    if batch % (data * size) != 0:
        return None
    axes = [("pipe", pipe), ("data", data), ("tensor", tensor)]
    mesh = ",".join(f"{name}={degree}" for name, degree in axes if degree > 1)
    flags = ["--recompute=full", "--overlap=false"]
    if pipe > 1:
        flags += ["--schedule=interleaved", f"--chunks={count_chunks(model.layers // pipe)}"]
    step = simulator.simulate(model, mesh, batch, batch // (data * size), *flags)
    return step and step["step_seconds"]


def rows(simulator, args):
    found = []
    for billions, heads, hidden, layers, tensor, pipe, gpus, batch, published in TABLE:
        model = Model(layers, heads, hidden, 2048, 51200)
        data = gpus // (tensor * pipe)
        rate = model.step_flops(batch, "full") / gpus / 1e12
        sizes = {size: simulate_seconds(simulator, model, tensor, pipe, data, batch, size) for size in SEARCHED}
        fitting = {size: seconds for size, seconds in sizes.items() if seconds is not None}
        best = min(fitting, key=fitting.get)
        for size in [best] + [size for size in SHOWN if size in fitting and size != best]:
            name = f"{billions}B micro-batch {size}" + (", searched" if size == best else "")
            found.append(Row(PAPER, name, "TFLOP/s", published, rate / fitting[size], PEAK / 1e12, in_mean=size == best))
    return found
