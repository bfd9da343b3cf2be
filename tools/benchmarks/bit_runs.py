"""The runs of `tools/bench bits`: models, the layouts that are stated for them, and what is run.

A run's graph is the file of its model, tests/bits/MODEL.textproto, and behind it that of its layout,
tests/bits/MODEL.LAYOUT.layout, which states the layout of every op on every axis but `pipe`. So the bits depend on no cost
but those of boxing.
"""
import dataclasses

TINY = "--heads=4 --hidden=32 --sequence=16 --vocab=128"
# Flags of `oneflow model gpt`, by model. Others are written by hand.
MODELS = {
    "base": f"--layers=4 {TINY}",
    "plain": f"--layers=6 {TINY} --bias=false --tied=false",
    "dropout": f"--layers=4 {TINY} --dropout=0.1",
    "unfused": f"--layers=2 {TINY} --dropout=0.1 --attention=unfused --masks=stored",
    # Neither heads, hidden, sequence nor vocabulary is divided evenly by two or four.
    "ragged": "--layers=2 --heads=3 --hidden=27 --sequence=13 --vocab=131",
}
STEP = "--batch=16 --micro_batches=4"
RAGGED = "--batch=20 --micro_batches=4"
EVAL = "--eval_fraction=0.25 --eval_every=2 --eval_batches=2"
NO_NORM = "--global_norm=false --clip=0"
WIDE = "--precision=bf16 --residual=f32"
NARROW = "--precision=bf16"
SEQUENCE = "--sequence_parallel"
STATES = "--shard=states"
LAG = "--schedule=2bw --clip=0 --steps_a_round=2"
# Between blocks positions are split where tensors are large, and where a device has one sequence.
LONG = "--hidden=512 --sequence=1024"
ONE_EACH, TWO_EACH = "--batch=4 --micro_batches=4", "--batch=8 --micro_batches=4"


@dataclasses.dataclass(frozen=True)
class Layout:
    """The commands that choose a layout."""
    flags: str           # of `oneflow compile`, or of `oneflow generate`
    shape: str = ""      # of `oneflow model gpt`, instead of the model's
    programs: tuple = ("train",)


def compile_flags(mesh, *flags):
    return " ".join([f"--mesh={mesh}", *flags])


GENERATED = ("prefill", "decode")
LAYOUTS = {
    "base.data": Layout(compile_flags("data=2", STEP)),
    "base.data_factored": Layout(compile_flags("data=2x2", STEP)),
    "base.tensor": Layout(compile_flags("tensor=2", STEP)),
    "base.data_tensor": Layout(compile_flags("data=2,tensor=2", STEP)),
    "base.eval": Layout(compile_flags("data=2,tensor=2", STEP), programs=("train", "eval")),
    "base.sequence": Layout(compile_flags("tensor=2", SEQUENCE, ONE_EACH), LONG),
    "base.data_sequence": Layout(compile_flags("data=2,tensor=2", SEQUENCE, TWO_EACH), LONG),
    "base.wide_data": Layout(compile_flags("data=2", WIDE, STEP)),
    "base.wide_data_tensor": Layout(compile_flags("data=2,tensor=2", WIDE, STEP)),
    "base.wide_data_sequence": Layout(compile_flags("data=2,tensor=2", WIDE, SEQUENCE, TWO_EACH), LONG),
    "base.bf16_data_tensor": Layout(compile_flags("data=2,tensor=2", NARROW, STEP)),
    "base.bf16_sequence": Layout(compile_flags("tensor=2", NARROW, SEQUENCE, ONE_EACH), LONG),
    "base.lag_data_tensor": Layout(compile_flags("pipe=2,data=2,tensor=2", LAG, STEP)),
    "base.generate": Layout("--mesh=data=2,tensor=2", programs=GENERATED),
    "plain.data_tensor": Layout(compile_flags("data=2,tensor=2", STEP)),
    "dropout.data_tensor": Layout(compile_flags("data=2,tensor=2", STEP)),
    "unfused.tensor": Layout(compile_flags("tensor=2", STEP)),
    "ragged.data_tensor": Layout(compile_flags("data=2,tensor=2", RAGGED)),
    "ragged.sequence": Layout(compile_flags("tensor=2", SEQUENCE, ONE_EACH), "--heads=3 --hidden=528 --sequence=1024"),
    "boxing.data_tensor": Layout("--mesh=data=2,tensor=2", programs=("run",)),
    "sums.data_tensor": Layout("--mesh=data=2,tensor=2", programs=("run",)),
}

