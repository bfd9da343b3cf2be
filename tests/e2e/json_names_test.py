"""The names and the types of what each verb prints with --format=json, in their order: json_names.txt has them all.

A change of a name or of a type breaks programs that read it. Where one is meant, the test says what to write there.
calibrate and recipe print protos, whose names are those of proto/cluster.proto and proto/recipe.proto.
"""
import json
import pathlib
import tempfile
import textwrap
import unittest

from tests.e2e.cli import run

GOLDEN = "tests/e2e/json_names.txt"
# Their members are axes, kernels, kinds of work, stages, flags.
NAMED_BY_DATA = ("mesh", "seconds_by_kernel", "seconds_by_kind", "step_parts", "split", "bytes", "exchanges", "choices")
LETTERS = {bool: "b", int: "i", float: "f", str: "s", type(None): "null"}


def merge(a, b):
    """What both shapes allow: a member that one of them lacks may be missing."""
    if a is None or a == b:
        return b
    if isinstance(a, dict) and isinstance(b, dict):
        names = list(a) + [name for name in b if name not in a]
        return {name: merge(a.get(name, b.get(name)), b.get(name, a.get(name))) for name in names}
    if isinstance(a, list) and isinstance(b, list):
        return [merge(*pair) for pair in zip(a or b, b or a)]
    return "|".join(sorted(set(f"{a}|{b}".split("|"))))


def shape(value):
    if isinstance(value, dict):
        by_data = lambda name, part: name in NAMED_BY_DATA and isinstance(part, dict)
        return {name: {"*": merge_all(part.values())} if by_data(name, part) else shape(part) for name, part in value.items()}
    if isinstance(value, list):
        if value and isinstance(value[0], (int, float, str)) and len({type(part) for part in value}) > 1:
            return [shape(part) for part in value]  # a tuple
        return [merge_all(value)] if value else []
    return LETTERS[type(value)]


def merge_all(values):
    merged = None
    for value in values:
        merged = merge(merged, shape(value))
    return merged or "-"


def text(form):
    if isinstance(form, dict):
        return "{" + ", ".join(f"{name}: {text(part)}" for name, part in form.items()) + "}"
    return "[" + ", ".join(map(text, form)) + "]" if isinstance(form, list) else form


