"""What attention costs each device of an axis that splits a sequence (CPU, one thread, forward and backward).

Devices compute their shares one after the other: their own queries with the keys of all. `zigzag` gives device i of p
pieces i and 2p-1-i of 2p, `contiguous` piece i of p. slowest/mean is 1 where all compute as much; sum/whole is the
time of all devices over that of one device with the whole sequence, without positions. CPU seconds, the shortest round.
"""
import os
import subprocess

TARGETS = ["//tools/benchmarks:context_attention"]


def add_flags(parser):
    parser.add_argument("--tokens", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--devices", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--head_dim", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)


def run(args, binaries):
    for tokens in args.tokens:
        command = [os.path.join(binaries, "tools/benchmarks/context_attention"), tokens, args.heads, args.head_dim,
                   args.rounds, *args.devices]
        output = subprocess.run([str(x) for x in command], check=True, capture_output=True, text=True).stdout
        shares = {}
        for line in output.splitlines():
            name, *seconds = line.rsplit(":", 1)
            shares[name] = [float(x) for x in seconds[0].split()]
        whole = shares.pop("causal")[0]
        print(f"{tokens} tokens, {args.heads} heads of {args.head_dim}: the whole sequence in {whole * 1e3:.1f} ms")
        print("split         slowest/mean  sum/whole  ms of each device")
        for name, seconds in shares.items():
            mean = sum(seconds) / len(seconds)
            print(f"{name:13} {max(seconds) / mean:12.3f} {sum(seconds) / whole:10.3f}  "
                  + " ".join(f"{x * 1e3:.1f}" for x in seconds), flush=True)
