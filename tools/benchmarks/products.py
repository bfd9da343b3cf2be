"""The model's matrix products against oneDNN: GFLOP/s of both sides and the ratio, shape by shape.

The ratio is oneflow / oneDNN: above 1 is faster. Each shape comes as y = x w, dx = dy wT, dw = xT dy.
"""
import os
import subprocess

from benchmarks.sides import MODELS, products

TARGETS = ["//tools/benchmarks:matrix_products"]


def add_flags(parser):
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2-124m")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")


def run(args, binaries):
    rounded = ",rounded" if args.dtype == "bf16" else ""  # activations are bf16, gradients of weights f32
    shapes = []
    for product in products(MODELS[args.model]):
        m, n, k, _, a, b = product.split(",")
        shapes.append(f"{m},{n},{k},{a},{b}" + ("" if a == "T" else rounded))
    binary = os.path.join(binaries, "tools/benchmarks/matrix_products")
    print(f"{args.model}, {args.dtype}, {args.threads} threads; GFLOP/s of oneflow, of oneDNN, ratio", flush=True)
    subprocess.run([binary, str(args.threads), args.dtype, *shapes], check=True)
