"""The model's matrix products against oneDNN: GFLOP/s of both sides and the ratio, shape by shape.

The ratio is oneflow / oneDNN: above 1 is faster. Each shape comes as y = x w, dx = dy wT, dw = xT dy. --peer=torch adds
the rate of PyTorch from pip, which calls MKL, and its ratio.
"""
import os
import subprocess

from benchmarks.sides import MODELS, ROOT, peer_python, products

TARGETS = ["//tools/benchmarks:matrix_products"]


def add_flags(parser):
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2-124m")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--peer", choices=["onednn", "torch"], default="onednn", help="torch: PyTorch from pip beside oneDNN")
    parser.add_argument("--torch_python", help="python of a virtual environment with torch and numpy")
    parser.add_argument("--install_torch", action="store_true", help="install PyTorch from pip")


def run(args, binaries):
    rounded = ",rounded" if args.dtype == "bf16" else ""  # activations are bf16, gradients of weights f32
    shapes = []
    for product in products(MODELS[args.model]):
        m, n, k, _, a, b = product.split(",")
        shapes.append(f"{m},{n},{k},{a},{b}" + ("" if a == "T" else rounded))
    ours = [os.path.join(binaries, "tools/benchmarks/matrix_products"), str(args.threads), args.dtype]
    print(f"{args.model}, {args.dtype}, {args.threads} threads; GFLOP/s of oneflow, of oneDNN, ratio"
          + ("; of PyTorch, ratio" if args.peer == "torch" else ""), flush=True)
    if args.peer == "onednn":
        subprocess.run([*ours, *shapes], check=True)
        return
    script = [peer_python(args), os.path.join(ROOT, "tools/benchmarks/torch_products.py"), *ours[1:]]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as torch:
        for shape in shapes:
            line = subprocess.run([*ours, shape], check=True, capture_output=True, text=True).stdout.rstrip()
            torch.stdin.write(shape + "\n")
            torch.stdin.flush()
            rate = float(torch.stdout.readline())
            print(f"{line} {rate:7.1f} {float(line.split()[-3]) / rate:6.3f}", flush=True)
        torch.stdin.close()
