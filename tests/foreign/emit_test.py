"""compile --emit: what is written says the rounded recipe, by a second reader; what is refused; search --emit."""
import json
import math
import os
import shlex
import subprocess
import sys
import unittest

from tests.e2e.cli import FolderCase, run
from tests.foreign.read_emitted import READERS, read, read_accelerate

GPUS = ("--device=cuda", "--cluster=h100", "--precision=bf16")
PIPE = "--mesh=pipe=4,data=2,tensor=2 --batch=32 --micro_batches=8 --shard=states --sequence_parallel"
# (name, model, flags, systems)
PLANS = [
    ("zero bubble", "l", PIPE + " --schedule=zero_bubble --recompute=full:2/1/1/0,attention --lr_schedule=cosine --warmup_steps=5",
     "megatron bridge torchtitan"),
    ("uneven", "l", PIPE + " --stage_layers=1,3,3,1 --recompute=full:1 --clip=0 --steps=500", "megatron bridge"),
    ("uneven beyond ends", "l", PIPE + " --stage_layers=3,2,1,2", "megatron torchtitan"),
    ("interleaved", "l", "--mesh=pipe=2,data=2 --batch=16 --micro_batches=4 --schedule=interleaved --chunks=2 --stage_layers=1,3,2,2 "
     "--shard=weights --recompute=full", "megatron torchtitan"),
    ("context", "l", "--mesh=data=2,context=2,tensor=2 --batch=16 --micro_batches=4 --shard=weights --recompute=selective "
     "--prefetch=3 --residual=f32 --lr_schedule=linear --min_learning_rate=1e-5 --decay_steps=50", "bridge torchtitan"),
    ("gpipe", "l", "--mesh=pipe=2,data=2 --batch=16 --micro_batches=4 --schedule=gpipe --shard=weights --gather=once", "torchtitan"),
    ("experts", "m", "--mesh=data=2,expert=4 --batch=16 --micro_batches=2 --shard=states", "megatron torchtitan"),
    ("one device", "g", "--batch=8 --micro_batches=4 --recompute=full --learning_rate=1e-4", "bridge deepspeed"),
    ("plain data", "l", "--mesh=data=4 --batch=16 --micro_batches=2 --fuse=false --lr_schedule=linear", "torchtitan accelerate"),
    ("states on the host", "l", "--mesh=data=4 --batch=16 --shard=gradients --update_on=host --documents --beta2=0.99",
     "megatron deepspeed accelerate"),
    ("parts of data", "l", "--mesh=data=2x4 --batch=16 --micro_batches=2 --shard=states:data.1,gradients:data.1,weights:data.1 "
     "--gather=each_micro_batch --lr_schedule=cosine --min_learning_rate=1e-5", "torchtitan accelerate"),
    ("sixteen", "g", "--mesh=data=16 --batch=32 --shard=weights --prefetch=3 --seed=7 --epsilon=1e-6 --weight_decay=0",
     "megatron deepspeed"),
]

# Pairs that only the full run reads: another plan reads the same settings of the system.
OF_FULL = {("uneven", "bridge"), ("uneven beyond ends", "torchtitan"), ("gpipe", "torchtitan"), ("one device", "bridge"),
           ("plain data", "torchtitan"), ("states on the host", "accelerate"), ("sixteen", "megatron"), ("interleaved", "megatron")}
ALL = "--all" in sys.argv


def flag_map(text):
    """{"mesh": "pipe=2,..."} of a line of flags."""
    pairs = [word[2:].partition("=") for word in shlex.split(text)]
    return {name: value if sign else "true" for name, sign, value in pairs}