class JsonNamesTest(unittest.TestCase):
    def test_names_types_and_their_order_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = lambda *args, code=0: run(*args, "--format=json", cwd=folder, code=code)[0]
            read = lambda name: pathlib.Path(folder, name).read_text(encoding="utf-8")

            def write(name, content):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            write("chats.jsonl", '{"prompt": "one", "completion": "two"}\n' * 3)
            write("template.jinja", "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ ';' }}{% endfor %}")
            write("text.txt", "".join(f"line {i} of a text\n" for i in range(200)))
            run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto",
                cwd=folder)
            run("model", "llama", "--preset=llama-tiny", "--experts=4", "--out=moe.textproto", cwd=folder)
            write("classes.textproto", read("gpt.textproto").replace('name: "h.1.ln_1" ', 'name: "h.1.ln_1" recompute: "norm" '))
            graph, train = "--graph=gpt.textproto", ("--data=data/train.bin", "--batch=4", "--steps=8", "--threads=1")
            run("compile", graph, "--mesh=pipe=2,data=2", "--batch=8", "--micro_batches=2", "--threads=1", "--out=c.plan", "--lock=c.lock",
                cwd=folder)
            write("systems.textproto", 'system { name: "one" what: "One" slowdown: 1 region { sequence { most: 9 } parameters { most: 1e6 } '
                  'devices { most: 9 } device_tokens { most: 99 } runs: 2 models: 1 sigma: 0.1 } } '
                  'between_systems { sigma: 0.1 freedom: 1 what: "H100s" }')
            compared = lambda *flags: json.dumps(json.loads(printed("simulate", "--plan=c.plan", "--cluster=systems.textproto", *flags))["compared"])
            search = ("search", graph, "--batch=4", "--cluster=h100", "--fix=context=1,tensor=1,micro_batches=1")
            reports = {
                "compile": printed("compile", graph, "--mesh=pipe=2,data=2", "--batch=8", "--micro_batches=2", "--cluster=h100",
                                   "--device=cpu", "--shard=weights", "--out=a.plan"),
                "compile, headline of what rests on the host": json.dumps(json.loads(printed(
                    "compile", graph, "--batch=8", "--offload=states,weights", "--cluster=h100", "--device=cpu",
                    "--out=b.plan"))["headline"]),
                "compile, order for PyTorch": json.dumps(json.loads(printed(
                    "compile", graph, "--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--emit_schedule=order.csv"))["emit_schedule"]),
                "compile, price in the headline": json.dumps(json.loads(printed(
                    "compile", "--graph=moe.textproto", "--mesh=expert=2", "--batch=8"))["headline"]["price"]),
                "compile --emit": json.dumps(json.loads(printed(
                    "compile", graph, "--device=cuda", "--cluster=h100", "--mesh=data=2", "--emit=deepspeed"))["emit"]),
                "explain": printed("explain", "--plan=a.plan", "--processes=2"),
                "explain, classes of blocks": json.dumps(json.loads(printed(
                    "explain", "--graph=classes.textproto", "--batch=4"))["block_classes"]),
                "simulate": printed("simulate", "--plan=c.plan", "--processes=2", "--steps=200"),
                "simulate on a cluster": printed("simulate", "--plan=b.plan", "--cluster=h100"),
                "simulate, compared without --system": compared(),
                "simulate, compared with --system": compared("--system=one"),
                "verify": printed("verify", "--plan=a.plan"),
                "diff": printed("diff", "a.plan", "b.plan"),
                "diff --lock": printed("diff", "--lock=c.lock", "a.plan", "--fail_above=bytes:9GiB"),
                "compile --lock": read("c.lock"),
                "search": printed(*search, "--devices=2", "--why_not=pipe=2"),
                "search --compare": printed(*search, "--devices=2", "--compare=data=2", "--compare=pipe=2", "--compare=data=2,pipe=2"),
                "search --pareto": printed(*search, "--devices=1..2", "--pareto", "--price_per_device_hour=2"),
                "fit": printed("fit", "gpt.textproto", *search[2:], "--devices=2", "--budget_seconds=2"),
                "fit of what does not": printed("fit", "moe.textproto", *search[2:], "--devices=2", "--budget_seconds=2",
                                                "--memory=33MB", "--reserve=0", code=2),
                "data": printed("data", "--text=text.txt", "--tokenizer=bytes", "--val_fraction=0.1", "--out=data"),
                "data of chats": printed("data", "--chat", "--data=chats.jsonl", "--tokenizer=bytes",
                                         "--chat_template=template.jinja", "--out=chats"),
                "train": printed("train", graph, *train, "--job_dir=.", "--eval_data=data/val.bin", "--checkpoint_dir=ckpt"),
                "train, its records": printed("train", graph, "--data=data/train.bin", "--batch=4", "--epochs=1", "--threads=1").split("\n")[0],
                "eval": printed("eval", "--checkpoint=ckpt", "--data=data/val.bin", "--threads=1"),
                "generate": printed("generate", "--checkpoint=ckpt", "--prompt=a", "--tokens=2", "--threads=1"),
                "export": printed("export", "--checkpoint=ckpt", "--out=hf"),
                "import": printed("import", "--from=hf", "--out=imported"),
                "cluster": printed("cluster"),
                "devices": printed("devices", code=1),
                "submit": printed("submit", "--engine=kubernetes", "--image=a", "--volume_claim=b", "--job_dir=job", "--plan=b.plan",
                                  "--data=text.txt", "--checkpoint_every=1"),
                "status": printed("status", "--job_dir=job"),
                "outcome.json": read("outcome.json"),
            }
            write("job/attempts", "1 1 none\n")
            write("job/logs/attempt-1/process-0.log", "a line\n")
            reports["logs"] = printed("logs", "--job_dir=job")
            write("local/job.json", '{"engine": "local", "host": "h"}')
            reports["cancel"] = printed("cancel", "--job_dir=local")
        lines = []
        for verb, report in reports.items():
            values = map(json.loads, report.splitlines()) if verb == "train" else [json.loads(report)]
            forms = dict.fromkeys(text(shape(value)) for value in values)
            lines += [line for form in forms for line in textwrap.wrap(f"{verb}: {form}", 116, subsequent_indent="  ",
                                                                       break_long_words=False, break_on_hyphens=False)]
        with open(GOLDEN, encoding="utf-8") as golden:
            self.assertEqual("\n".join(lines) + "\n", golden.read(), "\nwrite this to " + GOLDEN + ":\n" + "\n".join(lines))


if __name__ == "__main__":
    unittest.main()
