"""Figures of a GPU: kernels, and tokens a second of GPT-2 124M."""
import os
import re
import statistics

ROUNDS = 3


def kernels(here, part):
    out = os.path.join(here.work, "cluster.textproto")
    done = here.oneflow("calibrate", "--device=cuda", "--out=" + out)
    if done.code == 2:
        part.skip("kernels", "oneflow calibrate --device=cuda: " + done.why())
        return
    part.judge(done.code == 0, "kernels", done.why(), seconds=done.seconds, file=out)


def tokens_a_second(text):
    """The median of what `oneflow train` prints, without the first steps."""
    rates = [float(rate) for rate in re.findall(r"(\d+(?:\.\d+)?) tokens/s", text)]
    return statistics.median(rates[len(rates) // 2:]) if rates else 0.0


def bench(here, part):
    if here.cuda_refused():
        part.skip("all", here.cuda_refused())
        return
    kernels(here, part)
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