def expected(flags, run_flags, gpus):
    """The facts that the rounded recipe says."""
    sizes = {}
    for axis in flags["mesh"].split(",") if flags["mesh"] not in ("", "1") else []:
        name, _, size = axis.partition("=")
        for index, factor in enumerate(size.split("x")):
            sizes[f"{name}.{index}" if "x" in size else name] = int(factor)
    size = lambda *names: math.prod(n for axis, n in sizes.items() if axis.split(".")[0] in names)
    shard = flags["shard"]
    short = {"none": 0, "states": 1, "gradients": 2, "weights": 3}
    parts, split = (short[shard], ["data"]) if shard in short else (shard.count(":"), shard.split(",")[0].split(":")[1].split("+"))
    named = lambda axis: axis in split or axis.split(".")[0] in split
    data = size("data", "expert")
    ways = math.prod(n for axis, n in sizes.items() if axis.split(".")[0] in ("data", "expert") and named(axis)) if parts else data
    recompute = flags["recompute"].removesuffix(",gather")
    steps = int(run_flags.get("steps", 100))
    offload = flags["offload"].split(",")
    share = [float(part.split(":")[1]) for part in offload if part.startswith("activations:")]
    return {
        "gpus": gpus, "tensor": size("tensor"), "pipe": size("pipe"), "context": size("context"), "data": data, "expert": size("expert"),
        "batch": int(flags["batch"]), "micro_batches": int(flags["micro_batches"]),
        "schedule": flags["schedule"] if size("pipe") > 1 else "1f1b", "chunks": int(flags["chunks"]),
        "stage_layers": [int(n) for n in flags["stage_layers"].split(",")] if size("pipe") > 1 else None,
        "recompute": recompute, "parts": parts if data * size("context") > 1 else 0, "shard": ways if parts else None,
        "gather": flags["gather"] if parts == 3 else None, "reduce": flags["reduce"].split(":")[0], "overlap": flags["overlap"] == "true",
        "sequence_parallel": flags["sequence_parallel"] == "true" and size("tensor") > 1, "bf16": flags["precision"] == "bf16",
        "residual_f32": flags["residual"] == "f32" and flags["precision"] == "bf16", "documents": flags["documents"] == "true",
        "host": flags["update_on"] == "host", "weights_on_host": "weights" in offload, "offloaded_blocks": share, "fuse": flags["fuse"] == "true",
        "pipe_within_data": list(sizes).index("pipe") > 0 if "pipe" in sizes and data > 1 else False,
        **{name: float(flags[name]) for name in ("learning_rate", "min_learning_rate", "warmup_steps", "beta1", "beta2", "epsilon",
                                                 "weight_decay", "clip")},
        "lr_schedule": flags["lr_schedule"], "decay_steps": int(flags["decay_steps"]) or steps, "steps": steps,
        "seed": int(run_flags.get("seed", 1))}


# Of how kernels run, and of what `oneflow fit` does not say as a fact: the flags of the recipe are compared, too.
NOT_OF_A_RECIPE = {"overlap", "offloaded_blocks", "fuse", "pipe_within_data", "seed"}
SHAPES = {"l": (8, 64, 4, 96), "m": (2, 64, 4, 96), "g": (2, 32, 2, 128)}  # layers, hidden, heads, inner
# Of the same shapes, for torchtitan, whose files name a model: its shape is Python.
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
          "max_position_embeddings": 16, "num_attention_heads": 4, "num_hidden_layers": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-05,
          "tie_word_embeddings": False, "vocab_size": 256}
MIXTURE = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_hidden_layers": 2, "num_local_experts": 8,
           "num_experts_per_tok": 2, "sliding_window": None}


def count_parameters(model, vocab=256, positions=16):
    layers, hidden, _, inner = SHAPES[model]
    if model == "g":
        return (vocab + positions) * hidden + layers * (4 * hidden * hidden + 2 * hidden * inner + 9 * hidden + inner) + 2 * hidden
    experts = 8 if model == "m" else 1
    block = 4 * hidden * hidden + experts * 3 * hidden * inner + (experts * hidden if experts > 1 else 0) + 2 * hidden
    return 2 * vocab * hidden + layers * block + hidden


