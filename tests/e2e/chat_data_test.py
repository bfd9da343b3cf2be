"""Chats as lines of JSON: `data --chat`, what `train --chat` and `eval --chat` make of them, and `generate --chat`, which answers."""
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

from tests.e2e.cli import ONEFLOW, FolderCase, run

TESTDATA = os.path.abspath("training/chat/testdata")  # a tokenizer of 331 tokens, and templates
ANSWERS = {"Hello": "Hello, how are you?", "And you?": "I am well.", "Nothing": "Nothing, really."}


def chat(*texts):
    return {"messages": [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]}


class ChatDataTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder("tuned", "chatml")
        chats = [chat(*pair) for pair in ANSWERS.items()]
        chats += [chat("Hello", ANSWERS["Hello"], "And you?", ANSWERS["And you?"])]
        cls.write_chats("chats.jsonl", chats * 4)
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=32", "--sequence=64", "--vocab=331", "--out=gpt.textproto",
            cwd=cls.dir)

    @classmethod
    def folder(cls, name, template):
        """A folder of a model: a tokenizer and a template in its configuration."""
        os.makedirs(f"{cls.dir}/{name}", exist_ok=True)
        shutil.copyfile(TESTDATA + "/tokenizer.json", f"{cls.dir}/{name}/tokenizer.json")
        with open(f"{TESTDATA}/{template}.jinja", encoding="utf-8") as file:
            config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": file.read()}
        cls.write(name + "/tokenizer_config.json", json.dumps(config))

    @classmethod
    def write_chats(cls, name, chats):
        cls.write(name, "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in chats))

    def data(self, *flags, data="chats.jsonl", tokenizer="tuned", out="data", code=0):
        return run("data", "--chat", "--data=" + data, "--tokenizer=" + tokenizer, "--out=" + out, *flags, cwd=self.dir, code=code)

    def refuse(self, words, *flags, **options):
        error = self.data(*flags, code=2, **options)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("oneflow: error: "), 1, error)

    def read_mask(self, path):
        data = self.read(path)
        chats, tokens = struct.unpack("<2Q", data[8:24])
        bits = data[24 + 8 * chats:]
        return chats, [bits[i // 8] >> i % 8 & 1 for i in range(tokens)]

    def train(self, out, *flags):
        run("train", "--graph=gpt.textproto", "--batch=4", "--documents", "--learning_rate=1e-2",
            "--threads=1", f"--metrics={out}.jsonl", "--checkpoint_dir=" + out, *flags, cwd=self.dir)
        return [json.loads(line)["loss"] for line in self.read(out + ".jsonl").splitlines() if b'"loss"' in line]

    def test_data_says_what_it_wrote(self):
        text = self.data()[0]
        self.assertIn("data/train.bin: 16 chats, 16 samples, ", text)
        self.assertIn("(16 by prefixes)", text)
        made = json.loads(self.data("--format=json", "--val_fraction=0.25")[0])
        train, val = made["files"]
        self.assertEqual([made["loss_on"], train["chats"], val["chats"], val["ways"]], ["assistant", 12, 4, {"prefixes": 4}])
        for file, name in [(train, "train"), (val, "val")]:
            chats, mask = self.read_mask(f"data/{name}.chats")
            self.assertEqual([chats, len(mask), sum(mask)], [file["samples"], file["tokens"], file["labels"]])
            self.assertEqual(len(self.read(f"data/{name}.bin")), 2 * file["tokens"])
            self.assertAlmostEqual(file["share"], sum(mask) / len(mask))
        shares = [json.loads(self.data("--format=json", "--loss_on=" + x, out="other")[0])["files"][0]["share"]
                  for x in ("completion", "assistant", "all")]
        self.assertLess(shares[0], shares[1])
        self.assertEqual(shares[2], 1)
        self.data()
        self.assertFalse(os.path.exists(self.dir + "/data/val.chats"))

    def test_chats_of_which_nothing_counts_and_templates_that_rewrite_answers(self):
        self.write_chats("some.jsonl", [chat("Hello"), chat("Hello", "I am", "And?", "Well")])
        self.folder("thinks", "thinks")
        text = self.data(data="some.jsonl", tokenizer="thinks", out="some")[0]
        self.assertIn("some/train.bin: 2 chats, 1 samples, ", text)
        self.assertIn("1 chats are left out, because nothing of them counts", text)
        self.assertIn("of 1 chats only the last answer counts", text)
        text = self.data("--chat_template=" + TESTDATA + "/chatml.jinja", data="some.jsonl", tokenizer="thinks", out="some")[0]
        self.assertIn("(1 by prefixes)", text)

    def test_training_on_lines_is_training_on_what_data_makes_of_them(self):
        self.data(out="same")
        steps = ["--steps=4", "--tokenizer=tuned"]
        lines = self.train("lines", "--chat", "--data=chats.jsonl", *steps)
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines, self.train("tokens", "--data=same/train.bin", *steps))
        self.assertNotEqual(lines, self.train("all", "--chat", "--loss_on=all", "--data=chats.jsonl", *steps))
        evaluated = [json.loads(run("eval", "--checkpoint=lines", "--format=json", *flags, cwd=self.dir)[0])
                     for flags in (["--chat", "--data=chats.jsonl"], ["--data=same/train.bin"])]
        self.assertEqual(evaluated[0]["loss"], evaluated[1]["loss"])
        _, mask = self.read_mask("same/train.chats")
        self.assertEqual(evaluated[0]["labels"], sum(mask))

    def test_the_model_answers_as_it_was_trained(self):
        self.train("tuned_run", "--chat", "--data=chats.jsonl", "--tokenizer=tuned", "--epochs=30")
        say = lambda *flags, **more: subprocess.run(
            [ONEFLOW, "generate", "--checkpoint=tuned_run", "--chat", "--temperature=0", "--tokens=20", *flags], cwd=self.dir,
            capture_output=True, text=True, check=True, **more).stdout
        for question, answer in ANSWERS.items():
            made = json.loads(say("--prompt=" + question, "--format=json"))
            self.assertEqual([made["text"], made["end"]], [answer, "end_of_text"])
        self.assertEqual(say(input="Hello\nAnd you?\n"), "Hello, how are you?\nI am well.\n")
        prompt = lambda *flags: json.loads(say("--prompt=Hello", "--format=json", *flags))
        self.assertNotEqual(prompt("--system_prompt=Be brief.")["tokens"], [])

    def test_a_template_without_end_is_ended(self):
        script = "".join(open(f"training/chat/{x}.py").read() for x in ["template_sandbox", "render_chats"])

        def answers(template):
            loop = {"templates": {"default": template}, "variables": {}, "special": [], "stops": [],
                    "loss_on": "all", "seconds": 0.2}
            lines = json.dumps(loop) + "\n" + json.dumps(chat("Hello", "Well")) + "\n"
            return subprocess.run([sys.executable, "-c", script], input=lines, text=True, stdout=subprocess.PIPE).stdout

        loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        for template in [loops, "{% set n = 7 %}{{ n ** 999999999 }}"]:
            self.assertIn("its template takes more than 0.2", answers(template))

    def test_what_cannot_be_taken_is_refused(self):
        self.write("bad.jsonl", json.dumps(chat("Hello", "Well")) + "\n\n" + '{"messages": [{"role": "asistant"}]}\n')
        self.refuse(["bad.jsonl:3: message 1 has the role 'asistant'"], data="bad.jsonl", out="none")
        self.assertFalse(os.path.exists(self.dir + "/none/train.bin"))
        self.folder("bare", "chatml")
        self.write("bare/tokenizer_config.json", "{}")
        self.refuse(["bare: holds no template of chats", "--chat_template=FILE"], tokenizer="bare")
        self.write("broken.jinja", "{% for %}")
        self.refuse(["the template 'default' is no Jinja, line 1"], "--chat_template=broken.jinja")
        self.write("large.jinja", "{{ 'x' * 3000000000 }}")
        self.refuse(["chats.jsonl:1: its template needs more than", "of memory"], "--chat_template=large.jinja")
        self.write("long.jinja", "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}")
        self.refuse(["chats.jsonl:1: its template writes more than"], "--chat_template=long.jinja")
        for flag in "--text=chats.jsonl", "--key=text", "--special", "--end_of_text":
            self.refuse([flag.split("=")[0] + ": acts on nothing with --chat"], flag)
        self.refuse(["chats.jsonl", "leaves nothing that counts for none/val.bin"], "--val_fraction=0.01", out="none")
        for words, flags in [
            (["--data: is missing"], ["data", "--chat", "--tokenizer=tuned", "--out=none"]),
            (["--tokenizer: is missing"], ["data", "--chat", "--data=chats.jsonl", "--out=none"]),
            (["--data: acts only with --chat"], ["data", "--data=chats.jsonl", "--out=none"]),
            (["--loss_on: acts only with --chat"], ["data", "--text=chats.jsonl", "--loss_on=all", "--out=none"]),
            (["--system_prompt: acts only with --chat"], ["generate", "--checkpoint=none", "--system_prompt=Be brief."]),
        ]:
            error = run(*flags, cwd=self.dir, code=2)[1]
            for word in words:
                self.assertIn(word, error)


if __name__ == "__main__":
    unittest.main()
