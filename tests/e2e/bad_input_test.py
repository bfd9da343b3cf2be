"""Graphs, flags and small text files that are wrong: exit code 2, and what, where and how to mend it."""
import os
import shutil
import unittest

from tests.e2e.bad_input import SMALL, BadInputCase
from tests.e2e.cli import run

VOCABULARY = os.path.abspath("training/tokenizer/testdata")  # of 700 tokens
HEAD = 'op { name: "x" kind: "input" shape { dim { size: 4 } dim { size: 6 } } }\n'
WEIGHT = 'op { name: "w" kind: "variable" shape { dim { size: 6 } dim { size: 8 } } %s }\n'
MATMUL = 'op { name: "y" kind: "matmul" input: "x" input: "w" }\noutput: "y"\n'

# name -> (graph text, words of the error)
GRAPHS = {
    "malformed": ('op {\n  name: "x"\n  kind "input"\n}\n', ["bad.textproto:3:", 'Expected ":"']),
    "cut_off": (HEAD + 'op { name: "y" kind:', ["bad.textproto:2:", "cut off", "brace"]),
    "unknown_op": (HEAD + 'op { name: "y" kind: "matmull" input: "x" input: "x" }\noutput: "y"\n', ["bad.textproto:2: op y", "matmull", "matmul"]),
    "output_index": (HEAD + 'op { name: "y" kind: "gelu" input: "x:3" }\n', ["x:3"]),
    "malformed_sbp": (HEAD + WEIGHT % 'sbp { on { key: "tensor" value: "T(1)" } }' + MATMUL, ["w", "T(1)"]),
    "shape_mismatch": (HEAD + WEIGHT.replace("size: 6", "size: 7") % "" + MATMUL, ["bad.textproto:3: op y (matmul)", "6", "7"]),
    "dtype_mismatch": ('op { name: "x" kind: "input" dtype: I32 shape { dim { size: 4 } dim { size: 6 } } }\n' + WEIGHT % "" + MATMUL,
                       ["y", "i32"]),
    "unnamed_zero_dim": (HEAD.replace("size: 4", "size: 0") + 'op { name: "y" kind: "gelu" input: "x" }\n', ["x"]),
    "sbp_dim_out_of_range": (HEAD + WEIGHT % 'sbp { on { key: "tensor" value: "S(5)" } }' + MATMUL, ["w", "tensor", "S(5)"]),
    "illegal_sbp": (HEAD + WEIGHT % "" + MATMUL.replace('input: "w"', 'input: "w" sbp { on { key: "tensor" value: "Pmax" } }'),
                    ["y", "tensor", "Pmax"]),
    "unknown_axis": (HEAD + WEIGHT % 'sbp { on { key: "tensr" value: "S(1)" } }' + MATMUL, ["w", "tensr"]),
    "states": (HEAD + WEIGHT % 'attr { key: "states" value { s: "dota" } }' + MATMUL, ["w", "states", "dota"]),
    "gradients": (HEAD + WEIGHT % 'attr { key: "gradients" value { s: "data" } }' + MATMUL, ["w", "gradients", "add it to states"]),
    "split_dim": (HEAD + WEIGHT % 'attr { key: "split_dim" value { i: 2 } }' + MATMUL, ["w", "split_dim is 2"]),
    "gather_once": (HEAD + WEIGHT % 'attr { key: "gather_once" value { s: "tensor,tensr" } }' + MATMUL, ["w", "gather_once", "tensr", "axes tensor"]),
    "host": (HEAD + WEIGHT % 'attr { key: "host" value { s: "states,moments" } }' + MATMUL, ["w", 'host says "moments"', "states, weights and update"]),
    "dropout_rate": (HEAD + 'op { name: "y" kind: "dropout" input: "x" attr { key: "rate" value { f: 1.5 } } }\noutput: "y"\n',
                     ["y", "rate", "1.5"]),
    "field_that_ops_have_not": (HEAD + 'op { name: "y" kind: "gelu" input: "x"\n     sub_mesh { first: 1 } }\noutput: "y"\n',
                                ["bad.textproto:3:", "sub_mesh"]),
    "unknown_output": (HEAD + 'op { name: "y" kind: "gelu" input: "x" }\noutput: "z"\n', ["z"]),
}


