"""GFLOP/s of PyTorch's matrix products (MKL's, where PyTorch comes from pip): a line of "m,n,k,a,b" in, a number out.

  torch_products.py THREADS f32|bf16

c[m, n] = a b; a is stored [k, m] if the fourth word is T, b [n, k] if the fifth is. Medians of nine.
"""
import statistics
import sys
import time

import torch


def main():
    torch.set_num_threads(int(sys.argv[1]))
    dtype = torch.bfloat16 if sys.argv[2] == "bf16" else torch.float32
    for line in sys.stdin:
        words = line.strip().split(",")
        m, n, k = map(int, words[:3])
        a = torch.rand((k, m) if words[3] == "T" else (m, k)).to(dtype)
        b = torch.rand((n, k) if words[4] == "T" else (k, n)).to(dtype)
        left, right = a.t() if words[3] == "T" else a, b.t() if words[4] == "T" else b
        out = torch.empty((m, n), dtype=dtype)
        flops, rates = 2 * m * n * k, []
        calls = max(1, min(200, int(5e9 / flops)))
        for _ in range(9):
            torch.mm(left, right, out=out)
            begin = time.perf_counter()
            for _ in range(calls):
                torch.mm(left, right, out=out)
            rates.append(flops * calls / (time.perf_counter() - begin) * 1e-9)
        print(statistics.median(rates), flush=True)


if __name__ == "__main__":
    main()
