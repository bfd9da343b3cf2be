"""Data, plans, checkpoints and paths that are wrong: exit code 2, and what, where and how to mend it; nothing is lost."""
import json
import os
import re
import subprocess
import unittest

from tests.e2e.bad_input import SMALL, BadInputCase
from tests.e2e.cli import ONEFLOW, run, write_npy


class BadFilesTest(BadInputCase):
    def test_paths_that_are_too_long(self):
        path = "x" * 300
        self.refuse([path, "too long"], "calibrate", "--out=" + path)
        self.refuse([path], "generate", "--checkpoint=" + path, "--prompt=The ")
        self.train([path], "--data=text.txt", "--metrics=" + path)
        self.train([path], "--data=text.txt", "--checkpoint_dir=" + path)
        self.train([path, "cannot be written"], "--data=text.txt", "--checkpoint_dir=ckpt", "--resume", "--metrics=" + path)
        self.refuse([path], "data", "--text=text.txt", "--out=" + path)

    def test_paths_that_are_not_utf8(self):
        out = run("data", "--text=text.txt", "--format=json", b"--out=b\xff", cwd=self.dir)[0]
        self.assertEqual(json.loads(out)["files"][0]["path"], "b\ufffd/train.bin")
        os.rename(self.dir.encode() + b"/ckpt", self.dir.encode() + b"/c\xff")
        out = run("generate", b"--checkpoint=c\xff", "--prompt=The ", "--tokens=1", "--format=json", cwd=self.dir)[0]
        os.rename(self.dir.encode() + b"/c\xff", self.dir.encode() + b"/ckpt")
        self.assertIn("c\ufffd", json.loads(out)["checkpoint"])
        # The order's path becomes the name of the plan's schedule.
        self.write("order", 'stage { task: "F0 B0" }')
        os.rename(self.dir.encode() + b"/order", self.dir.encode() + b"/o\xff")
        run("compile", "--graph=gpt.textproto", "--batch=4", b"--order=o\xff", "--out=ordered.plan", cwd=self.dir)
        self.assertIn("schedule o\ufffd", run("explain", "--plan=ordered.plan", cwd=self.dir)[0])

    def test_paths_that_are_no_files(self):
        os.makedirs(self.dir + "/folder", exist_ok=True)
        self.refuse(["folder", "Is a directory"], "verify", "--plan=folder")
        self.refuse(["folder", "has no config.json"], "compile", "--graph=folder", "--out=x.plan")
        self.compile(["folder", "Is a directory"], "--cluster=folder", "--batch=4")
        self.refuse(["folder: is a folder without files"], "train", "--plan=gpt.plan", "--data=folder", "--steps=1")

    def test_outputs_that_are_inputs(self):
        def untouched(words, *command):
            before = {}
            for name in ["text.txt", "gpt.plan", "gpt.textproto"]:
                with open(self.dir + "/" + name, "rb") as file:
                    before[name] = file.read()
            self.refuse([*words, "another file"], *command)
            for name, content in before.items():
                with open(self.dir + "/" + name, "rb") as file:
                    self.assertEqual(file.read(), content, name)

        os.symlink("text.txt", self.dir + "/link.txt")
        train = ["train", "--plan=gpt.plan", "--data=text.txt", "--steps=1"]
        for path in ["text.txt", "./text.txt", "link.txt"]:
            untouched(["--metrics=" + path, "--data"], *train, "--metrics=" + path)
        untouched(["--metrics=text.txt", "--eval_data"], "train", "--plan=gpt.plan", "--data=a.txt,b.txt", "--eval_data=link.txt",
                  "--steps=1", "--metrics=text.txt")
        untouched(["--trace=gpt.plan", "--plan"], *train, "--trace=gpt.plan")
        untouched(["--metrics=new.txt", "--trace"], *train, "--metrics=new.txt", "--trace=./new.txt")
        untouched(["--out=gpt.textproto", "--graph"], "compile", "--graph=gpt.textproto", "--out=gpt.textproto", "--batch=4")
        run(*train, "--metrics=/dev/null", "--trace=/dev/null", cwd=self.dir)

    def test_outputs_of_data_and_run_that_are_inputs(self):
        os.makedirs(self.dir + "/out", exist_ok=True)
        for name in ["train.bin", "train.idx", "val.bin", "val.idx"]:
            self.write("out/" + name, "some words. " * 50)
            self.refuse(["--out=out", name, "--text"], "data", f"--text=text.txt,out/{name}", "--out=out", "--val_fraction=0.1")
            self.assertEqual(self.read(f"out/{name}"), b"some words. " * 50)
        self.write("product.textproto", b'''
            op { name: "x" kind: "input" shape { dim { size: 4 } dim { size: 2 } } sbp { on { key: "data" value: "S(0)" } } }
            op { name: "out" kind: "gelu" input: "x" }
            output: "out"
            mesh { axis { name: "data" size: 2 } }''')
        for name in ["x.npy", "x.rank1.npy"]:
            write_npy(f"{self.dir}/{name}", [4, 2], [0.5] * 8)
        one = ["run", "--graph=product.textproto"]
        self.refuse(["--fetch=out=x.npy", "--feed", "another file"], *one, "--feed=x=x.npy", "--fetch=out=x.npy")
        self.refuse(["--fetch=out=product.textproto", "--graph"], *one, "--feed=x=x.npy", "--fetch=out=product.textproto")
        self.refuse(["--shards", "x.rank1.npy", "--feed"], *one, "--feed=x=x.rank1.npy", "--fetch=out=x.npy", "--shards")
        run(*one, "--feed=x=x.rank1.npy", "--fetch=out=x.npy", cwd=self.dir)

    def test_resuming_with_other_rounds(self):
        lag = ["--schedule=2bw", "--clip=0", "--batch=4", "--micro_batches=2", "--mesh=pipe=2", "--graph=gpt.textproto"]
        for steps in (2, 4):
            run("compile", *lag, f"--steps_a_round={steps}", f"--out=round{steps}.plan", cwd=self.dir)
        data = ["--data=text.txt", "--checkpoint_dir=rounds"]
        run("train", "--plan=round2.plan", *data, "--steps=2", cwd=self.dir)
        self.refuse(["step 2", "every 4 steps", "--steps_a_round"], "train", "--plan=round4.plan", *data, "--steps=8", "--resume")
        _, error = run("train", "--plan=round2.plan", *data, "--steps=2", "--resume", cwd=self.dir)
        self.assertIn("nothing to do", error)

    def test_a_new_run_loses_nothing_of_an_earlier_one(self):
        run_flags = ["train", "--plan=gpt.plan", "--data=text.txt", "--checkpoint_dir=again", "--metrics=again.jsonl"]
        run(*run_flags, "--steps=2", cwd=self.dir)
        metrics = self.read("again.jsonl")
        error = run(*run_flags, "--steps=1", cwd=self.dir)[1]
        self.assertIn("the metrics of an earlier run are moved to", error)
        self.assertIn("the checkpoints of an earlier run are moved to again/old-1\n", error)
        self.assertEqual(self.read("again.jsonl.old-1"), metrics)
        self.assertEqual(os.listdir(self.dir + "/again/old-1"), ["step-00000002"])
        self.assertNotIn("moved", run(*run_flags, "--steps=3", "--resume", cwd=self.dir)[1])
        with open(self.dir + "/again.jsonl", encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["step"] for line in file], [0, 1, 2])

    def test_weights_that_are_not_finite(self):
        out, _ = run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=3", "--learning_rate=1e30", "--checkpoint_dir=wild",
                     cwd=self.dir, code=1)
        self.assertIn("loss nan ", out)  # whatever the sign of the NaN
        self.refuse(["--checkpoint=wild", "not finite"], "generate", "--checkpoint=wild", "--prompt=abc", "--tokens=4")
        run("compile", "--graph=gpt.textproto", "--batch=4", "--global_norm=false", "--clip=0", "--out=no_norm.plan", cwd=self.dir)
        _, error = run("train", "--plan=no_norm.plan", "--data=text.txt", "--steps=4", "--learning_rate=1e30", cwd=self.dir, code=1)
        self.assertIn("was applied", error)
        self.assertNotIn("--clip=1", error)
        _, error = run("train", "--graph=gpt.textproto", "--schedule=2bw", "--clip=0", "--mesh=pipe=2", "--batch=4", "--micro_batches=2",
                       "--data=text.txt", "--steps=8", "--learning_rate=1e30", cwd=self.dir, code=1)
        self.assertRegex(error, r"[1-8] steps had a loss or gradient that was not finite and was applied; the first is step [1-8]; "
                                r"try a lower --learning_rate\n")

    def test_outputs_are_tried_before_the_first_step(self):
        data = "--data=text.txt"
        for flag in ["--metrics=absent/m.jsonl", "--trace=absent/t.json", "--checkpoint_dir=text.txt/ckpt", "--tensorboard=text.txt/curves"]:
            with self.subTest(flag):
                out, error = run("train", "--plan=gpt.plan", data, "--steps=3", flag, cwd=self.dir, code=2)
                self.assertNotIn("loss", out)
                self.assertIn(flag.split("=")[1].split("/")[0], error)
        # A mistake in one flag does not move the checkpoints of another run aside.
        before = sorted(os.listdir(self.dir + "/ckpt"))
        self.train(["absent/m.jsonl"], data, "--checkpoint_dir=ckpt", "--metrics=absent/m.jsonl")
        # Nor does a plan that cannot be trained.
        self.write("generation.textproto", "recipe { purpose: GENERATION }")
        run("compile", "--graph=gpt.textproto", "--recipe=generation.textproto", "--out=generation.plan", cwd=self.dir)
        self.refuse(['has no program "train"'], "train", "--plan=generation.plan", data, "--steps=3", "--checkpoint_dir=ckpt")
        self.assertEqual(sorted(os.listdir(self.dir + "/ckpt")), before)

    def test_a_full_disk_is_not_passed_over(self):
        os.symlink("/dev/full", self.dir + "/full")  # a link: a mistake must not replace the device
        train = ["train", "--plan=gpt.plan", "--data=text.txt", "--steps=1"]
        for command in [[*train, "--metrics=full"], [*train, "--trace=full"], ["model", "gpt", *SMALL, "--out=full"],
                        ["compile", "--graph=gpt.textproto", "--batch=4", "--out=full"]]:
            error = run(*command, cwd=self.dir, code=1)[1]
            self.assertIn("full: cannot be written: No space left on device", error)
        with open("/dev/full", "w") as full:
            done = subprocess.run([ONEFLOW, "explain", "--plan=gpt.plan"], cwd=self.dir, stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("standard output", done.stderr)

    def test_a_folder_that_cannot_be_written_to(self):
        train = ["train", "--plan=gpt.plan", "--data=text.txt", "--steps=1"]
        for command, path in [(train, "--metrics=/sys/m.jsonl"), (train, "--trace=/sys/t.json"), (train, "--checkpoint_dir=/sys/ckpt"), (train, "--tensorboard=/sys/curves"),
                              (["model", "gpt", *SMALL], "--out=/sys/gpt.textproto"),
                              (["data", "--text=text.txt"], "--out=/sys/data"), (["calibrate"], "--out=/sys/c.textproto")]:
            with self.subTest(path):  # to which nobody may add files
                out, error = run(*command, path, cwd=self.dir, code=1)
                self.assertNotIn("loss", out)
                self.assertRegex(error, r"oneflow: error: .*/sys/.*: (Permission denied|Operation not permitted|Read-only file system)")

    def test_data(self):
        self.train(["--data"])
        self.train(["absent.txt"], "--data=absent.txt")
        self.train(["--data=text.txt,,text.txt", "without a name"], "--data=text.txt,,text.txt")
        self.train(["--data=,", "without a name"], "--data=,")
        self.train(["/dev/null", "no regular file"], "--data=/dev/null")
        self.train(["--checkpoint_every", "--checkpoint_dir"], "--data=text.txt", "--checkpoint_every=1")
        self.train(["--keep", "--checkpoint_dir"], "--data=text.txt", "--keep=1")
        self.train(["--keep=-1", "use 1 or more"], "--data=text.txt", "--keep=-1", "--checkpoint_dir=ckpt")
        for resume in ["--resume", "--resume=auto"]:
            self.train(["--resume", "add --checkpoint_dir=FOLDER"], "--data=text.txt", resume)
        self.train(["--resume=maybe", "use true, false or auto"], "--data=text.txt", "--resume=maybe", "--checkpoint_dir=ckpt")
        for fraction in ["-0.1", "1", "1.5"]:
            self.train(["--eval_fraction", "use 0 or more, and less than 1"], "--data=text.txt", "--eval_fraction=" + fraction)
        for flag in ["--steps=0", "--steps=9223372036854775807", "--eval_batches=300000000000"]:
            self.refuse([flag, "use 1 to 4294967296"], "train", "--plan=gpt.plan", "--data=text.txt", flag)
        self.write("short.txt", "short")
        self.train(["short.txt", "9", "5"], "--data=short.txt")
        run("data", "--text=text.txt", "--token_format=megatron", "--out=pair", cwd=self.dir)
        self.train(["pair/train: no such file", "give pair/train.bin"], "--data=pair/train")
        self.train(["pair/train.idx", "holds no tokens", "the .bin beside it"], "--data=pair/train.idx")
        self.write("odd.bin", b"\0" * 41)
        self.train(["odd.bin"], "--data=odd.bin")
        self.write("big.bin", b"\0\0" * 20 + b"\xff\xff" + b"\0\0" * 20)
        self.train(["big.bin", "65535", "256", "20"], "--data=big.bin")

        self.write("llmc.bin", (20240520).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(1016) + b"\0\0")
        self.train(["llmc.bin", "says 0 tokens", "holds 1"], "--data=llmc.bin")
        self.write("pair.bin", b"\0\0" * 20)
        self.write("pair.idx", "not an index")
        self.train(["pair.idx", "no Megatron index"], "--data=pair.bin")

    def test_tokenising(self):
        data = lambda words, *flags: self.refuse(words, "data", *flags)
        text, out = "--text=text.txt", "--out=data"
        data(["--text"], out)
        data(["--out"], text)
        data(["absent.txt"], "--text=absent.txt", out)
        self.write("empty.txt", "")
        data(["empty.txt", "is empty"], "--text=text.txt,empty.txt", out)
        data(["--tokenizer=gpt3", "gpt2:FOLDER"], text, out, "--tokenizer=gpt3")
        data(["absent/vocab.json"], text, out, "--tokenizer=gpt2:absent")
        data(["absent.json"], text, out, "--tokenizer=absent.json")
        self.write("list.json", "[1, 2]")
        data(["list.json", "JSON object"], text, out, "--tokenizer=list.json")
        data(["absent.model"], text, out, "--tokenizer=absent.model")
        data(["absent.json", "FILE.json or FILE.model"], text, out, "--tokenizer=absent.json")
        self.write("text.model", "not a model")
        data(["text.model", "no sentencepiece model"], text, out, "--tokenizer=text.model")
        data(["--token_format=gguf", "llmc"], text, out, "--token_format=gguf")
        data(["--val_fraction", "below 1"], text, out, "--val_fraction=1")
        data(["--val_fraction", "too short"], text, out, "--val_fraction=0.9999")
        data(["--end_of_text"], text, out, "--end_of_text")
        data(["gpt.plan", "no folder"], text, "--out=gpt.plan")

    def test_checkpoints(self):
        load = lambda where, words: self.train(words, "--data=text.txt", "--resume", "--checkpoint_dir=" + where)
        load("absent", ["absent"])
        self.assertFalse(os.path.exists(self.dir + "/absent"))
        run("model", "gpt", *[f.replace("hidden=16", "hidden=32") for f in SMALL], "--out=other.textproto", cwd=self.dir)
        self.refuse(["16", "32"], "train", "--graph=other.textproto", "--batch=4", "--data=text.txt", "--steps=1",
                    "--resume", "--checkpoint_dir=ckpt")

        def truncate(folder):
            path = self.largest_slice(folder)
            os.truncate(path, os.path.getsize(path) - 4)
        load(self.checkpoint(truncate), ["copy"])

        def flip(folder):
            path = self.largest_slice(folder)
            with open(path, "r+b") as file:
                file.seek(100)
                byte = file.read(1)[0]
                file.seek(100)
                file.write(bytes([byte ^ 1]))
        told = ["copy/step-00000001/rank-00000.bin: is damaged: bytes ", ", block 0 of variable ", "checksum"]
        load(self.checkpoint(flip), told)
        self.refuse(told, "generate", "--checkpoint=copy", "--prompt=The ")

        def other_learning_rate(folder):
            with open(folder + "/train.textproto", "r+", encoding="utf-8") as file:
                text = file.read().replace("learning_rate: 0.0003", "learning_rate: 0.0004")
                file.seek(0)
                file.write(text)
        told = ["copy/step-00000001/train.textproto: is damaged: bytes 0 to ", "block 0 of the file", "checksum"]
        load(self.checkpoint(other_learning_rate), told)
        self.refuse(told, "generate", "--checkpoint=copy", "--prompt=The ")
        load(self.checkpoint(lambda folder: os.remove(folder + "/manifest.json")), ["copy"])
        load(self.checkpoint(lambda folder: os.truncate(folder + "/manifest.json", 20)), ["manifest.json"])
        self.refuse(["absent"], "generate", "--checkpoint=absent")
        step = [d for d in os.listdir(self.dir + "/ckpt") if d.startswith("step-")][0]
        load("ckpt/" + step, [step, "is one checkpoint itself", "the folder that it is in"])
        self.refuse(["--seed"], "train", "--plan=gpt.plan", "--data=text.txt", "--steps=2", "--seed=7", "--resume",
                    "--checkpoint_dir=ckpt")

    def test_checkpoints_of_another_model(self):
        # The checkpoint holds all variables of the smaller model and more: none may be lost.
        train = lambda graph, *flags: ["train", f"--graph={graph}.textproto", "--batch=4", "--data=text.txt", *flags]
        models = {"whole": [], "shallow": ["--layers=1"], "unbiased": ["--bias=false"], "untied": ["--tied=false"]}
        for name, flags in models.items():
            run("model", "gpt", *SMALL, *flags, f"--out={name}.textproto", cwd=self.dir)
        run(*train("whole", "--steps=1", "--checkpoint_dir=whole"), cwd=self.dir)
        run(*train("untied", "--steps=1", "--checkpoint_dir=untied"), cwd=self.dir)
        step = "/step-00000001: holds another model, which is named \"gpt\", too: the plan has no variable "
        mend = "; use a checkpoint of the same model"
        for name, folder, first in [("shallow", "whole", "h.1.ln_1.weight f32[16] and "), ("unbiased", "whole", "h.0.ln_1.bias f32[16] and "),
                                    ("whole", "untied", "head.weight f32[256,16] and ")]:
            with self.subTest(name):
                resume = train(name, "--steps=2", f"--checkpoint_dir={folder}", "--resume")
                self.refuse([folder + step + first, mend], *resume)
                self.assertEqual(["step-00000001"], os.listdir(self.dir + "/" + folder))
        # The same model, however it is trained, and though it generates without the optimizer's states.
        for steps, *flags in [(2, "--mesh=pipe=2", "--micro_batches=2"), (3, "--mesh=data=2,tensor=2", "--precision=bf16"),
                              (8, "--global_norm=false", "--clip=0"), (16, "--mesh=pipe=2", "--schedule=pipedream", "--clip=0")]:
            run(*train("whole", f"--steps={steps}", "--checkpoint_dir=whole", "--resume", *flags), cwd=self.dir)
        run("generate", "--checkpoint=whole", "--prompt=The ", "--tokens=2", cwd=self.dir)

    def test_checkpoints_that_are_not_complete(self):
        def break_newest(folder):
            run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=2", "--checkpoint_dir=copy", "--resume", cwd=self.dir)
            os.remove(self.dir + "/copy/step-00000002/manifest.json")
        self.checkpoint(break_newest)
        told = ("oneflow: warning: copy/step-00000002 is skipped: it has no manifest.json, so it is not complete; "
                "copy/step-00000001 is used instead\n")
        self.assertIn(told, run("generate", "--checkpoint=copy", "--prompt=The ", "--tokens=1", cwd=self.dir)[1])
        resume = ["train", "--plan=gpt.plan", "--data=text.txt", "--steps=2", "--checkpoint_dir=copy", "--resume"]
        self.assertEqual(1, run(*resume, cwd=self.dir)[1].count(told))
        self.assertNotIn("skipped", run(*resume, cwd=self.dir)[1])  # it is complete now

        def empty(folder):
            os.truncate(folder + "/graph.textproto", 0)
        told = "copy/step-00000001/graph.textproto: is truncated: it has 0 bytes"
        self.train([told, "; use another checkpoint"], "--data=text.txt", "--resume", "--checkpoint_dir=" + self.checkpoint(empty))
        self.refuse([told], "generate", "--checkpoint=copy", "--prompt=The ")

    def test_plans(self):
        plan = self.read("gpt.plan")
        self.write("short.plan", plan[:-10])
        self.refuse(["short.plan", "truncated"], "verify", "--plan=short.plan")
        self.write("flipped.plan", plan[:200] + bytes([plan[200] ^ 4]) + plan[201:])
        self.refuse(["flipped.plan"], "verify", "--plan=flipped.plan")
        self.write("text.plan", "not a plan")
        self.refuse(["text.plan"], "explain", "--plan=text.plan")
        version = plan.index((5).to_bytes(4, "little"), 8)
        self.write("other.plan", plan[:version] + (99).to_bytes(4, "little") + plan[version + 4:])
        self.refuse(["other.plan", "99", "5"], "verify", "--plan=other.plan")

    def test_edited_plans(self):
        run("compile", "--graph=gpt.textproto", "--batch=4", "--out=gpt.plan.textproto", cwd=self.dir)
        text = self.read("gpt.plan.textproto").decode()
        for line, edit, words in [("      segment: [0-9]+", "      segment: 9999999", ["orders segment 9999999"]),
                                  ("      register: [0-9]+", "      register: 99999", ["reads register 99999"]),
                                  ("model: .*", 'model: "\\\\377"', ["model", "UTF-8"]),
                                  ("stage_axis: .*", "stage_axis: 7", ["stage axis is 7"]),
                                  ("  learning_rate: .*", "  learning_rate: nan", ["plan, optimizer.learning_rate", "nan"]),
                                  ("  epsilon: .*", "  epsilon: -1", ["plan, optimizer.epsilon"]),
                                  ("stage_axis: .*", "stage_axes: -1", ["stage_axes"])]:
            edited = re.sub(line, edit, text)
            self.assertTrue(text != edited, line)
            self.write("edited.textproto", edited.encode())
            for verb in [["explain", "--format=json"], ["explain", "--format=html"],
                         ["explain", "--format=memory"], ["simulate"], ["verify"], ["train", "--data=text.txt", "--steps=1"]]:
                self.refuse(["edited.textproto:", *words], *verb, "--plan=edited.textproto")
            self.refuse(["edited.textproto:", *words], "diff", "gpt.plan", "edited.textproto")
        edited = text.replace("      segment: ", "      segment: 77")
        self.write("edited.textproto", edited.encode())
        for flags in [[], ["--full"]]:  # the text shows it
            self.assertIn("plan of gpt", run("explain", "--plan=edited.textproto", *flags, cwd=self.dir)[0])
        self.assertIn("proof: REFUSED: ", run("explain", "--plan=edited.textproto", cwd=self.dir)[0])

    def test_an_edited_plan_has_another_fingerprint(self):
        def told(name):
            return json.loads(run("verify", "--plan=" + name, "--format=json", cwd=self.dir)[0])["plan"]

        for name in ["gpt.plan", "gpt.plan.textproto"]:
            run("compile", "--graph=gpt.textproto", "--batch=4", "--out=" + name, cwd=self.dir)
        text = self.read("gpt.plan.textproto").decode()
        self.assertEqual(told("gpt.plan.textproto"), told("gpt.plan"))
        self.write("note.textproto", re.sub("^# .*|  note: .*", '  note: "read"', text, count=1, flags=re.M).encode())
        self.assertEqual(told("note.textproto"), told("gpt.plan"))  # what is said about it is not what runs
        self.write("edited.textproto", text.replace("learning_rate: 0.0003", "learning_rate: 0.0004").encode())
        self.assertNotEqual(told("edited.textproto"), told("gpt.plan"))
        run("train", "--plan=edited.textproto", "--data=text.txt", "--steps=1", "--checkpoint_dir=edited", cwd=self.dir)
        found = []
        for folder, _, files in os.walk(self.dir + "/edited"):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    found.append(file.read())
        self.assertTrue(any(told("edited.textproto").encode() in content for content in found))
        self.assertFalse(any(told("gpt.plan").encode() in content for content in found))

    def test_feeds(self):
        graph = "--graph=" + os.path.abspath("examples/matmul_data_parallel.textproto")
        write_npy(self.dir + "/x.npy", [4, 5], [0.0] * 20)
        write_npy(self.dir + "/w.npy", [5, 7], [0.0] * 35)
        self.refuse(["w"], "run", graph, "--feed=x=x.npy")
        write_npy(self.dir + "/good.npy", [5, 8], [0.0] * 40)
        self.refuse(["[5,7]", "[5,8]"], "run", graph, "--feed=x=x.npy", "--feed=w=w.npy")
        self.refuse(["v", "x"], "run", graph, "--feed=v=x.npy", "--feed=x=x.npy", "--feed=w=good.npy")
        self.refuse(["absent.npy"], "run", graph, "--feed=x=absent.npy", "--feed=w=good.npy")
        # Edited plans: what is fetched is fed, and only raw parts are fetched.
        run("compile", graph, "--out=run.textproto", cwd=self.dir)
        plan = self.read("run.textproto").decode()
        feeds = ["--feed=x=x.npy", "--feed=w=good.npy"]
        fed = plan.replace('kernel: "fetch"', 'kernel: "feed"')
        raw = re.sub(r'(key: "raw"\s+value {\s+)b: false', r"\1b: true", plan)
        for edited, words, flag in [(fed, ["actor out.fetch", "feed"], "--feed=out=x.npy"), (raw, ["--fetch=out"], "--fetch=out=out.npy")]:
            self.assertTrue(edited != plan, flag)
            self.write("edited.textproto", edited.encode())
            self.refuse(words, "run", "--plan=edited.textproto", *feeds, flag)
        self.refuse(["NAME=FILE"], "run", graph, "--feed=x.npy")
        self.refuse(["--shards", "add --fetch="], "run", graph, *feeds, "--shards")
        self.refuse(["text.txt"], "run", graph, "--feed=x=text.txt", "--feed=w=good.npy")

    def test_indices_out_of_range(self):
        # Kernels take an index of no row as zeros, so the loss would be finite and wrong.
        with open("examples/bigram.textproto", encoding="utf-8") as file:
            graph = file.read()
        graph = graph.replace('dim { name: "batch" }', 'dim { size: 2 }').replace('output: "logits"', 'output: "loss"')
        self.write("fed.textproto", re.sub(r's: "(tokens|labels)"', 's: "feed"', graph).encode())
        for name in ["tokens", "labels"]:
            write_npy(f"{self.dir}/{name}.npy", [2, 32], range(192, 256), "i")
        one = ["run", "--graph=fed.textproto"]
        good = {name: f"--feed={name}={name}.npy" for name in ["tokens", "labels"]}
        for mesh in [[], ["--mesh=tensor=2"], ["--mesh=pipe=2,data=2"]]:
            run(*one, *mesh, *good.values(), "--fetch=loss=loss.npy", cwd=self.dir)
        for bad in [-1, -100, 256]:
            for name, reader in [("tokens", "embedding"), ("labels", "loss")]:
                values = list(range(64))
                values[35] = bad
                write_npy(f"{self.dir}/bad.npy", [2, 32], values, "i")
                feeds = {**good, name: f"--feed={name}=bad.npy"}
                for mesh in [[], ["--mesh=tensor=2"]]:
                    self.refuse([f"--feed={name}=bad.npy", f"element [1,3] is {bad}", reader, "use 0 to 255"], *one, *mesh, *feeds.values())


if __name__ == "__main__":
    unittest.main()
