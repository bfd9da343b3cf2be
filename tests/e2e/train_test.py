"""The lines of the README, on a small model: model, compile, explain, verify, train, resume, generate."""
import json
import os
import unittest

from tests.e2e.cli import FolderCase, read_metrics, read_slices, run

MODEL = ["--layers=2", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=256"]


# Two stages that share a table: tokens are embedded on the first, partial on the axis `tensor` (each device has a part
# of the vocabulary), a function of them is added on the last, and the sum is projected onto the same table.
TIED = """
name: "tied"
op {{ name: "tokens" kind: "input" dtype: I32 shape {{ dim {{ name: "batch" }} dim {{ size: 16 }} }}
     attr {{ key: "source" value {{ s: "tokens" }} }} {batch} }}
op {{ name: "labels" kind: "input" dtype: I32 shape {{ dim {{ name: "batch" }} dim {{ size: 16 }} }}
     attr {{ key: "source" value {{ s: "labels" }} }} stage: {last} {batch} }}
op {{ name: "table" kind: "variable" shape {{ dim {{ size: 256 }} dim {{ size: 32 }} }} {table}
     attr {{ key: "init" value {{ s: "normal" }} }} attr {{ key: "init_value" value {{ f: 0.1 }} }} }}
op {{ name: "w" kind: "variable" shape {{ dim {{ size: 32 }} dim {{ size: 32 }} }}
     attr {{ key: "init" value {{ s: "normal" }} }} attr {{ key: "init_value" value {{ f: 0.1 }} }} }}
op {{ name: "x" kind: "embedding" input: "table" input: "tokens" {partial} }}
op {{ name: "fc" kind: "linear" input: "x" input: "w" stage: {last} }}
op {{ name: "act" kind: "gelu" input: "fc" stage: {last} }}
op {{ name: "sum" kind: "add" input: "x" input: "act" stage: {last} }}
op {{ name: "logits" kind: "linear" input: "sum" input: "table" stage: {last}
     attr {{ key: "transpose_w" value {{ b: true }} }} }}
op {{ name: "loss" kind: "softmax_cross_entropy" input: "logits" input: "labels" stage: {last} }}
loss: "loss"
output: "logits"
"""


def tied_graph(axes, stages):
    on = lambda axis, sbp: f'sbp {{ on {{ key: "{axis}" value: "{sbp}" }} }}' if axis in axes else ""
    return TIED.format(batch=on("data", "S(0)"), table=on("tensor", "S(0)"), partial=on("tensor", "P"), last=stages - 1)


class TrainTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "".join(f"line {i}: the cat sat on mat {i % 7}.\n" for i in range(400)))
        run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=cls.dir)

    def test_more_threads_than_cores_are_told(self):
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, {min(cores)})
        for flags, words in [(["--mesh=data=2"], ["2 devices of 1 kernel threads", "a mesh of 1 or fewer devices"]),
                             (["--threads=2"], ["1 devices of 2 kernel threads", "with --threads=1"]), ([], [])]:
            error = run("train", "--graph=gpt.textproto", "--data=text.txt", "--steps=2", *flags, cwd=self.dir)[1]
            self.assertEqual(error.count("on the 1 cores that this process may use"), 1 if words else 0, error)
            for word in words:
                self.assertIn(word, error)

    def compile(self, mesh, plan="gpt.plan", schedule="1f1b"):
        return run("compile", "--graph=gpt.textproto", "--mesh=" + mesh, "--batch=8", "--micro_batches=4",
                   "--schedule=" + schedule, "--threads=1", "--out=" + plan, cwd=self.dir)[0]

    def train(self, *flags, metrics="metrics.jsonl"):
        run("train", "--data=text.txt", "--seed=1", "--threads=1", "--learning_rate=1e-2", "--metrics=" + metrics, *flags,
            cwd=self.dir)
        return read_metrics(os.path.join(self.dir, metrics))

    def test_explain_says_what_the_plan_is(self):
        summary = self.compile("pipe=2,data=2", "explain.plan")
        self.assertIn("live", summary)
        self.assertIn("\n    h.*.attn.add is S(0) on data: the default says so; 2 times\n", summary)
        self.assertIn("\n    embed is S(0) on data: the default says so\n", summary)
        own = self.read("gpt.textproto").decode().replace('name: "embed" ', 'name: "embed" sbp { on { key: "data" value: "S(0)" } } ', 1)
        self.write("own.textproto", own)
        told = run("compile", "--graph=own.textproto", "--mesh=data=2", "--batch=8", "--out=own.plan", cwd=self.dir)[0]
        self.assertIn("\n    embed is S(0) on data: the graph says so\n", told)
        facts = json.loads(run("explain", "--plan=explain.plan", "--format=json", cwd=self.dir)[0])
        self.assertEqual(facts["mesh"], {"pipe": 2, "data": 2})
        self.assertEqual(len(facts["stages"]), 2)
        self.assertEqual(facts["proof"], "live, memory-safe, type-safe")
        names = [p["name"] for p in facts["programs"]]
        for name in ["init", "train", "eval", "generate", "save", "load"]:
            self.assertIn(name, names)
        train = facts["programs"][names.index("train")]
        self.assertIn("adamw", {actor["kernel"] for actor in train["actors"]})
        self.assertIn("live", run("verify", "--plan=explain.plan", cwd=self.dir)[0])

    def test_loss_falls_and_metrics_are_complete(self):
        self.compile("data=2,pipe=2", "fall.plan")
        rows = self.train("--plan=fall.plan", "--steps=30", "--eval_fraction=0.1", "--eval_every=10")
        self.assertEqual([r["step"] for r in rows], list(range(30)))
        for key in ["loss", "learning_rate", "grad_norm", "tokens_per_second", "step_seconds"]:
            self.assertTrue(all(isinstance(r[key], (int, float)) for r in rows), key)
        self.assertLess(rows[-1]["loss"], rows[0]["loss"] - 1.5)
        self.assertEqual([r["step"] for r in rows if "eval_loss" in r], [9, 19, 29])

    def test_a_run_goes_on_where_a_chunk_of_steps_ends(self):
        run("model", "gpt", "--layers=1", "--heads=1", "--hidden=4", "--sequence=2", "--vocab=256", "--out=chunk.textproto",
            cwd=self.dir)
        rows = self.train("--graph=chunk.textproto", "--batch=1", "--steps=16400")  # a chunk has 16384
        self.assertEqual([r["step"] for r in rows], list(range(16400)))
        rest = self.train("--graph=chunk.textproto", "--batch=1", "--steps=16400", "--checkpoint_every=8200",
                          "--checkpoint_dir=chunk")
        self.assertEqual([r["loss"] for r in rest], [r["loss"] for r in rows])

    def test_skipped_steps_are_told(self):
        error = run("train", "--graph=gpt.textproto", "--data=text.txt", "--steps=5", "--learning_rate=1e30",
                    "--clip=0", "--metrics=skipped.jsonl", cwd=self.dir, code=1)[1]
        self.assertRegex(error, "warning: [1-4] steps were skipped")
        self.assertIn("oneflow: error: the loss of the last step is not finite", error)
        self.assertIsNone(read_metrics(self.dir + "/skipped.jsonl")[-1]["grad_norm"])

    def test_resume_gives_the_bits_of_an_uninterrupted_run(self):
        self.compile("data=2", "resume.plan")
        whole = self.train("--plan=resume.plan", "--steps=8", "--lr_schedule=cosine", "--decay_steps=8")
        self.train("--plan=resume.plan", "--steps=5", "--lr_schedule=cosine", "--decay_steps=8",
                   "--checkpoint_dir=ckpt", metrics="first.jsonl")
        rest = self.train("--plan=resume.plan", "--steps=8", "--lr_schedule=cosine", "--decay_steps=8",
                          "--checkpoint_dir=ckpt", "--resume", metrics="first.jsonl")
        self.assertEqual([r["loss"] for r in rest], [r["loss"] for r in whole])
        self.assertEqual([r["grad_norm"] for r in rest], [r["grad_norm"] for r in whole])

    def test_what_flags_leave_out_of_a_model_is_told(self):
        out = run("model", "gpt", "--layers=1", "--heads=2", "--hidden=8", "--vocab=256", "--out=rest.textproto", cwd=self.dir)[0]
        self.assertIn("; layers 1, heads 2, hidden 8, sequence 1024, vocabulary 256\n", out)

    def test_resuming_with_other_numbers_is_told(self):
        where = ["--data=text.txt", "--checkpoint_dir=numbers", "--lr_schedule=cosine", "--graph=gpt.textproto"]
        train = lambda *flags: run("train", *where, *flags, cwd=self.dir)[1]
        self.assertNotIn("warning", train("--steps=2", "--decay_steps=4"))
        self.assertNotIn("warning", train("--steps=4", "--resume"))  # the decay ends where it did
        told = train("--steps=6", "--resume", "--learning_rate=1e-3", "--batch=4")
        self.assertIn("numbers/step-00000004 was trained with other numbers: --batch 8, now 4; --learning_rate 0.0003, now 0.001; "
                      "--decay_steps 4, now 6\n", told)
        # The checkpoint holds the run's numbers, not the plan's.
        self.assertNotIn("warning", train("--steps=7", "--decay_steps=6", "--resume", "--learning_rate=1e-3", "--batch=4"))

    def test_what_changes_the_bits_of_a_resumed_run_is_told(self):
        run("model", "gpt", *MODEL, "--dropout=0.1", "--out=drop1.textproto", cwd=self.dir)
        run("model", "gpt", *MODEL, "--dropout=0.2", "--masks=stored", "--out=drop2.textproto", cwd=self.dir)
        drops = self.read("drop1.textproto").decode().count('"dropout"')
        train = lambda *flags: [line for line in run("train", "--data=text.txt", "--checkpoint_dir=bits", "--batch=8",
                                                     *flags, cwd=self.dir)[1].splitlines() if "trained" in line]
        self.assertEqual([], train("--steps=2", "--graph=drop1.textproto", "--micro_batches=2", "--mesh=data=2"))
        # As on any pipe, under any schedule, with any recompute.
        self.assertEqual([], train("--steps=3", "--graph=drop1.textproto", "--micro_batches=2", "--mesh=pipe=2,data=2",
                                   "--schedule=gpipe", "--recompute=full", "--resume"))
        told = lambda folder, kind: f"oneflow: warning: bits/{folder} was trained {kind}"
        tokens = len(self.read("text.txt"))
        self.assertEqual(
            [told("step-00000003", "with other numbers: --mesh data=2, now one device a stage (sums in another order); "
                  "--micro_batches 2, now 1 (sums in another order); --precision f32, now bf16; --residual f32, now bf16"),
             told("step-00000003", f"on other data: tokens {tokens}, now {tokens - int(tokens * 0.1)}"),
             told("step-00000003", f"with another graph: op embed.drop: rate 0.1, now 0.2 (and {drops - 1} more)")],
            train("--steps=4", "--graph=drop2.textproto", "--precision=bf16", "--eval_fraction=0.1", "--resume"))

    def test_a_checkpoint_is_evaluated_without_training(self):
        train = ["train", "--graph=gpt.textproto", "--data=text.txt", "--eval_data=text.txt", "--checkpoint_dir=again"]
        rows = self.train(*train[1:2], "--eval_data=text.txt", "--steps=3", "--checkpoint_dir=again")
        loss = rows[-1]["eval_loss"]
        out, error = run(*train, "--steps=3", "--resume", cwd=self.dir)
        self.assertIn("nothing to do", error)
        self.assertIn(f"after step 3: validation loss {loss:.4f}\n", out)
        out = run(*train, "--steps=3", "--resume", "--format=json", cwd=self.dir)[0]
        self.assertEqual({"steps_done": 3, "eval_loss": loss}, json.loads(out))
        # If all batches are equal, the mean of any number of them is the same.
        self.write("alike.txt", "a" * 400)
        means = [json.loads(run(*train, "--steps=3", "--resume", "--format=json", "--eval_data=alike.txt",
                                f"--eval_batches={batches}", cwd=self.dir)[0])["eval_loss"] for batches in (1, 4)]
        self.assertEqual(means[0], means[1])

    def test_resume_takes_the_graph_of_the_checkpoint(self):
        whole = self.train("--graph=gpt.textproto", "--steps=4")
        self.train("--graph=gpt.textproto", "--steps=2", "--checkpoint_dir=graph")
        resumed = self.train("--steps=4", "--checkpoint_dir=graph", "--resume")
        self.assertEqual([row["loss"] for row in resumed][-2:], [row["loss"] for row in whole][2:])
        error = run("train", "--data=text.txt", "--steps=4", "--checkpoint_dir=none", "--resume=auto", cwd=self.dir, code=2)[1]
        self.assertIn("--graph: is missing, and --checkpoint_dir=none has no checkpoint to take it from", error)
        for folder in os.listdir(self.dir + "/graph"):
            if folder.startswith("step-"):
                self.write(f"graph/{folder}/train.textproto", "")
        error = run("train", "--data=text.txt", "--steps=6", "--checkpoint_dir=graph", "--resume", cwd=self.dir, code=2)[1]
        self.assertIn("graph/step-00000004/train.textproto: is truncated", error)

    def test_resume_with_dropout_gives_the_bits_of_an_uninterrupted_run(self):
        run("model", "gpt", *MODEL, "--dropout=0.2", "--out=drop.textproto", cwd=self.dir)
        train = lambda steps, *flags: self.train("--graph=drop.textproto", "--batch=8", "--micro_batches=2",
                                                 f"--steps={steps}", *flags, metrics="drop.jsonl")
        whole = train(8)
        train(5, "--checkpoint_dir=drop")
        rest = train(8, "--checkpoint_dir=drop", "--resume")
        self.assertEqual([(r["loss"], r["grad_norm"]) for r in rest], [(r["loss"], r["grad_norm"]) for r in whole])

    def test_only_training_drops_out(self):
        losses = {}
        for rate in ["0", "0.5"]:
            run("model", "gpt", *MODEL, "--dropout=" + rate, "--out=drop.textproto", cwd=self.dir)
            run("compile", "--graph=drop.textproto", "--out=drop.plan", cwd=self.dir)
            rows = self.train("--plan=drop.plan", "--steps=1", "--learning_rate=1e-30", "--eval_fraction=0.1")
            losses[rate] = rows[0]["loss"], rows[0]["eval_loss"]
        self.assertEqual(losses["0"][1], losses["0.5"][1])  # the weights are as they began
        self.assertNotEqual(losses["0"][0], losses["0.5"][0])
        self.assertIn("dropout: ", run("explain", "--plan=drop.plan", cwd=self.dir)[0])

    def test_the_lowest_rank_that_holds_a_slice_saves_it(self):
        self.compile("pipe=2,data=2", "lowest.plan")
        self.train("--plan=lowest.plan", "--steps=1", "--checkpoint_dir=lowest")
        variables = json.loads(self.read("lowest/step-00000001/manifest.json"))["variables"]
        files = {v["name"]: {piece["file"] for piece in v["slices"]} for v in variables}
        self.assertEqual(files["wte"], {"rank-00000.bin"})  # the last stage holds a replica
        self.assertEqual(set.union(*files.values()), {"rank-00000.bin", "rank-00002.bin"})  # of each stage the first

    def test_any_plan_loads_any_checkpoint(self):
        self.train("--graph=gpt.textproto", "--mesh=tensor=2", "--batch=8", "--steps=3", "--checkpoint_dir=any")
        one = self.train("--graph=gpt.textproto", "--batch=8", "--steps=4", "--checkpoint_dir=any", "--resume",
                         metrics="one.jsonl")
        whole = self.train("--graph=gpt.textproto", "--mesh=tensor=2", "--batch=8", "--steps=4", metrics="whole.jsonl")
        self.assertAlmostEqual(one[-1]["loss"], whole[-1]["loss"], delta=1e-4)

    def test_bf16_trains_from_f32_masters(self):
        summary = run("compile", "--graph=gpt.textproto", "--batch=8", "--micro_batches=4", "--precision=bf16",
                      "--out=bf16.plan", cwd=self.dir)[0]
        self.assertIn("schedule 1f1b, precision bf16", summary)
        # 2 blocks of 4 linears and the head, each one product forward and two backward.
        self.assertIn("27 products in bf16, added up in f32", summary)
        self.assertRegex(summary, "this processor (multiplies it with|has not) AVX512-BF16")
        whole = self.train("--plan=bf16.plan", "--steps=8", metrics="bf16.jsonl")
        self.assertLess(whole[-1]["loss"], whole[0]["loss"] - 0.5)
        # A checkpoint is of either precision: in bf16 it goes on with the same bits, in f32 nearby.
        self.train("--plan=bf16.plan", "--steps=5", "--checkpoint_dir=bf16", metrics="part.jsonl")
        wide = ["--graph=gpt.textproto", "--batch=8", "--micro_batches=4", "--steps=8"]
        on = self.train("--plan=bf16.plan", "--steps=8", "--checkpoint_dir=bf16", "--resume", metrics="part.jsonl")
        self.assertEqual([r["loss"] for r in on], [r["loss"] for r in whole])
        self.train("--plan=bf16.plan", "--steps=5", "--checkpoint_dir=narrow", metrics="narrow.jsonl")
        on = self.train(*wide, "--checkpoint_dir=narrow", "--resume", metrics="narrow.jsonl")
        self.assertAlmostEqual(on[-1]["loss"], whole[-1]["loss"], delta=0.03)
        self.assertNotEqual(on[-1]["loss"], whole[-1]["loss"])
        self.train(*wide[:3], "--steps=5", "--checkpoint_dir=wide", metrics="wide.jsonl")
        on = self.train("--plan=bf16.plan", "--steps=8", "--checkpoint_dir=wide", "--resume", metrics="wide.jsonl")
        self.assertAlmostEqual(on[-1]["loss"], whole[-1]["loss"], delta=0.03)
        run("generate", "--checkpoint=bf16", "--prompt=The ", "--tokens=5", cwd=self.dir)

    def test_a_residual_stream_of_bf16_has_the_same_bits_at_any_pipe_degree(self):
        losses = []
        for mesh in ["pipe=1", "pipe=2"]:
            plan = ["--graph=gpt.textproto", "--mesh=" + mesh, "--batch=8", "--micro_batches=4", "--precision=bf16"]
            self.assertIn("residual bf16", run("compile", *plan, "--out=stream.plan", cwd=self.dir)[0])
            losses.append([r["loss"] for r in self.train("--plan=stream.plan", "--steps=8")])
        header, *rest = run("explain", "--plan=stream.plan", "--format=memory", cwd=self.dir)[0].splitlines()
        self.assertEqual(["0", "1"], [line.split()[0] for line in rest[:2]])
        self.assertRegex(rest[-1], "^largest of stage 1: .* x .* bytes")
        self.assertEqual("kept_in_blocks", header.split()[3])
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], [r["loss"] for r in self.train(*plan, "--residual=bf16", "--steps=8")])
        wide = [r["loss"] for r in self.train(*plan, "--residual=f32", "--steps=8")]
        self.assertNotEqual(losses[0], wide)
        self.assertAlmostEqual(losses[0][-1], wide[-1], delta=0.03)

    def test_generate_is_a_function_of_the_seed(self):
        self.train("--graph=gpt.textproto", "--batch=8", "--steps=3", "--checkpoint_dir=gen")
        line = lambda seed: run("generate", "--checkpoint=gen", "--prompt=The ", "--tokens=20", "--temperature=0.8",
                                "--seed=" + seed, cwd=self.dir)[0]
        self.assertEqual(line("1"), line("1"))
        self.assertNotEqual(line("1"), line("2"))
        self.assertTrue(line("1").startswith("The "))

    def test_a_graph_written_by_hand_trains_on_any_mesh(self):
        graph = os.path.abspath("examples/bigram.textproto")
        losses = [self.train("--graph=" + graph, "--mesh=" + mesh, "--batch=12", "--steps=40")[-1]["loss"]
                  for mesh in ["", "data=3", "tensor=2"]]
        self.assertLess(losses[0], 3.5)
        for loss in losses:
            self.assertAlmostEqual(loss, losses[0], delta=1e-4)

    def test_trace_is_json_with_a_slice_a_firing(self):
        self.train("--graph=gpt.textproto", "--mesh=data=2", "--batch=8", "--steps=2", "--trace=trace.json")
        events = json.loads(self.read("trace.json"))["traceEvents"]
        kinds = {e["ph"] for e in events}
        self.assertTrue({"X", "s", "f"} <= kinds, kinds)

    def test_pipe_degree_and_schedule_do_not_change_bits(self):
        losses = []
        for mesh, schedule in [("", "1f1b"), ("pipe=2", "1f1b"), ("pipe=2", "gpipe"), ("pipe=2", "zero_bubble")]:
            self.compile(mesh, "bits.plan", schedule)
            losses.append([r["loss"] for r in self.train("--plan=bits.plan", "--steps=4")])
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        self.assertEqual(losses[0], losses[3])

    def test_stages_of_a_graph_written_by_hand_do_not_change_bits(self):
        for rest, precision in [("tensor=2", "f32"), ("data=2", "f32"), ("data=2,tensor=2", "f32"),
                                ("tensor=2", "bf16"), ("data=2", "bf16")]:
            metrics, slices = [], []
            for stages in [1, 2]:
                self.write("tied.textproto", tied_graph(rest, stages))
                folder = f"tied_{rest}_{stages}_{precision}"
                rows = self.train("--graph=tied.textproto", f"--mesh=pipe={stages},{rest}", "--batch=8",
                                  "--micro_batches=4", "--steps=4", "--precision=" + precision,
                                  "--checkpoint_dir=" + folder)
                metrics.append([(r["loss"], r["grad_norm"]) for r in rows])
                slices.append(read_slices(os.path.join(self.dir, folder, "step-00000004")))
            with self.subTest(rest=rest, precision=precision):
                self.assertLess(metrics[0][-1][0], metrics[0][0][0])
                self.assertEqual({name for name, *_ in slices[0]}, {"table", "table/m", "table/v", "w", "w/m", "w/v"})
                self.assertEqual(metrics[0], metrics[1])
                self.assertEqual(slices[0].keys(), slices[1].keys())
                self.assertEqual([], [key for key in slices[0] if slices[0][key] != slices[1][key]])


if __name__ == "__main__":
    unittest.main()