class BadInputTest(BadInputCase):
    def test_graphs(self):
        for name, (text, words) in GRAPHS.items():
            with self.subTest(name):
                self.write("bad.textproto", text.encode())
                error = self.refuse(words, "compile", "--graph=bad.textproto", "--mesh=tensor=2", "--out=x.plan")
                # The line is that of the op, whichever check finds the mistake; an output has no op.
                self.assertRegex(error, r"bad\.textproto" + (":" if name == "unknown_output" else r":\d+:"))

    def test_command_line(self):
        self.refuse(["no verb"])
        self.refuse(["tran"], "tran")
        self.refuse(["--grahp", "--graph"], "compile", "--grahp=x")
        self.refuse(["--out"], "model", "gpt", *SMALL)
        self.refuse(["heads", "hidden"], "model", "gpt", "--layers=1", "--heads=3", "--hidden=16", "--sequence=8",
                    "--vocab=8", "--out=x")
        for rate in ["-0.1", "1", "nan"]:
            self.refuse(["--dropout=" + rate, "use 0 to 0.999"], "model", "gpt", *SMALL, "--dropout=" + rate, "--out=x")
        self.refuse(["--attention=flash", "unfused"], "model", "gpt", *SMALL, "--attention=flash", "--out=x")
        self.refuse(["--masks=kept", "recomputed"], "model", "gpt", *SMALL, "--masks=kept", "--out=x")
        self.refuse(["gpt9", "gpt2-124m"], "model", "gpt", "--preset=gpt9", "--out=x")
        self.refuse(["absent.textproto"], "compile", "--graph=absent.textproto", "--out=x.plan")
        self.refuse(["gpt.plan", "no flag"], "explain", "gpt.plan")
        self.train(["--instruction_set=avx9", "no such", "baseline"], "--data=text.txt", "--instruction_set=avx9")
        self.compile(["--threads=5000", "1024"], "--threads=5000", "--batch=4")

    def test_values_that_are_none(self):
        for flag, words in {
                "--batch=many": "is no whole number; write it in digits, e.g. --batch=8",
                "--batch=1.5": "is no whole number", "--batch=1e3": "is no whole number", "--batch=1,000": "is no whole number",
                "--micro_batches=4x": "is no whole number; write it in digits, e.g. --micro_batches=1",
                "--batch=99999999999999999999": "is out of range; use at most 2^63 - 1",
                "--batch=0": "is out of range; use 1 to 4294967296, or leave it out; the default: 8",
                "--micro_batches=-1": "use 1 to 65536",
                "--threads=99999999999": "is out of range; use at most 2147483647",
                "--learning_rate=fast": "is no number; write a number, e.g. --learning_rate=3e-4",
                "--learning_rate=1e400": "is too large a number",
                "--fuse=maybe": "is neither true nor false; write --fuse=true or --fuse=false",
                "--recompute=,": '"" is not known; use none', "--recompute=full,": '"" is not known',
                # 0 and -1 stand for "not given" inside; nobody means something by them.
                "--threads=0": "is out of range; use 1 to 1024, or leave it out; the default: the cores of the machine",
                "--threads=-2": "is out of range", "--chunks=0": "the default: 2 where the schedule interleaves, else 1",
                "--steps_a_round=0": "use 1 to 65536, or leave it out; the default: 8 or more"}.items():
            with self.subTest(flag):
                self.compile([words, flag.split("=")[0]], flag)
        for flag, words in {
                "--seed=-1": "is negative; use 0 or more", "--seed=99999999999999999999": "use at most 2^64 - 1",
                "--keep=0": "use 1 or more, or leave it out; the default: all", "--eval_every=0": "the default: only at the end",
                "--checkpoint_every=0": "the default: only at the end", "--processes=0": "use 1 or more",
                "--process_index=-1": "use 0 or more", "--stall_seconds=-1": "is out of range; use 0 or more",
                "--stall_seconds=nan": "is out of range", "--eval_fraction=1": "use 0 or more, and less than 1",
                "--eval_fraction=nan": "is out of range", "--join_seconds=0": "more than 0, and at most 86400",
                "--host_link=2GB": "is not two rates", "--host_link=2GB:0": "is not two rates",
                "--host_link=fast:2GB": "is not two rates"}.items():
            with self.subTest(flag):
                self.train([flag + ": ", words], "--data=text.txt", flag)
        self.train(["--eval_batches: acts only with --eval_data or --eval_fraction"], "--data=text.txt", "--eval_batches=2")
        prompt = ["generate", "--checkpoint=ckpt", "--prompt=a"]
        self.refuse(["--temperature=-1.5: "], *prompt, "--temperature=-1.5")
        self.refuse(["--top_p=1.5: "], *prompt, "--top_p=1.5")
        self.refuse(["--val_fraction=1.5: "], "data", "--text=text.txt", "--out=d", "--val_fraction=1.5")
        self.refuse(["--devices=-1: ", "use 1 or more"], "calibrate", "--out=c", "--devices=-1")
        self.refuse(["--process=-1: ", "use 0 or more"], "logs", "--job_dir=absent", "--process=-1")

    def test_choices_of_a_run_that_do_not_go_together(self):
        for words, *flags in [
                ("--keep: acts only with --checkpoint_dir; add --checkpoint_dir=FOLDER, or leave it out", "--keep=2"),
                ("--checkpoint_every: acts only with --checkpoint_dir", "--checkpoint_every=2"),
                ("--resume: acts only with --checkpoint_dir", "--resume"), ("--predict: acts only with --trace", "--predict"),
                ("--eval_fraction: cannot be given together with --eval_data", "--eval_data=text.txt", "--eval_fraction=0.1"),
                ("--init_from: cannot be given together with --resume=true", "--init_from=ckpt", "--checkpoint_dir=c", "--resume"),
                ("--interface=eth77: no network device of this name", "--interface=eth77"),
                ("--steps=7: is not --epochs=2, which are ", "--epochs=2", "--steps=7"),
                ("--wandb: is not a flag of oneflow; write --metrics=FILE", "--wandb=run")]:
            self.train([words], "--data=text.txt", *flags)
        self.refuse(["oneflow stop: no such verb; did you mean cancel?"], "stop")

    def test_words_without_their_flag(self):
        for words, *command in [
                (['"gpt.plan" belongs to no flag; write --plan=gpt.plan'], "verify", "gpt.plan"),
                (["write --graph=gpt.textproto"], "compile", "gpt.textproto", "--out=x.plan"),
                (["write --plan=absent.plan"], "train", "absent.plan"),
                (["write --data=text.txt"], "train", "text.txt"),
                (["write --text=text.txt"], "data", "text.txt"),
                (["write --checkpoint=ckpt"], "generate", "ckpt"),
                (["write --job_dir=ckpt"], "status", "ckpt"),
                (["write flags as --flag=value; see `oneflow verify --help`"], "verify", "nothing"),
                (["a flag begins with two dashes; write --graph=x"], "compile", "-graph=x"),
                (["write --resume=auto"], "train", "--plan=gpt.plan", "--resume", "auto"),
                (["write --fuse=false"], "compile", "--graph=gpt.textproto", "--fuse", "false"),
                (["--out: has no value"], "compile", "--out", "--graph=gpt.textproto"),
                (["did you mean train?"], "TRAIN"),
                (['there is no family "bert"; there are gpt of GPT-2 and GPT-3, llama of Llama, Mistral, Mixtral, Qwen and SmolLM, '
                  "gemma of Gemma 2 and 3, ", "glm of GLM 4.5: write `oneflow model FAMILY --preset=NAME`"], "model", "bert", "--out=x"),
                (["`oneflow model llama --preset=llama2-7b`"], "model", "llama2", "--out=x"),
                (["`oneflow model llama --preset=mistral-7b`"], "model", "gpt", "mistral-7b", "--out=x"),
                (["--preset=llama3-8b: is a preset of the family llama; write `oneflow model llama --preset=llama3-8b`"],
                 "model", "gpt", "--preset=llama3-8b", "--out=x"),
                (["--bias=false: is a flag of `oneflow model gpt`, and the family is llama; leave it out"],
                 "model", "llama", "--bias=false", "--out=x"),
                (["--groups=2: is a flag of `oneflow model llama or gemma or ", "and the family is gpt; leave it out"],
                 "model", "gpt", "--num_query_groups=2", "--out=x"),
                (["--groups=5: does not divide --heads=12"], "model", "llama", "--groups=5", "--out=x"),
                (["--heads=7: does not divide --hidden=768; write --head_dim=N"], "model", "llama", "--heads=7", "--out=x"),
                (["--rope_scaling=8: is neither four numbers nor none; write FACTOR,LOW,HIGH,POSITIONS"],
                 "model", "llama", "--rope_scaling=8", "--out=x"),
                (["--preset=gpt2-124m"], "model", "gpt2", "--out=x"),
                (["lacks the family", "oneflow model gpt"], "model", "--out=x"),
                (["did you mean gpt3-175b?"], "model", "gpt", "--preset=GPT3", "--out=x")]:
            with self.subTest(command):
                self.refuse(words, *command)

    def test_files_of_another_kind(self):
        cluster = os.path.abspath("examples/clusters/h100.textproto")
        shutil.copy(self.dir + "/gpt.textproto", self.dir + "/graph.plan")
        shutil.copy(self.dir + "/gpt.plan", self.dir + "/binary.textproto")
        run("compile", "--graph=gpt.textproto", "--batch=4", "--out=text.plan.textproto", cwd=self.dir)
        self.write("order.textproto", 'stage { task: "F0 B0" }')
        training = "ckpt/step-00000001/train.textproto"
        for words, *command in [
                (["gpt.textproto: is a graph, and no plan; --graph takes it", "oneflow compile"], "verify", "--plan=gpt.textproto"),
                (["graph.plan: is a graph, and no plan"], "train", "--plan=graph.plan", "--data=text.txt"),
                (["is a graph, and no plan"], "diff", "gpt.textproto", "gpt.plan"),
                (["is a cluster, and no plan"], "verify", "--plan=" + cluster),
                (["is a pipeline order, and no plan"], "verify", "--plan=order.textproto"),
                (["is a training configuration, and no plan"], "verify", "--plan=" + training),
                (["is a plan in binary form", "rename it"], "verify", "--plan=binary.textproto"),
                (["is a cluster, and no graph; --cluster takes it", "oneflow model"], "compile", "--graph=" + cluster, "--out=x.plan"),
                (["is a plan, and no graph"], "compile", "--graph=text.plan.textproto", "--out=x.plan"),
                (["is a graph, and no cluster", "calibrate"], "simulate", "--plan=gpt.plan", "--cluster=gpt.textproto"),
                (["is a plan, and no cluster"], "simulate", "--plan=gpt.plan", "--cluster=text.plan.textproto"),
                (["is a cluster, and no pipeline order", "schedules.md"], "compile", "--graph=gpt.textproto", "--order=" + cluster,
                 "--out=x.plan"),
                (["gpt.plan: is a plan, and no training data", "oneflow data"], "train", "--plan=gpt.plan", "--data=gpt.plan"),
                (["gpt.plan: is a plan, and no training data", "give text"], "data", "--text=gpt.plan", "--out=d"),
                (["gpt.plan: is a file, and a checkpoint is a folder"], "generate", "--checkpoint=gpt.plan", "--prompt=a")]:
            with self.subTest(command):
                self.refuse(words, *command)

    def test_flags_that_act_on_nothing(self):
        def warnings(*flags):
            return run("compile", "--graph=gpt.textproto", "--out=idle.plan", "--batch=4", *flags, cwd=self.dir)[1]

        for flag in ["--shard=weights", "--shard=states", "--overlap=true", "--bucket_bytes=1MB", "--prefetch=1", "--sequence_parallel",
                     "--split_products", "--keep_axis_order", "--recompute=gather", "--recompute=gather,none:1"]:
            name = flag.split("=")[0]
            for mesh in ["--mesh=", "--mesh=data=1,tensor=1"]:
                self.assertRegex(warnings(flag, mesh), rf"^oneflow: warning: {name}\S* acts on nothing in this plan: .+\n$")
        self.assertIn("--overlap=true", warnings("--bucket_bytes=1MB", "--mesh=data=2"))
        self.assertIn("--overlap=true", warnings("--prefetch=1", "--mesh=data=2"))
        self.assertEqual("", warnings("--shard=weights", "--overlap=true", "--bucket_bytes=1MB", "--prefetch=1", "--sequence_parallel",
                                      "--split_products", "--keep_axis_order", "--recompute=gather", "--mesh=data=2,tensor=2"))
        self.assertEqual("", warnings("--shard=none", "--overlap=false"))
        self.assertIn("--interface acts on nothing", run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=1", "--interface=lo",
                                                        cwd=self.dir)[1])
        for verb in ["explain", "simulate"]:
            self.refuse(["--threads", "acts on nothing"], verb, "--plan=gpt.plan", "--threads=1")
        for form in ["text", "json", "memory", "html"]:  # a wrong cluster is not passed over
            self.refuse(["--cluster=h300", "did you mean h100?"], "explain", "--plan=gpt.plan", "--cluster=h300", "--format=" + form)
        for words, *flags in [(["--steps", "--format=html"], "--steps=3"), (["--full", "acts on nothing"], "--full", "--format=json")]:
            self.refuse(words, "explain", "--plan=gpt.plan", *flags)

    def test_simulate(self):
        for words, *flags in [(["--steps=0", "is out of range"], "--steps=0"),
                              (["--program=tran", "no such program", "train, eval"], "--program=tran"),
                              (["absent.textproto"], "--cluster=absent.textproto"),
                              (["--format=dot", "text or json"], "--format=dot"),
                              (["--trace", "absent/trace"], "--trace=absent/trace")]:
            self.refuse(words, "simulate", "--plan=gpt.plan", *flags)
        for fields, words in [(b"device { peak_flops: 1e-9 }", ["device.peak_flops is 1e-09 a second", "leave it out"]),
                              (b"device { memory_bandwidth: 1e300 }", ["device.memory_bandwidth is 1e+300 a second"]),
                              (b"level { bandwidth: 0.5 }", ["level[0].bandwidth is 0.5 a second"]),
                              (b"level { latency: 1e308 }", ["level[0].latency is 1e+308 seconds", "at most 3600"]),
                              (b"device { firing_seconds: 1e5 }", ["device.firing_seconds is 100000 seconds"]),
                              (b"host_link { to_host: 1e-3 }", ["host_link.to_host is 0.001 a second", "leave it out"]),
                              (b"host_link { from_host: 1e30 }", ["host_link.from_host is 1e+30 a second"]),
                              (b"host_link { host_bandwidth: 0.5 }", ["host_link.host_bandwidth is 0.5 a second"]),
                              (b"host_link { latency: 1e4 }", ["host_link.latency is 10000 seconds", "at most 3600"]),
                              (b'device { kernel_time { kernel: "lineer" seconds: 1 } }', ["device.kernel_time[0].kernel is \"lineer\"", '"linear"'])]:
            with self.subTest(fields):
                self.write("endless.textproto", fields)
                self.refuse(["endless.textproto: "] + words, "simulate", "--plan=gpt.plan", "--cluster=endless.textproto")
                self.compile(["endless.textproto: "] + words, "--mesh=tensor=2", "--cluster=endless.textproto", "--batch=4")
        self.refuse(["--steps=1000000000000", "is out of range"], "simulate", "--plan=gpt.plan", "--steps=1000000000000")
        for fields, words in [(b"level { latency: nan }", ["level[0].latency is nan"]),
                              (b"level { } level { bandwidth: -1 }", ["level[1].bandwidth is -1"]),
                              (b"level { } level { size: 8 }", ["level[0].size is missing"]),
                              (b"", ["is empty"]),
                              (b"level { protocol { ring_share: 2 } }", ["level[0].protocol[0].ring_share is 2"]),
                              (b"level { protocol { ring_share: 1 tree_share: 1 tree_step: -1 } }",
                               ["level[0].protocol[0].tree_step is -1"]),
                              (b'level { size: 2 protocol { name: "LL" ring_share: 1 tree_share: 1 } } level { }',
                               ["level[1] has 0 protocols, level[0] has 1", "every level"]),
                              (b'level { size: 2 protocol { name: "LL" ring_share: 1 tree_share: 1 } } '
                               b'level { protocol { name: "Simple" ring_share: 1 tree_share: 1 } }',
                               ['level[1].protocol[0] is "Simple", level[0]\'s is "LL"']),
                              (b"cores: -1", ["cores is -1"]),
                              (b"host_link { to_host: -1 }", ["host_link.to_host is -1", "leave it out"]),
                              (b"host_link { from_host: nan }", ["host_link.from_host is nan"]),
                              (b"host_link { latency: -1 }", ["host_link.latency is -1"]),
                              (b"host_link { sharing: -2 }", ["host_link.sharing is -2"]),
                              (b"host_link { sharing: 2000 }", ["host_link.sharing is 2000 devices", "at most 1024"]),
                              (b"host_link { host_bandwidth: inf }", ["host_link.host_bandwidth is inf"]),
                              (b"level { processor_usage: 1 }", ["level[0].processor_usage is 1", "0 to 0.9"]),
                              (b"level { sleeping_latency: inf }", ["level[0].sleeping_latency is inf"]),
                              (b"level { size: -2 }", ["level[0].size is -2"]),
                              (b"level { size: 2000000000 } level { size: 2 }", ["levels", "2147483647 devices"]),
                              (b"device { peak_flops: nan }", ["device.peak_flops is nan"]),
                              (b"device { memory_bytes: -1 }", ["device.memory_bytes is -1"]),
                              (b"device { kernel_time { seconds: -inf } }", ["device.kernel_time[0].seconds is -inf"]),
                              (b"device { products { processors: -1 } }", ["device.products.processors is -1"]),
                              (b"device { products { share: 1.5 } }", ["device.products.share is 1.5", "at most 1"]),
                              (b"device { products { unaligned: 1.5 } }", ["device.products.unaligned is 1.5", "at most 1"]),
                              (b"device { products { small_tiles: 2 } }", ["device.products.small_tiles is 2", "at most 1"]),
                              (b"device { products { depth: -1 } }", ["device.products.depth is -1"]),
                              (b"device { products { start_seconds: 4000 } }", ["device.products.start_seconds is 4000 seconds"]),
                              (b"device { memory_shares { rows: 1.1 } }", ["device.memory_shares.rows is 1.1", "at most 1"]),
                              (b"device { memory_shares { gather: -0.5 } }", ["device.memory_shares.gather is -0.5"]),
                              (b"device { kernel_seconds: inf }", ["device.kernel_seconds is inf"]),
                              (b"device { sustained { compute: 1.2 } }", ["device.sustained.compute is 1.2", "at most 1"]),
                              (b"device { sustained { memory: nan } }", ["device.sustained.memory is nan"]),
                              (b"spread { slow_share: 0.95 slower: 0.1 }", ["spread.slow_share is 0.95", "0 to 0.9"]),
                              (b"spread { slow_share: 0.1 slower: 0.95 }", ["spread.slower is 0.95", "0 to 0.9"]),
                              (b"level { congestion: 1 }", ["level[0].congestion is 1", "0 to 0.9"]),
                              (b"level { congestion: -0.1 }", ["level[0].congestion is -0.1"])]:
            with self.subTest(fields):
                self.write("numbers.textproto", fields)
                self.refuse(["numbers.textproto: "] + words, "simulate", "--plan=gpt.plan", "--cluster=numbers.textproto")

    def test_rates_of_attention(self):
        def rates(keys=b"[512, 1024]", forward=b"[1e12, 2e12]", backward=b"[1e12, 2e12]", head=b"64"):
            return (b'device { attention { library: "cudnn" head_size: ' + head + b" keys: " + keys + b" forward: " + forward +
                    b" backward: " + backward + b' } attention_library: "cudnn" }')
        self.write("rates.textproto", rates())
        run("simulate", "--plan=gpt.plan", "--cluster=rates.textproto", cwd=self.dir)
        incomplete = ["device.attention[0] is incomplete", "ascending keys"]
        for fields, words in [(rates(keys=b"[1024, 512]"), incomplete),
                              (rates(keys=b"[512, 512]"), incomplete),
                              (rates(keys=b"[0, 512]"), incomplete),
                              (rates(keys=b"[]", forward=b"[]", backward=b"[]"), incomplete),
                              (rates(head=b"0"), incomplete),
                              (rates(forward=b"[1e12]"), incomplete),
                              (rates(forward=b"[0, 1e12]"), incomplete),
                              (rates(backward=b"[1e12, 2e12, 3e12]"), incomplete),
                              (rates(forward=b"[1e12, nan]"), ["device.attention[0].forward[1] is nan"]),
                              (rates(backward=b"[1e12, 1e30]"), ["device.attention[0].backward[1] is 1e+30 a second"]),
                              (rates().replace(b'attention_library: "cudnn"', b'attention_library: "cudn"'),
                               ['device.attention_library is "cudn", with rates of cudnn', "name a library"]),
                              (rates().replace(b'attention_library: "cudnn"', b""), ['device.attention_library is ""', "cudnn"]),
                              (b'device { attention_library: "cudnn" }',
                               ['device.attention_library is "cudnn", with no rates of attention'])]:
            with self.subTest(fields):
                self.write("rates.textproto", fields)
                self.refuse(["rates.textproto: "] + words, "simulate", "--plan=gpt.plan", "--cluster=rates.textproto")

    def test_flags_without_a_value(self):
        for flag in ["--memory=", "--cluster=", "--recompute=", "--stage_layers=", "--order="]:
            self.compile([flag, "is empty", "leave it out"], "--batch=4", flag)
        self.train(["--checkpoint_dir=", "is empty"], "--data=text.txt", "--checkpoint_dir=")

    def test_files_without_an_end(self):
        self.refuse(["/dev/zero", "larger than 2 GiB"], "verify", "--plan=/dev/zero")

    def test_explain_page(self):
        for flags in (["--full"], [], ["--format=json"]):
            self.refuse(["--program=tran", "train, eval"], "explain", "--plan=gpt.plan", "--program=tran", *flags)
        text, _ = run("explain", "--plan=gpt.plan", "--full", "--program=eval", cwd=self.dir)
        self.assertIn("program eval:", text)
        self.assertNotIn("program train:", text)
        self.refuse(["--program=tran", "train, eval"], "explain", "--plan=gpt.plan", "--format=html", "--program=tran")
        self.refuse(["absent.textproto"], "explain", "--plan=gpt.plan", "--format=html", "--cluster=absent.textproto")
        self.refuse(["--steps=-1", "is out of range"], "explain", "--plan=gpt.plan", "--format=html", "--steps=-1")

    def test_diff(self):
        self.refuse(["two plans, not 1"], "diff", "gpt.plan")
        self.refuse(["absent.plan"], "diff", "gpt.plan", "absent.plan")
        self.refuse(["--program=tran", "train, eval"], "diff", "gpt.plan", "gpt.plan", "--program=tran")
        self.refuse(["--format=html"], "diff", "gpt.plan", "gpt.plan", "--format=html")

    def test_calibrate(self):
        self.refuse(["--devices=5000", "do not fit"], "calibrate", "--out=x.textproto", "--devices=5000")
        self.refuse(["--out"], "calibrate")
        self.refuse(["absent/c.textproto"], "calibrate", "--out=absent/c.textproto")
        self.refuse(["--out=/tmp", "cannot be written"], "calibrate", "--out=/tmp")
        for seconds in ["0", "-1", "nan", "1e9"]:
            self.refuse(["--seconds=", "out of range"], "calibrate", "--out=c.textproto", "--seconds=" + seconds)
        self.refuse(["--format=yaml"], "calibrate", "--out=c.textproto", "--format=yaml")

    def test_clusters(self):
        self.write("c.textproto", 'name: "c"\ndevice {\n  memory: 3\n}\n')
        self.compile(["c.textproto:3:", "memory"], "--batch=4", "--cluster=c.textproto")
        self.write("c.textproto", 'name: "\\377"\n')
        self.refuse(["c.textproto:1:", "UTF-8"], "simulate", "--plan=gpt.plan", "--cluster=c.textproto")

        self.write("c.textproto", "level { latency: 1e-6 bandwidth: 1e9 }\n")
        self.assertIn("gpt on c.textproto: ", run("simulate", "--plan=gpt.plan", "--cluster=c.textproto", cwd=self.dir)[0])

    def test_what_a_plan_has_fixed(self):
        for verb in ("explain", "simulate", "train"):
            self.refuse(["--plan: is missing", "--graph="], verb)
        for verb in (["explain"], ["simulate"], ["train", "--data=text.txt", "--steps=1"]):
            with self.subTest(verb):
                self.refuse(["gpt.plan", "memory of stage 0", "too many"], *verb, "--plan=gpt.plan", "--memory=1KiB")
                self.refuse(["--memory=banana"], *verb, "--plan=gpt.plan", "--memory=banana")
        # With a plan, the cluster is used for the prediction.
        self.train(["absent.textproto", "cannot be read"], "--data=text.txt", "--cluster=absent.textproto")
        self.train(["--predict", "--trace=FILE"], "--data=text.txt", "--predict")

    def test_more_firings_than_can_be_counted(self):
        run("model", "gpt", *SMALL, "--layers=100", "--out=deep.textproto", cwd=self.dir)
        deep = ["compile", "--graph=deep.textproto", "--mesh=pipe=2", "--batch=65536", "--micro_batches=65536", "--out=x.plan"]
        self.refuse(["--micro_batches=65536", "more than can be counted", "at most"], *deep, "--schedule=2bw", "--clip=0")
        self.refuse(["--micro_batches=65536", "one by one", "at most"], *deep, "--schedule=gpipe")

    def test_mesh_and_step(self):
        self.compile(["--mesh", "data=0"], "--mesh=data=0")
        self.compile(["batch", "4", "3"], "--batch=4", "--micro_batches=3")
        self.compile(["pipe", "2"], "--mesh=pipe=4", "--batch=4")
        self.compile(["data", "2"], "--mesh=data=4", "--batch=4", "--micro_batches=2")
        self.compile(["recompute", "all", "selective"], "--recompute=all", "--batch=4")
        self.compile(["--recompute=full,attention: full and attention contradict", "choose one"], "--recompute=full,attention", "--batch=4")
        self.compile(["has 3 numbers; pipe=2, chunks 2: 4 slices"], "--recompute=none:1/2/3", "--mesh=pipe=2", "--batch=4",
                     "--schedule=interleaved", "--stage_layers=0,1,1,0", "--micro_batches=2")
        self.write("x.textproto", (HEAD + 'output: "x"\n').encode())
        self.refuse(["has no blocks", "write `recompute:"], "compile", "--graph=x.textproto", "--recompute=full:1", "--out=x.plan")
        self.compile(["--chunks=2: ", "interleaved"], "--chunks=2", "--batch=4")
        self.compile(["chunks=2", "2 layers", "fewer chunks"], "--mesh=pipe=2", "--schedule=interleaved", "--batch=4")
        for flag in ["--clip=-1", "--learning_rate=0", "--min_learning_rate=1", "--beta1=1", "--beta2=-0.5", "--epsilon=0",
                     "--weight_decay=-1", "--warmup_steps=-1", "--decay_steps=-2"]:
            self.compile([flag + ": is out of range"], flag)
        self.compile(["--decay_steps=20", "warm-up of 20"], "--decay_steps=20", "--warmup_steps=20")
        constant = ["the learning rate is constant", "leave it out, or add --lr_schedule=cosine or linear"]
        for flag in ["--decay_steps=8", "--min_learning_rate=1e-5"]:
            self.compile([flag.split("=")[0] + ": ", *constant], flag, "--batch=4")
            self.train([flag.split("=")[0] + ": ", *constant], "--data=text.txt", flag)
        run("compile", "--graph=gpt.textproto", "--batch=4", "--lr_schedule=cosine", "--decay_steps=8", "--out=decay.plan", cwd=self.dir)
        train = ["train", "--plan=decay.plan", "--data=text.txt", "--steps=1"]
        run(*train, "--decay_steps=9", cwd=self.dir)  # the plan's rate decays
        run(*train, "--lr_schedule=constant", "--decay_steps=0", cwd=self.dir)
        self.refuse(["--decay_steps: ", *constant], *train, "--lr_schedule=constant", "--decay_steps=9")
        self.compile(["--clip=1: ", "--clip=0"], "--schedule=2bw", "--batch=4")
        self.compile(["--clip=1: ", "--global_norm"], "--global_norm=false", "--batch=4")
        self.compile(["fill_memory", "--memory"], "--mesh=pipe=2", "--schedule=zero_bubble", "--fill_memory", "--clip=0",
                     "--global_norm=false", "--batch=4")
        self.compile(["--steps_a_round=1000000000000: is out of range; use 1 to 65536"], "--schedule=2bw", "--clip=0", "--steps_a_round=1000000000000",
                     "--batch=4")
        self.compile(["--steps_a_round=1024", "1024 micro-batches", "at most 512"], "--schedule=2bw", "--clip=0",
                     "--steps_a_round=1024", "--batch=1024", "--micro_batches=1024")
        self.compile(["--sync_every=0"], "--sync_every=0", "--batch=4")
        self.compile(["--batch=4611686018427387905: is out of range"], "--sync_every=4", "--batch=4611686018427387905")
        self.compile(["--micro_batches=4611686018427387905: is out of range"], "--sync_every=4", "--batch=4", "--micro_batches=4611686018427387905")
        self.compile(["--batch=9223372036854775807: is out of range", "4294967296"], "--batch=9223372036854775807", "--micro_batches=65536")
        self.compile(["--stage_layers=1,one", "one"], "--mesh=pipe=2", "--stage_layers=1,one", "--batch=4")
        self.compile(["--stage_layers=2,1", "3 layers", "has 2"], "--mesh=pipe=2", "--stage_layers=2,1", "--batch=4")
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--schedule=2bw", "--clip=0", "--batch=4", "--micro_batches=2",
            "--out=lag.plan", cwd=self.dir)
        lag = ["train", "--plan=lag.plan", "--data=text.txt"]
        self.refuse(["--steps=12", "every 8 steps"], *lag, "--steps=12")
        self.refuse(["--checkpoint_every=4", "multiple"], *lag, "--steps=8", "--checkpoint_every=4", "--checkpoint_dir=lag")
        self.refuse(["--clip", "no update of this plan waits"], *lag, "--steps=8", "--clip=1")
        self.compile(["--precision=fp16", "bf16"], "--precision=fp16", "--batch=4")
        self.compile(["--residual=f64", "bf16"], "--residual=f64", "--precision=bf16", "--batch=4")
        self.compile(["--residual=bf16", "--precision=bf16"], "--residual=bf16", "--batch=4")
        self.train(["--residual", "--plan"], "--data=text.txt", "--residual=bf16")
        self.train(["--precision", "--plan"], "--data=text.txt", "--precision=bf16")
        self.train(["--sequence_parallel", "--plan"], "--data=text.txt", "--sequence_parallel")
        self.train(["--keep_axis_order", "--plan"], "--data=text.txt", "--keep_axis_order")
        self.compile(["--overlap=maybe", "auto, true or false"], "--overlap=maybe", "--batch=4")
        self.compile(["--shard=all", "none, states, gradients or weights"], "--shard=all", "--batch=4")
        for size in ["x", "-1"]:
            self.compile(["--bucket_bytes=" + size, "is not a size"], "--bucket_bytes=" + size, "--batch=4")
        for pieces in ["x", "-1", "1.5"]:
            self.compile(["--loss_pieces=" + pieces, "auto, 0"], "--loss_pieces=" + pieces, "--batch=4")
        for ahead in ["x", "-1", "9"]:
            self.compile(["--prefetch=" + ahead, "auto, or 0 to 8"], "--prefetch=" + ahead, "--batch=4")
        for flag in ["--overlap=true", "--shard=states", "--bucket_bytes=1MB", "--prefetch=1"]:
            self.train([flag.split("=")[0], "--plan"], "--data=text.txt", flag)
        error = self.compile(["bytes"], "--memory=10KB", "--batch=4")
        self.assertIn("wte", error)  # names the largest registers
        self.compile(["2,048 bytes"], "--memory=2KiB", "--batch=4")
        self.compile(["--memory=lots", "is not a size"], "--memory=lots", "--batch=4")

    def test_axes_that_nothing_lies_on_are_told(self):
        warnings = lambda mesh, *verb: run(*verb, "--mesh=" + mesh, "--batch=4", cwd=self.dir)[1]
        compile_gpt = ["compile", "--graph=gpt.textproto", "--out=axes.plan"]
        self.assertIn("warning: mesh axis dp: did you mean data? neither", warnings("dp=2", *compile_gpt))
        self.assertIn("mesh axis tp.1: did you mean tensor? neither", warnings("data=2,tp=1x2", *compile_gpt))
        self.assertEqual("", warnings("pipe=2,data=2x1,tensor=2", *compile_gpt))
        with open(self.dir + "/gpt.textproto", encoding="utf-8") as file:  # the graph may say it
            own = file.read().replace('name: "embed" ', 'name: "embed" sbp { on { key: "dp" value: "S(2)" } } ', 1)
        self.write("own_axis.textproto", own.encode())
        self.assertEqual("", warnings("dp=2", "compile", "--graph=own_axis.textproto", "--out=axes.plan"))

    def test_orders(self):
        two = ["--mesh=pipe=2", "--batch=4", "--micro_batches=2", "--order=own.textproto"]
        for text, words in [
            ('stage {\n  tasks: "F0"\n}', ["own.textproto:2:", "tasks"]),
            ('stage { task: "F0 B0" }\nstage { task: "F1" }', ["own.textproto:2: stage 1", "F1", "F0 is due"]),
            ('stage { task: "F0 F1 B0 B1" }', ["orders 1 stages", "mesh has 2"])]:
            with self.subTest(text):
                self.write("own.textproto", text.encode())
                self.compile(words, *two)
        self.compile(["--schedule", "--order"], *two, "--schedule=1f1b")
        self.compile(["absent.textproto", "--order"], "--batch=4", "--order=absent.textproto")

    def test_generating(self):
        generate = lambda words, *flags: self.refuse(words, "generate", "--checkpoint=ckpt", *flags)
        prompt = "--prompt=The "
        self.refuse(["--checkpoint"], "generate", prompt)
        generate(["--prompt", "is empty"])
        generate(["--prompt", "is empty"], "--prompt=")
        generate(["--tokens=0"], prompt, "--tokens=0")
        generate(["--temperature"], prompt, "--temperature=-1")
        generate(["--top_k"], prompt, "--top_k=-1")
        for value in ["0", "-0.5", "1.01", "nan"]:
            generate(["--top_p", "above 0"], prompt, "--top_p=" + value)
        generate(["--tokenizer=gpt3", "gpt2:FOLDER"], prompt, "--tokenizer=gpt3")
        generate(["absent/vocab.json"], prompt, "--tokenizer=gpt2:absent")
        gpt2 = "--tokenizer=gpt2:" + VOCABULARY
        generate([gpt2, "the tokenizer is gpt2:testdata (", "tokens of bytes ("], prompt, gpt2)
        self.write("foreign.bin", b"a\0b\0" * 100)  # of a tokenizer that nobody knows
        run("train", "--plan=gpt.plan", "--data=foreign.bin", "--steps=1", "--checkpoint_dir=foreign", cwd=self.dir)
        run("generate", "--checkpoint=foreign", prompt, gpt2, "--tokens=1", cwd=self.dir)
        error = run("generate", "--checkpoint=foreign", "--prompt=the other", gpt2, cwd=self.dir, code=2)[1]
        self.assertRegex(error, "--prompt: token [0-9]+ is not in the model's vocabulary of 256")
        generate(["tensor=3", "heads"], prompt, "--mesh=tensor=3")
        generate(["bytes"], prompt, "--memory=10KB")
        run("model", "gpt", *[f.replace("vocab=256", "vocab=128") for f in SMALL], "--out=ascii.textproto", cwd=self.dir)
        run("train", "--graph=ascii.textproto", "--data=text.txt", "--steps=1", "--checkpoint_dir=ascii", cwd=self.dir)
        self.refuse(["--prompt", "token 195", "128"], "generate", "--checkpoint=ascii", "--prompt=Zoë")


if __name__ == "__main__":
    unittest.main()
