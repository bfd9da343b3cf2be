"""Bytes a device for GPT-2 124M, batch 4 x 256, at 1, 2 and 4 devices.

The planned memory, the peak resident size of the process that runs all devices (one step, and once more with a
checkpoint written and loaded), and PyTorch's for the same step.
"""
import json
import os
import subprocess
import sys
import tempfile

TARGETS = []
MODEL = dict(layers=12, heads=12, hidden=768, sequence=256, vocab=50257)
BATCH = 4
MESHES = ["", "data=2", "tensor=2", "pipe=2", "data=4", "data=2,tensor=2", "pipe=2,tensor=2"]
HERE = os.path.dirname(os.path.abspath(__file__))


def peak_bytes(command, stdin=None):
    """Runs a command; its peak resident size."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    if stdin:
        process.stdin.write(stdin)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"bench: failed: {' '.join(command)}")
    return usage.ru_maxrss * 1024


def torch_bytes(threads):
    flags = [f"--{name}={value}" for name, value in MODEL.items()]
    return peak_bytes(["/usr/bin/python3", os.path.join(HERE, "torch_gpt2.py"), *flags, f"--batch={BATCH}",
                       f"--threads={threads}"], stdin="steps 2\n")


def measure(oneflow, folder, mesh, threads):
    """Bytes of one mesh: a dictionary."""
    plan, text = os.path.join(folder, "gpt.plan"), os.path.join(folder, "text")
    compiled = subprocess.run([oneflow, "compile", "--graph=" + os.path.join(folder, "gpt.textproto"), "--mesh=" + mesh,
                               f"--batch={BATCH}", f"--threads={threads}", "--format=json", "--out=" + plan],
                              check=True, capture_output=True, text=True)
    stages = json.loads(compiled.stdout)["stages"]
    train = [oneflow, "train", "--plan=" + plan, "--data=" + text, f"--threads={threads}"]
    return {"mesh": mesh or "one device", "devices": sum(s["devices"] for s in stages),
            "device_bytes": max(s["arena_bytes"] for s in stages),
            "lower_bound_bytes": max(s["lower_bound_bytes"] for s in stages),
            "planned_bytes": sum(s["devices"] * s["arena_bytes"] for s in stages),
            "resident_bytes": peak_bytes([*train, "--steps=1"])}


def resumed_bytes(oneflow, folder, threads):
    """Peak of a run on one device that loads a checkpoint and writes one."""
    plan, text = os.path.join(folder, "gpt.plan"), os.path.join(folder, "text")
    subprocess.run([oneflow, "compile", "--graph=" + os.path.join(folder, "gpt.textproto"), f"--batch={BATCH}",
                    "--out=" + plan], check=True, stdout=subprocess.DEVNULL)
    train = [oneflow, "train", "--plan=" + plan, "--data=" + text, f"--threads={threads}",
             "--checkpoint_dir=" + os.path.join(folder, "checkpoints")]
    peak_bytes([*train, "--steps=1"])
    return peak_bytes([*train, "--steps=2", "--resume"])


def add_flags(parser):
    pass


def run(args, binaries):
    oneflow = os.path.join(binaries, "tools/oneflow/oneflow")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text"), "wb") as out:
            out.write(os.urandom(1 << 20))
        shape = [f"--{name}={value}" for name, value in MODEL.items()]
        subprocess.run([oneflow, "model", "gpt", *shape, "--out=" + os.path.join(folder, "gpt.textproto")], check=True,
                       stdout=subprocess.DEVNULL)
        rows = []
        for mesh in MESHES:
            print(f"measuring {mesh or 'one device'}", file=sys.stderr)
            rows.append(measure(oneflow, folder, mesh, args.threads))
        resumed = resumed_bytes(oneflow, folder, args.threads)
        torch = torch_bytes(args.threads)
    if args.format == "json":
        print(json.dumps({"rows": rows, "resumed_resident_bytes": resumed, "pytorch_resident_bytes": torch}))
        return
    mib = 1 << 20
    print("                    a device      lower bound   all devices   resident      beyond the plan   of PyTorch's")
    for row in rows:
        print(f"{row['mesh']:18s} {row['device_bytes'] / mib:8.0f} MiB  {row['lower_bound_bytes'] / mib:8.0f} MiB  "
              f"{row['planned_bytes'] / mib:8.0f} MiB  {row['resident_bytes'] / mib:8.0f} MiB  "
              f"{(row['resident_bytes'] - row['planned_bytes']) / mib:8.1f} MiB      "
              f"{100 * row['resident_bytes'] / torch:5.0f} %")
    print(f"one device, with a checkpoint loaded and one written: resident {resumed / mib:.0f} MiB")
    print(f"PyTorch, one device: resident {torch / mib:.0f} MiB")