EIGHT_PLACES = "--stage_layers=0,1,1,1,1,1,1,0"
ORDER = """
stage { task: "F0 F1 B0 F2 B1 F3 B2 B3" }
stage { task: "F0 F1 B0 B1 F2 B2 F3 B3" }
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the oracle."""
    name: str
    flags: str = ""      # of `oneflow train`; those of STEP hold where it does not say them
    model: str = "base"
    layout: str = ""     # of LAYOUTS, without the model's name; none where there is no axis but `pipe`
    same: str = ""       # the run whose bits it must have (law 6)
    steps: int = 3
    threads: int = 0     # kernel threads; 0: those of the command line
    order: str = ""      # the text of a file for --order
    resume_at: int = 0   # the run ends after so many steps and is resumed
    before: str = ""     # its flags until then, where they are others
    generate: str = ""   # flags of `oneflow generate`, from the checkpoint
    feeds: tuple = ()    # of `oneflow run`, which then stands for `train`: (name, dims) of inputs
    quick: bool = False  # in the default tier, too


def training(group, rows, **common):
    """Runs of one model and layout: (name, flags, more); all have the bits of the first."""
    first = f"{group}/{rows[0][0]}"
    return [Run(f"{group}/{name}", flags, same="" if i == 0 else first, **{**common, **more})
            for i, (name, flags, more) in enumerate(rows)]


QUICK = dict(quick=True)
GENERATE = "--prompt=abcab --tokens=24 --temperature=0.9 --top_k=60 --top_p=0.95 --seed=3"
BOXED = (("x", (5, 11)), ("w", (11, 9)))

