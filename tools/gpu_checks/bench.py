"""Figures of a GPU: kernels, six plans simulated against measured, and tokens a second of GPT-2 124M."""
import json
import os
import re
import statistics

ROUNDS = 3
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


def bench(here, part):
    if here.cuda_refused():
        part.skip("all", here.cuda_refused())
        return
    cluster = kernels(here, part)
    if cluster is None:
        part.skip("simulated against measured, six plans", "the GPU could not be measured")
    else:
        simulated_against_measured(here, part, cluster)
    graph = here.model("gpt2-124m", "--preset=gpt2-124m")
    for precision in ["bf16", "f32"]:
        rates = []
        for _ in range(ROUNDS):
            done = here.oneflow("train", "--graph=" + graph, "--device=cuda", "--batch=8", "--precision=" + precision,
                                "--data=" + here.text(), "--steps=30", "--seed=1")
            if done.code != 0:
                break
            rates.append(tokens_a_second(done.out + done.err))
        check = f"gpt2-124m, {precision}, batch 8, one GPU"
        if done.code != 0:
            part.fail(check, done.why())
        else:
            part.judge(min(rates) > 0, check, "printed no tokens/s", tokens_a_second=statistics.median(rates),
                       slowest=min(rates), fastest=max(rates))
