"""oneflow fit on what other systems run: scripts, files and commands; the answer in the user's flags; what is asked, told and refused."""
import json
import os
import re
import shlex
import unittest

from tests.e2e.cli import FolderCase, run

SCRIPT = """#!/bin/bash
MODEL=(
  --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128
  --max-position-embeddings 128 --vocab-size 1000 --make-vocab-size-divisible-by 8
)
torchrun --nproc_per_node 8 pretrain_gpt.py "${MODEL[@]}" \\
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \\
  --micro-batch-size 1 --global-batch-size 16 --bf16 --use-distributed-optimizer \\
  --attention-dropout 0 --hidden-dropout 0 --lr 1e-4 --train-iters 100
"""
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 256, "intermediate_size": 512,
          "max_position_embeddings": 2048, "num_attention_heads": 8, "num_hidden_layers": 4, "num_key_value_heads": 4,
          "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "vocab_size": 1000}
ZERO = {"bf16": {"enabled": "auto"}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "zero_optimization": {"stage": 2, "overlap_comm": True}}
TRAINER = ("deepspeed --num_gpus 8 run_clm.py --model_name_or_path model --output_dir out --per_device_train_batch_size 2 "
           "--gradient_accumulation_steps 4 --block_size 128 --bf16 true --deepspeed ds.json\n")
TITAN = ("torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b --training.seq_len 512 "
         "--training.local_batch_size 2 --parallelism.tensor_parallel_degree 2")
ASK = ["--cluster=h100", "--budget_seconds=1"]


class FitForeignTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("run.sh", SCRIPT)
        cls.write("ds.json", json.dumps(ZERO))
        cls.write("trainer.sh", TRAINER)
        os.mkdir(f"{cls.dir}/model")
        cls.write("model/config.json", json.dumps(CONFIG))

    def fit(self, *args, code=0):
        return run("fit", *args, cwd=self.dir, code=code)

    def read(self, *args):
        """What is read of files, without a plan: the question for the GPUs' kind comes last."""
        text, error = self.fit("--format=json", *args, code=2)
        self.assertIn("--cluster: is missing", error)
        return json.loads(text)

    def changed(self, old, new, name="changed.sh"):
        self.assertIn(old, SCRIPT)
        self.write(name, SCRIPT.replace(old, new))
        return name

    def refuse(self, words, *args):
        error = self.fit(*args, code=2)[1]
        self.assertIn("oneflow: error: ", error)
        for word in words:
            self.assertIn(word, error)

    def test_the_answer_to_a_script(self):
        text = self.fit("run.sh", *ASK)[0]
        for words in ["read as megatron-lm (shell script)\n", "tensor 2, pipe 2, context 1, data 2\n", "\n  taken (18): --nproc_per_node, ",
                      "\nhere: oneflow compile --mesh=pipe=2,data=2,tensor=2 ", "\nas you run it on H100", "\nwhere time goes: ",
                      "\nas Megatron-LM counts: ", " GiB, exact and proved\n", "\nbetter 1: step "]:
            self.assertIn(words, text)
        self.assertRegex(text, r"(?m)^    --(tensor-model-parallel-size|micro-batch-size) \d+ -> \d+$")

    def test_the_same_as_json(self):
        found = json.loads(self.fit("run.sh", *ASK, "--format=json")[0])
        self.assertEqual(list(found), ["facts", "flags", "recipe_notes", "own", "bytes_as_theirs", "better"])
        self.assertTrue(found["own"]["fits"])
        self.assertEqual(found["bytes_as_theirs"]["ours"], found["own"]["bytes_a_device"])
        best = found["better"][0]
        self.assertLess(best["step_seconds"], found["own"]["step_seconds"])
        known = {word for word in re.findall(r"--[a-z-]+", SCRIPT)}
        names = {change["name"] for change in best["changes"] if change["from"]}
        self.assertTrue(names and names <= known, (names, known))
        run("model", "gpt", "--layers=4", "--hidden=256", "--heads=4", "--sequence=128", "--vocab=1008", "--out=same.textproto", cwd=self.dir)
        compiled = json.loads(run("compile", "--graph=same.textproto", "--cluster=h100", *shlex.split(found["flags"]), "--format=json",
                                  cwd=self.dir)[0])
        self.assertEqual(compiled["headline"]["bytes_a_device"], found["own"]["bytes_a_device"])

    def test_deepspeed_with_words_of_the_trainer(self):
        found = self.read("trainer.sh")
        facts = found["facts"]
        self.assertEqual((facts["system"], facts["gpus"], facts["batch"]["global"]), ("deepspeed", 8, 64))
        self.assertEqual(facts["model"]["layers"], 4)
        self.assertIn("--mesh=data=8 ", found["flags"])
        self.assertIn("--shard=gradients --batch=64 --micro_batches=4 ", found["flags"])

    def test_a_command(self):
        facts = self.read("--", *shlex.split(TITAN))["facts"]
        self.assertEqual((facts["system"], facts["gpus"], facts["model"]["preset"]), ("torchtitan", 8, "llama3.1-8b"))
        found = self.read("--model=model/config.json", "--", *shlex.split(TITAN))
        self.assertEqual((found["facts"]["model"]["from"], found["facts"]["model"]["layers"]), ("--model", 4))
        self.assertIn("--mesh=data=4,tensor=2 ", found["flags"])

    def test_what_files_do_not_say_is_asked(self):
        self.refuse(["nogpus.sh: does not say how many GPUs; add --devices=NODESxGPUS"], self.changed("--nproc_per_node 8", "", "nogpus.sh"))
        self.assertEqual(self.read("nogpus.sh", "--devices=2x4")["facts"]["gpus"], 8)
        nomodel = self.changed("--num-layers 4 --hidden-size 256", "", "nomodel.sh")
        self.refuse(["does not say the model's layers, width and heads; add --model=config.json"], nomodel)
        facts = self.read(nomodel, "--model=model/config.json")["facts"]
        self.assertEqual((facts["model"]["layers"], facts["schedule"]["stage_layers"]), (4, [2, 2]))

    def test_what_the_system_would_refuse_is_told(self):
        rule = self.changed("--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 3", "rule.sh")
        self.refuse(["breaks the rule \"GPUs must be a multiple of tensor x pipe x context\": 8 is not a multiple of 2 x 3 x 1 = 6; ",
                     "megatron-lm says: world size (8) is not divisible by total_model_size (6)"], rule, *ASK)
        found = json.loads(self.fit(rule, "--format=json", code=2)[0])
        self.assertFalse(found["facts"]["valid"])
        self.refuse(["typo.sh:8: breaks the rule \"no unknown flag\": --bf17; did you mean --bf16?"], self.changed("--bf16", "--bf17", "typo.sh"), *ASK)

    def test_a_model_that_is_not_here_is_planned_only_if_asked(self):
        other = self.changed("--bf16", "--bf16 --swiglu --apply-residual-connection-post-layernorm", "other.sh")
        self.refuse(["the model: cannot be built here: learned positions, here rotary ones; ", "add --approximate"], other, *ASK)
        self.assertIn("as you run it on H100", self.fit(other, *ASK, "--approximate")[0])

    def test_bad_input(self):
        self.refuse(["trainer.sh: is a second script, and one starts a training; give one script"], "run.sh", "trainer.sh", *ASK)
        self.refuse(["nothing.sh: cannot be read: No such file or directory"], "nothing.sh", *ASK)
        self.refuse(["the words behind --: are a second command beside that of a script"], "run.sh", *ASK, "--", *shlex.split(TITAN))
        self.refuse(["--batch=4ktokens: is in tokens, beside a configuration"], "run.sh", "--batch=4ktokens")
        self.write("other.yaml", "a: 1\n")
        self.refuse(["other.yaml: is no configuration of a system that is known here"], "other.yaml", *ASK)
        self.write("torn.yaml", "a: [1\n")
        self.refuse(["torn.yaml"], "torn.yaml", *ASK)


if __name__ == "__main__":
    unittest.main()