def own_facts(found):
    """The same facts of what `oneflow fit` reads."""
    facts, flags = found["facts"], flag_map(found["flags"])
    parallel, sharding, optimizer, offload = (facts[name] for name in ("parallel", "sharding", "optimizer", "offload"))
    times = {"each use": "each_use", "each micro-batch": "each_micro_batch", "once a step": "once", None: "once"}
    pipe, tensor = parallel["pipe"], parallel["tensor"]
    parts = ["none", "states", "gradients", "weights"].index(sharding["what"])
    context = parallel["context"] if "context" in sharding["over"] else 1  # of which `expected` counts no parts
    return {
        "gpus": facts["gpus"], **{name: parallel[name] for name in ("tensor", "pipe", "context", "data", "expert")},
        "batch": facts["batch"]["global"], "micro_batches": facts["batch"]["micro_batches"],
        "schedule": facts["schedule"]["name"] if pipe > 1 else "1f1b", "chunks": facts["schedule"]["chunks"],
        "stage_layers": facts["schedule"]["stage_layers"] if pipe > 1 else None, "recompute": facts["recompute"]["nearest_here"],
        "parts": parts if parallel["data"] * parallel["context"] > 1 else 0, "shard": sharding["ways"] // context,
        "gather": times[sharding["gather"]],
        "reduce": flags.get("reduce", "once").split(":")[0], "sequence_parallel": facts["sequence_parallel"] and tensor > 1,
        "bf16": facts["precision"]["nearest_here"] == "bf16", "residual_f32": facts["precision"]["residual_f32"],
        "documents": facts["separate_documents"], "host": offload["update_on"] == "host", "weights_on_host": offload["weights"] == "host",
        **{name: optimizer[name] for name in ("learning_rate", "warmup_steps", "decay_steps", "steps", "beta1", "beta2", "epsilon",
                                              "weight_decay", "clip")},
        "min_learning_rate": optimizer["min_learning_rate"] or 0, "lr_schedule": optimizer["schedule"],
        "model": {"experts": facts["model"].get("experts", {"count": 0})["count"], "inner": facts["model"]["ffn"],
                  **{name: facts["model"][name] for name in ("layers", "hidden", "heads")}}}


class EmitTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("l.json", json.dumps(CONFIG))
        cls.write("m.json", json.dumps({**CONFIG, **MIXTURE}))
        llama = ("model", "llama", "--preset=llama-tiny", "--tied=false", "--layers=8", "--heads=4", "--groups=4", "--hidden=64", "--inner=96")
        run(*llama, "--out=l.textproto", cwd=cls.dir)
        run(*llama, "--experts=8", "--layers=2", "--out=m.textproto", cwd=cls.dir)
        run("model", "gpt", "--preset=tiny", "--out=g.textproto", cwd=cls.dir)

    def emit(self, model, flags, system, out, *more):
        done = run("compile", f"--graph={model}.textproto", *GPUS, *shlex.split(flags), f"--emit={system}", f"--emit_out={out}",
                   "--format=json", *more, cwd=self.dir)[0]
        return json.loads(done)

    def compare(self, facts, wanted, model):
        layers = facts["model"]["layers"]
        for name, value in wanted.items():
            with self.subTest(name):
                if name not in facts:
                    self.assertIn(name, NOT_OF_A_RECIPE)
                elif name == "offloaded_blocks":
                    self.assertEqual(facts[name], round(sum(value) * layers))
                elif name in ("gather", "shard") and value is None:
                    pass  # nothing is split
                elif name == "decay_steps" and facts["lr_schedule"] == "constant":
                    pass
                elif isinstance(value, float):
                    self.assertAlmostEqual(facts[name], value, delta=1e-9 * abs(value))
                else:
                    self.assertEqual(facts[name], value)
        self.assertEqual(tuple(facts["model"][name] for name in ("layers", "hidden", "heads", "inner")), SHAPES[model])
        self.assertEqual(facts["model"]["experts"], 8 if model == "m" else 0)

    def compare_own(self, system, out, wanted, rounded, model):
        """What `oneflow fit` reads of the same files: the facts, the recipe, and no setting that it cannot take."""
        named = [f"--model={model}.json"] if system == "torchtitan" else []
        found = json.loads(run("fit", f"{out}/run.sh", "--format=json", *named, cwd=self.dir, code=2)[0])
        self.assertIn("--cluster: is missing", found["error"])  # all else was read
        self.compare(own_facts(found), wanted, model)
        facts = found["facts"]
        self.assertEqual((facts["broken"], facts["asks"], facts["not_read"], facts["model"]["differences"]), ([], [], [], []))
        self.assertEqual(facts["model"]["parameters"], count_parameters(model))
        self.assertEqual(facts["settings"]["unknown"], [])
        python = {"experimental.custom_import"} if system == "torchtitan" else set()  # the model's shape
        self.assertEqual({setting["name"] for setting in facts["settings"]["no_equivalent"]}, python)
        same = {"mesh": "data=1"} if rounded["mesh"] == "1" else {}  # in other words
        if "expert" in rounded["mesh"]:
            self.assertEqual(rounded["mesh"], "data=2,expert=4")
            same = {"mesh": "data=2x4", "experts": "data.1", "shard": rounded["shard"].split(",")[-1].split(":")[0]}
        for name, value in flag_map(found["flags"]).items():
            with self.subTest(f"--{name}"):
                self.assertEqual(value, same[name] if name in same else rounded[name])

    def test_files_say_the_rounded_recipe(self):
        for number, (name, model, flags, systems) in enumerate(PLANS):
            for system in systems.split():
                if (name, system) in OF_FULL and not ALL:
                    continue
                with self.subTest(f"{name} for {system}"):
                    out = f"{number}_{system}"
                    done = self.emit(model, flags, system, out)
                    rounded = flag_map(done["emit"]["flags"])
                    wanted = expected(rounded, flag_map(flags), done["devices"])
                    folder = f"{self.dir}/{out}"
                    self.compare(read(system, folder), wanted, model)
                    self.compare_own(system, out, wanted, rounded, model)
                    if os.path.exists(f"{folder}/accelerate_fsdp1.yaml"):
                        self.compare(read_accelerate(folder, "accelerate_fsdp1.yaml"), wanted, model)
                    subprocess.run(["bash", "-n", f"{folder}/run.sh"], check=True)
                    self.assertTrue(os.access(f"{folder}/run.sh", os.X_OK))

    def test_what_is_rounded_once_is_the_plan_as_it_is(self):
        flags = self.emit("l", PLANS[0][2], "megatron", "once")["emit"]["flags"]
        self.assertEqual(self.emit("l", flags, "megatron", "again")["emit"]["roundings"], [])

    def test_text(self):
        text = run("compile", "--graph=l.textproto", *GPUS, *shlex.split(PLANS[0][2]), "--emit=torchtitan", "--emit_out=t", cwd=self.dir)[0]
        for words in ["\nfor torchtitan, rounded to what it can: step ", " a device, ", "\n  shard weights instead of states: FSDP splits ",
                      "\n  otherwise than here: norms decay, too\n", "\n  t/train.toml\n"]:
            self.assertIn(words, text)
        files, rest = run("compile", "--graph=l.textproto", *GPUS, "--mesh=data=2", "--shard=states", "--emit=megatron", cwd=self.dir)
        self.assertTrue(files.startswith("#!/bin/bash\n# llama-tiny on 2 GPUs: data 2, batch 8 in 1 micro-batches.\n"), files)
        self.assertIn("\nfor Megatron-LM: the plan as it is\n", rest)

    def test_a_search_emits_its_first_plan(self):
        done = json.loads(run("search", "--graph=l.textproto", *GPUS, "--devices=4", "--batch=8", "--fix=tensor=1,context=1,pipe=2,schedule=1f1b",
                              "--top=1", "--emit=megatron", "--emit_out=s", "--format=json", cwd=self.dir)[0])
        self.assertEqual(done["emit"]["system"], "megatron")
        facts = read("megatron", f"{self.dir}/s")
        self.assertEqual((facts["pipe"], facts["data"], facts["batch"]), (2, 2, 8))

    def test_what_is_refused(self):
        def refuse(words, *flags, verb="compile"):
            error = run(verb, "--graph=l.textproto", *flags, cwd=self.dir, code=2)[1]
            for word in words:
                self.assertIn(word, error)
        refuse(["--emit=deepspeed: DeepSpeed has no axis tensor", "--fix=tensor=1"], *GPUS, "--mesh=tensor=2", "--emit=deepspeed")
        refuse(["--emit=megatrom: is not known", "did you mean megatron?"], *GPUS, "--emit=megatrom")
        refuse(["--emit=megatron: is for GPUs", "--device=cuda"], "--emit=megatron")
        refuse(["--emit_out=x: acts on nothing without --emit"], *GPUS, "--emit_out=x")
        refuse(["--steps=7: acts on nothing without --emit"], *GPUS, "--steps=7")
        refuse(["--emit_out=l.textproto: cannot be made"], *GPUS, "--emit=megatron", "--emit_out=l.textproto")
        refuse(["is of one plan, and --pareto finds several"], *GPUS, "--devices=2", "--batch=4", "--pareto", "--emit=megatron", verb="search")
        run("model", "gpt", "--preset=tiny", "--out=g.textproto", cwd=self.dir)
        error = run("compile", "--graph=g.textproto", *GPUS, "--emit=torchtitan", cwd=self.dir, code=2)[1]
        self.assertIn("torchtitan has no learned positions", error)

    def test_every_system_is_read(self):
        self.assertEqual(set(READERS), {system for *_, systems in PLANS for system in systems.split()})


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--all"])
