"""Figures of a GPU: kernels, six plans simulated against measured, and tokens a second of GPT-2 124M and 1.5B, beside those
of the same training under torch.compile where PyTorch is installed."""
import json
import os
import re
import statistics

from gpu_checks import machine

ROUNDS = 3
BATCH = 8
SPEED_STEPS = 30
SPEEDS = [("gpt2-124m", "bf16"), ("gpt2-124m", "f32"), ("gpt2-1.5b", "bf16")]
# Of the presets, for PyTorch.
SHAPES = {"gpt2-124m": {"layers": 12, "heads": 12, "hidden": 768, "sequence": 1024, "vocab": 50257},
          "gpt2-1.5b": {"layers": 48, "heads": 25, "hidden": 1600, "sequence": 1024, "vocab": 50257}}
# tools/benchmarks/torch_gpt2.py, which tools/bundle copies with torch_peer.py.
TORCH = os.path.join(machine.ROOT, "gpu_checks", "torch_gpt2.py")
STEPS = 12  # of a plan that is measured; the first four are left out
MOST_OFF = 0.15  # simulated against measured, the mean over the plans
# preset, what it is compiled with beside --device=cuda
PLANS = [
    ("gpt2-124m", ["--batch=8", "--precision=bf16"]),
    ("gpt2-124m", ["--batch=8"]),
    ("gpt2-124m", ["--batch=32", "--micro_batches=4", "--precision=bf16"]),
    ("gpt2-124m", ["--batch=8", "--precision=bf16", "--recompute=full"]),
    ("gpt2-350m", ["--batch=8", "--precision=bf16"]),
    ("gpt2-350m", ["--batch=16", "--micro_batches=4", "--precision=bf16"]),
]


def kernels(here, part):
    """The cluster file of one GPU; None where it could not be measured."""
    out = os.path.join(here.work, "gpu.textproto")
    done = here.oneflow("calibrate", "--device=cuda", "--devices=1", "--out=" + out)
    part.judge(done.code == 0, "kernels", done.why(), seconds=done.seconds, file=out)
    return out if done.code == 0 else None


def measured(here, plan):
    """(seconds of a step of a plan, the median without the first steps, None), or (None, why there are none)."""
    metrics = os.path.join(here.work, "metrics.jsonl")
    done = here.oneflow("train", "--plan=" + plan, "--data=" + here.text(), f"--steps={STEPS}", "--metrics=" + metrics)
    if done.code != 0:
        return None, done.why()
    with open(metrics, encoding="utf-8") as file:
        seconds = [line["step_seconds"] for line in map(json.loads, file) if "step_seconds" in line]
    return statistics.median(seconds[STEPS // 3:]), None


def simulated_against_measured(here, part, cluster):
    off = []
    for preset, flags in PLANS:
        check = " ".join(["simulated", preset, *flags])
        plan = os.path.join(here.work, "simulated.plan")
        done = here.oneflow("compile", "--graph=" + here.model(preset, "--preset=" + preset), "--device=cuda",
                            "--cluster=" + cluster, *flags, "--out=" + plan)
        if done.code == 0:
            done = here.oneflow("simulate", "--plan=" + plan, "--cluster=" + cluster, "--format=json")
        if done.code != 0:
            part.fail(check, done.why())
            continue
        step = json.loads(done.out)["step_seconds"]
        seconds, why = measured(here, plan)
        if seconds is None:
            part.fail(check, why)
            continue
        off.append(abs(step / seconds - 1))
        part.passed(check, simulated_seconds=step, measured_seconds=seconds, off=off[-1])
    if len(off) == len(PLANS):
        mean = statistics.mean(off)
        part.judge(mean <= MOST_OFF, "simulated against measured, six plans", f"more than {MOST_OFF:.0%} off", off=mean)


def tokens_a_second(text):
    """The median of what `oneflow train` prints, without the first steps."""
    rates = [float(rate) for rate in re.findall(r"(\d+(?:\.\d+)?) tokens/s", text)]
    return statistics.median(rates[len(rates) // 2:]) if rates else 0.0


def trained(here, graph, precision):
    """(tokens a second of `oneflow train`, the program)."""
    done = here.oneflow("train", "--graph=" + graph, "--device=cuda", f"--batch={BATCH}", "--precision=" + precision,
                        "--data=" + here.text(), f"--steps={SPEED_STEPS}", "--seed=1")
    return tokens_a_second(done.out + done.err), done


def compiled_by_torch(here, shape, precision):
    """The same of the same training in PyTorch under torch.compile."""
    flags = [f"--{name}={size}" for name, size in shape.items()]
    done = here.run(here.torch_python, TORCH, *flags, f"--batch={BATCH}", "--threads=1", "--precision=" + precision, "--compile",
                    "--device=cuda", stdin=f"steps {SPEED_STEPS}\n")
    seconds = [float(second) for second in done.out.split()] if done.code == 0 else []
    return BATCH * shape["sequence"] / statistics.median(seconds[len(seconds) // 2:]) if seconds else 0.0, done


def why_no_torch(here):
    """"" if PyTorch can train on the GPU."""
    done = here.run(here.torch_python, "-c", "import numpy, torch; assert torch.cuda.is_available(), 'PyTorch sees no GPU'")
    return "" if done.code == 0 else "no PyTorch beside it (--torch_python): " + done.why().splitlines()[-1]


def speed(here, part, preset, precision, no_torch):
    """Tokens a second of one GPU, in rounds of oneflow and torch.compile, and their ratio."""
    graph, rates, peer = here.model(preset, "--preset=" + preset), [], []
    check = f"{preset}, {precision}, batch {BATCH}, one GPU"
    beside = check + ": torch.compile"
    why = no_torch
    for _ in range(ROUNDS):
        rate, done = trained(here, graph, precision)
        if done.code != 0:
            part.fail(check, done.why())
            return
        rates.append(rate)
        if not why:
            rate, done = compiled_by_torch(here, SHAPES[preset], precision)
            peer.append(rate)
            why = "" if rate > 0 else "torch_gpt2.py: " + done.why()
    part.judge(min(rates) > 0, check, "printed no tokens/s", tokens_a_second=statistics.median(rates), slowest=min(rates),
               fastest=max(rates))
    if why:
        part.skip(beside, why)
        return
    part.passed(beside, tokens_a_second=statistics.median(peer), slowest=min(peer), fastest=max(peer),
                oneflow_to_torch=statistics.median(rates) / statistics.median(peer))


def bench(here, part):
    if here.cuda_refused():
        part.skip("all", here.cuda_refused())
        return
    cluster = kernels(here, part)
    if cluster is None:
        part.skip("simulated against measured, six plans", "the GPU could not be measured")
    else:
        simulated_against_measured(here, part, cluster)
    no_torch = why_no_torch(here)
    for preset, precision in SPEEDS:
        speed(here, part, preset, precision, no_torch)