RUNS = [
    *training("base", [
        ("one", "", QUICK),
        ("threads=5", "", dict(threads=5, quick=True)),
        ("resumed", "", dict(resume_at=2)),
        ("resumed with pipe=2", "--mesh=pipe=2", dict(resume_at=1, before="--mesh=pipe=4", quick=True)),
        ("unfused", "--fuse=false", {}),
        ("sync_every", "--batch=8 --micro_batches=2 --sync_every=2", {}),
        ("recompute=full", "--recompute=full", {}),
        ("recompute=selective", "--recompute=selective", {}),
        ("recompute=attention", "--recompute=attention", {}),
        ("recompute=mix", "--recompute=none:1,full:1,selective:1,attention", {}),
        ("pipe=2 recompute=mix", "--mesh=pipe=2 --recompute=full:2/1,attention:0/1", {}),
        ("pipe=2 gpipe", "--mesh=pipe=2 --schedule=gpipe", {}),
        ("pipe=2 1f1b", "--mesh=pipe=2", {}),
        ("pipe=2 interleaved", "--mesh=pipe=2 --schedule=interleaved", QUICK),
        ("pipe=2 zero_bubble", "--mesh=pipe=2 --schedule=zero_bubble", QUICK),
        ("pipe=2 zero_bubble e=1", "--mesh=pipe=2 --schedule=zero_bubble --extra_in_flight=1 --recompute=selective", {}),
        ("pipe=2 order", "--mesh=pipe=2", dict(order=ORDER, quick=True)),
        ("pipe=2 layers=1,3", "--mesh=pipe=2 --stage_layers=1,3", {}),
        ("pipe=4 1f1b", "--mesh=pipe=4 --recompute=full", {}),
        ("pipe=4 gpipe", "--mesh=pipe=4 --schedule=gpipe", QUICK),
        ("pipe=4 zero_bubble e=3", "--mesh=pipe=4 --schedule=zero_bubble --extra_in_flight=3", {}),
    ]),
    *training("16 micro-batches", [
        ("one", "--batch=32 --micro_batches=16", {}),
        ("pipe=2 interleaved", "--mesh=pipe=2 --schedule=interleaved --batch=32 --micro_batches=16", {}),
        ("pipe=4 1f1b", "--mesh=pipe=4 --batch=32 --micro_batches=16", QUICK),
        ("pipe=4 zero_bubble", "--mesh=pipe=4 --schedule=zero_bubble --batch=32 --micro_batches=16", {}),
    ]),
    *training("no norm", [
        ("one", NO_NORM, {}),
        ("pipe=4 zero_bubble e=3", f"--mesh=pipe=4 --schedule=zero_bubble --extra_in_flight=3 {NO_NORM}", QUICK),
    ]),
    *training("data=2", [
        ("one", "--mesh=data=2", QUICK),
        ("pipe=2 1f1b", "--mesh=pipe=2,data=2", {}),
        ("pipe=2 interleaved", "--mesh=pipe=2,data=2 --schedule=interleaved --recompute=selective", {}),
        ("pipe=4 zero_bubble", "--mesh=pipe=4,data=2 --schedule=zero_bubble", {}),
    ], layout="data"),
    *training("data=4", [
        ("one", "--mesh=data=4", {}),
        ("pipe=2 zero_bubble", "--mesh=pipe=2,data=4 --schedule=zero_bubble", {}),
    ], layout="data"),
    *training("data=2x2", [
        ("one", "--mesh=data=2x2", {}),
        ("pipe=2 1f1b", "--mesh=pipe=2,data=2x2", QUICK),
    ], layout="data_factored"),
    *training("tensor=2", [
        ("one", "--mesh=tensor=2", QUICK),
        ("pipe=2 zero_bubble", "--mesh=pipe=2,tensor=2 --schedule=zero_bubble", {}),
        ("pipe=4 gpipe", "--mesh=pipe=4,tensor=2 --schedule=gpipe --recompute=full", {}),
    ], layout="tensor"),
    *training("tensor=4", [
        ("one", "--mesh=tensor=4", {}),
        ("pipe=2 interleaved", "--mesh=pipe=2,tensor=4 --schedule=interleaved", {}),
    ], layout="tensor"),
    *training("data=2,tensor=2", [
        ("one", "--mesh=data=2,tensor=2", QUICK),
        ("pipe=2 1f1b", "--mesh=pipe=2,data=2,tensor=2", {}),
        ("pipe=2 zero_bubble", "--mesh=pipe=2,data=2,tensor=2 --schedule=zero_bubble --recompute=full", QUICK),
        ("states", f"--mesh=data=2,tensor=2 {STATES}", QUICK),
        ("states overlap", f"--mesh=data=2,tensor=2 {STATES} --overlap=true", QUICK),
        ("states resumed with pipe=2", f"--mesh=pipe=2,data=2,tensor=2 {STATES}",
         dict(resume_at=1, before=f"--mesh=data=2,tensor=2 {STATES} --overlap=true")),
        ("states pipe=2 zero_bubble", f"--mesh=pipe=2,data=2,tensor=2 {STATES} --schedule=zero_bubble --overlap=true", {}),
    ], layout="data_tensor"),
    *training("eval data=2,tensor=2", [
        ("one", f"--mesh=data=2,tensor=2 {EVAL}", {}),
        ("pipe=2 gpipe", f"--mesh=pipe=2,data=2,tensor=2 --schedule=gpipe {EVAL}", QUICK),
    ], layout="eval"),
    *training("data=4,tensor=2", [
        ("one", "--mesh=data=4,tensor=2", {}),
        ("states", f"--mesh=data=4,tensor=2 {STATES} --overlap=true", {}),
    ], layout="data_tensor"),
    *training("data=2,tensor=4", [("one", "--mesh=data=2,tensor=4", {})], layout="data_tensor"),
    *training("sequence=2", [
        ("one", f"--mesh=tensor=2 {SEQUENCE}", QUICK),
        ("gather", f"--mesh=tensor=2 {SEQUENCE} --recompute=selective,gather", QUICK),
        ("pipe=2 zero_bubble", f"--mesh=pipe=2,tensor=2 {SEQUENCE} --schedule=zero_bubble --recompute=full,gather", {}),
    ], layout="sequence"),
    *training("sequence=4", [("one", f"--mesh=tensor=4 {SEQUENCE}", {})], layout="sequence"),
    *training("data=2,sequence=2", [
        ("one", f"--mesh=data=2,tensor=2 {SEQUENCE}", {}),
        ("pipe=2 1f1b gather", f"--mesh=pipe=2,data=2,tensor=2 {SEQUENCE} --recompute=attention,gather", QUICK),
    ], layout="data_sequence"),
    *training("residual=f32", [
        ("one", WIDE, {}),
        ("pipe=2 zero_bubble", f"--mesh=pipe=2 --schedule=zero_bubble {WIDE}", QUICK),
        ("pipe=4 1f1b", f"--mesh=pipe=4 --recompute=full {WIDE}", {}),
    ]),
    *training("residual=f32 data=2", [
        ("one", f"--mesh=data=2 {WIDE}", {}),
        ("states", f"--mesh=data=2 {WIDE} {STATES}", {}),
        ("states pipe=2 1f1b", f"--mesh=pipe=2,data=2 {WIDE} {STATES} --recompute=full --overlap=true", QUICK),
    ], layout="wide_data"),
    *training("residual=f32 data=2,tensor=2", [
        ("one", f"--mesh=data=2,tensor=2 {WIDE}", QUICK),
        ("pipe=2 1f1b", f"--mesh=pipe=2,data=2,tensor=2 {WIDE}", {}),
    ], layout="wide_data_tensor"),
    *training("residual=f32 data=2,sequence=2", [
        ("one", f"--mesh=data=2,tensor=2 {SEQUENCE} {WIDE}", {}),
        ("pipe=2 zero_bubble gather", f"--mesh=pipe=2,data=2,tensor=2 {SEQUENCE} {WIDE} --schedule=zero_bubble "
                                      "--recompute=selective,gather", {}),
    ], layout="wide_data_sequence"),
    # Gradients are reduced with every micro-batch, split or not.
    *training("reduced data=2", [
        ("one", "--mesh=data=2 --reduce=each_micro_batch", QUICK),
        ("gradients", "--mesh=data=2 --shard=gradients", {}),
        ("weights", "--mesh=data=2 --shard=weights", QUICK),
        ("weights gathered once", "--mesh=data=2 --shard=weights --gather=once --overlap=true", {}),
        ("weights pipe=2 interleaved", "--mesh=pipe=2,data=2 --shard=weights --schedule=interleaved --overlap=true", {}),
    ], layout="data"),
    *training("bf16", [
        ("one", NARROW, {}),
        ("pipe=2 1f1b", f"--mesh=pipe=2 {NARROW}", {}),
    ]),
    *training("bf16 data=2,tensor=2", [
        ("one", f"--mesh=data=2,tensor=2 {NARROW}", {}),
        ("pipe=2 zero_bubble", f"--mesh=pipe=2,data=2,tensor=2 {NARROW} --schedule=zero_bubble", QUICK),
    ], layout="bf16_data_tensor"),
    *training("bf16 sequence=2", [("one", f"--mesh=tensor=2 {SEQUENCE} {NARROW}", QUICK)],
              layout="bf16_sequence"),
    *training("dropout", [
        ("one", "", {}),
        ("pipe=2 zero_bubble", "--mesh=pipe=2 --schedule=zero_bubble --recompute=full", QUICK),
    ], model="dropout"),
    *training("dropout data=2,tensor=2", [
        ("one", "--mesh=data=2,tensor=2", {}),
        ("pipe=2 1f1b", "--mesh=pipe=2,data=2,tensor=2 --recompute=selective", {}),
    ], model="dropout", layout="data_tensor"),
    *training("unfused attention", [
        ("one", "", {}),
        ("recompute=attention", "--recompute=attention", {}),
    ], model="unfused"),
    *training("unfused attention tensor=2", [
        ("one", "--mesh=tensor=2", {}),
        ("pipe=2 1f1b", "--mesh=pipe=2,tensor=2 --recompute=attention", QUICK),
    ], model="unfused", layout="tensor"),
    *training("plain", [
        ("one", "", {}),
        ("pipe=2 interleaved v=3", "--mesh=pipe=2 --schedule=interleaved --chunks=3", {}),
        ("pipe=4 interleaved", f"--mesh=pipe=4 --schedule=interleaved {EIGHT_PLACES}", QUICK),
    ], model="plain"),
    *training("plain, 6 micro-batches", [
        ("one", "--batch=12 --micro_batches=6", {}),
        ("pipe=4 interleaved", f"--mesh=pipe=4 --schedule=interleaved {EIGHT_PLACES} --batch=12 --micro_batches=6", {}),
    ], model="plain"),
    *training("plain data=2,tensor=2", [
        ("one", "--mesh=data=2,tensor=2", {}),
        ("pipe=2 zero_bubble", "--mesh=pipe=2,data=2,tensor=2 --schedule=zero_bubble", {}),
    ], model="plain", layout="data_tensor"),
    *training("ragged", [
        ("one", RAGGED, {}),
        ("pipe=2 1f1b", f"--mesh=pipe=2 {RAGGED}", {}),
    ], model="ragged"),
    *training("ragged data=2,tensor=2", [
        ("one", f"--mesh=data=2,tensor=2 {RAGGED}", QUICK),
        ("pipe=2 zero_bubble", f"--mesh=pipe=2,data=2,tensor=2 {RAGGED} --schedule=zero_bubble", {}),
    ], model="ragged", layout="data_tensor"),
    *training("ragged data=4,tensor=2", [("one", f"--mesh=data=4,tensor=2 {RAGGED}", {})], model="ragged",
              layout="data_tensor"),
    *training("ragged sequence=2", [
        ("one", f"--mesh=tensor=2 {SEQUENCE} {RAGGED}", {}),
        ("pipe=2 1f1b gather", f"--mesh=pipe=2,tensor=2 {SEQUENCE} {RAGGED} --recompute=full,gather", QUICK),
    ], model="ragged", layout="sequence"),
    *training("lag 1", [
        ("pipe=2 2bw", f"--mesh=pipe=2 {LAG}", dict(quick=True, steps=4)),
        ("pipe=4 2bw", f"--mesh=pipe=4 {LAG} --recompute=full", dict(steps=4)),
        ("pipe=2 staleness", "--mesh=pipe=2 --staleness=1 --clip=0 --steps_a_round=4", dict(steps=4)),
    ]),
    *training("lag 2", [("pipe=2 staleness", "--mesh=pipe=2 --staleness=2 --clip=0 --steps_a_round=3", {})]),
    *training("pipedream pipe=4", [
        ("one", "--mesh=pipe=4 --schedule=pipedream --micro_batches=1 --clip=0 --steps_a_round=4",
         dict(steps=4, quick=True)),
    ]),
    *training("lag 1 data=2,tensor=2", [
        ("pipe=2 2bw", f"--mesh=pipe=2,data=2,tensor=2 {LAG}", dict(steps=4)),
    ], layout="lag_data_tensor"),
    *training("generate", [
        ("one", "", dict(generate=GENERATE)),
        ("pipe=2", "", dict(generate=f"{GENERATE} --mesh=pipe=2")),
    ]),
    *training("generate data=2,tensor=2", [
        ("one", "", dict(generate=f"{GENERATE} --mesh=data=2,tensor=2")),
        ("pipe=2", "", dict(generate=f"{GENERATE} --mesh=pipe=2,data=2,tensor=2", quick=True)),
    ], layout="generate"),
    *training("run tensor=4", [("one", "--mesh=tensor=4", {})], model="boxing", layout="data_tensor", feeds=BOXED),
    *training("run data=2,tensor=2", [("one", "--mesh=data=2,tensor=2", QUICK)], model="boxing", layout="data_tensor",
              feeds=BOXED),
    *training("run data=2,tensor=4", [("one", "--mesh=data=2,tensor=4", QUICK)], model="boxing", layout="data_tensor",
              feeds=BOXED),
    *training("run data=4,tensor=2", [("one", "--mesh=data=4,tensor=2", {})], model="boxing", layout="data_tensor",
              feeds=BOXED),
    # The only runs whose bits may change where the costs of boxing do.
    *training("run sums data=2,tensor=4", [("one", "--mesh=data=2,tensor=4", {})], model="sums", layout="data_tensor",
              feeds=BOXED),
    *training("run sums data=4,tensor=2", [("one", "--mesh=data=4,tensor=2", {})], model="sums", layout="data_tensor",
              feeds=BOXED),
]
