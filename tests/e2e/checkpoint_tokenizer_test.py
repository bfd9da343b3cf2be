"""The tokenizer of a run travels: from `oneflow data` beside the tokens, into checkpoints, to `generate` and to text that a run goes
on with; text that `train` encodes gives the tokens that `oneflow data` writes."""
import json
import os
import shutil
import struct
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

TESTDATA = os.path.abspath("training/tokenizer/testdata")
GPT2, LLAMA3 = "--tokenizer=gpt2:" + TESTDATA, "--tokenizer=" + TESTDATA + "/llama3.json"
PIECES = "--tokenizer=" + TESTDATA + "/bpe.model"


class CheckpointTokenizerTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "the program of the café, and its text 12345.\n" * 60)
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=900", "--out=gpt.textproto", cwd=cls.dir)

    def oneflow(self, *args, code=0):
        return run(*args, cwd=self.dir, code=code)

    def data(self, out, *flags):
        self.oneflow("data", "--text=text.txt", "--out=" + out, *flags)
        return f"--data={out}/train.bin"

    def train(self, data, out, *flags, steps=2, code=0):
        return self.oneflow("train", "--graph=gpt.textproto", data, f"--steps={steps}", "--batch=2", "--checkpoint_dir=" + out,
                            f"--metrics={out}.jsonl", *flags, code=code)

    def losses(self, out):
        return [line["loss"] for line in read_metrics(f"{self.dir}/{out}.jsonl")]

    def generate(self, checkpoint, *flags, code=0):
        out, error = self.oneflow("generate", "--checkpoint=" + checkpoint, "--prompt=the program", "--tokens=8", "--format=json", *flags,
                                  code=code)
        # Without the times.
        return {key: value for key, value in json.loads(out).items() if "second" not in key} if code == 0 else error

    def files(self, folder):
        return sorted(os.listdir(f"{self.dir}/{folder}"))

    def manifest(self, folder):
        return json.loads(self.read(f"{folder}/manifest.json"))

    def test_from_data_to_generate(self):
        for name, tokenizer, files in [("gpt2", GPT2, ["merges.txt", "vocab.json"]), ("llama3", LLAMA3, ["tokenizer.json"]),
                                       ("pieces", PIECES, ["tokenizer.model"])]:
            with self.subTest(tokenizer=name):
                data = self.data(name, tokenizer)
                self.assertEqual(self.files(name + "/tokenizer"), files)
                if name == "pieces":
                    data = data.replace("train", "t*")  # found beside the files of a pattern, too
                out, error = self.train(data, name + "_ckpt")
                self.assertNotIn("tokenizer", out + error)
                folder = name + "_ckpt/step-00000002"
                self.assertLess(set(files), set(self.files(folder)))
                carried = self.manifest(folder)["tokenizer"]
                self.assertEqual(sorted(file["file"] for file in carried["files"]), files)
                shutil.rmtree(f"{self.dir}/{name}")
                self.assertEqual(self.generate(name + "_ckpt"), self.generate(name + "_ckpt", tokenizer))
                # Another one is refused, whatever the checkpoint contains.
                other = PIECES if name == "gpt2" else GPT2
                error = self.generate(name + "_ckpt", other, code=2)
                self.assertIn(f"{other}: the tokenizer is ", error)
                self.assertIn("use the tokenizer that the model was trained with", error)

    def test_text_is_encoded_as_data_would(self):
        self.train(self.data("encoded", LLAMA3), "of_tokens", steps=4)
        error = self.train("--data=text.txt", "of_text", LLAMA3, steps=4)[1]
        self.assertRegex(error, r"oneflow: text.txt: \d+ tokens by tokenizer llama3.json \([0-9a-f]{16}\)\n")
        self.assertEqual(self.losses("of_text"), self.losses("of_tokens"))
        # A run that goes on encodes text by the tokenizer of its checkpoint.
        self.train("--data=text.txt", "stopped", LLAMA3, steps=2)
        error = self.train("--data=text.txt", "stopped", "--resume", steps=4)[1]
        self.assertIn("text.txt: ", error)
        self.assertNotIn("warning", error)
        self.assertEqual(self.losses("stopped"), self.losses("of_tokens"))
        self.assertEqual(self.manifest("stopped/step-00000004")["tokenizer"], self.manifest("of_text/step-00000004")["tokenizer"])
        self.train("--data=text.txt", "two", LLAMA3, "--processes=2", "--mesh=data=2", steps=4)
        self.assertEqual(self.generate("two"), self.generate("two", LLAMA3))
        for one, two in zip(self.losses("two"), self.losses("of_tokens")):
            self.assertAlmostEqual(one, two, delta=1e-5)

    def test_bytes_need_no_files(self):
        self.data("again", GPT2)
        data = self.data("again", "--tokenizer=bytes")
        self.assertEqual(self.files("again"), ["train.bin", "train.meta.json"])  # none of the earlier tokenizer
        self.train(data, "bytes_ckpt")
        self.assertEqual(self.manifest("bytes_ckpt/step-00000002")["tokenizer"], {"name": "bytes", "hash": "0000000000000100"})
        error = self.train("--data=text.txt", "bytes_ckpt", "--resume", steps=3)[1]
        self.assertNotIn("tokens by tokenizer", error)
        self.generate("bytes_ckpt")

    def test_tokens_of_another_program(self):
        # Only ends of a turn: the model learns to end at once.
        self.write("ends.bin", struct.pack("<400H", *[806] * 400))
        self.train("--data=ends.bin", "ends", LLAMA3, "--learning_rate=0.1", "--warmup_steps=0", steps=40)
        tokenizer = self.manifest("ends/step-00000040")["tokenizer"]
        self.assertEqual((tokenizer["name"], tokenizer["stops"]), ("llama3.json", [805, 806]))
        result = self.generate("ends", "--temperature=0")
        self.assertEqual((result["tokens"], result["end"], result["text"]), ([806], "end_of_text", ""))

    def test_tokenizers_that_are_not_those_of_the_tokens(self):
        data = self.data("mine", GPT2)
        error = self.train(data, "none", LLAMA3, code=2)[1]
        self.assertRegex(error, r"--tokenizer=\S+: is tokenizer llama3.json \(\w+\), but --data was made with gpt2:testdata \(")
        self.assertIn("leave it out, or make the data again with it", error)
        error = self.train("--data=mine/train.bin,text.txt", "none", code=2)[1]
        self.assertIn("text.txt: was made with tokenizer bytes", error)
        self.train("--data=mine/train.bin,text.txt", "none", GPT2)
        shutil.copy(TESTDATA + "/llama3.json", self.dir + "/mine/tokenizer/tokenizer.json")
        error = self.train(data, "none", code=2)[1]
        self.assertRegex(error, r"mine/tokenizer: holds tokenizer tokenizer.json \(\w+\), but mine/train.bin was made with gpt2:testdata")
        self.assertIn("make both again with `oneflow data`", error)
        shutil.rmtree(self.dir + "/mine/tokenizer")
        error = self.train(data, "without")[1]
        self.assertIn("checkpoints will not contain the tokenizer gpt2:testdata", error)
        self.assertNotIn("files", self.manifest("without/step-00000002")["tokenizer"])
        error = self.generate("without", code=2)
        self.assertIn("contains no tokenizer, and was not made with bytes: its tokenizer is gpt2:testdata", error)
        self.generate("without", GPT2)

    def test_a_damaged_tokenizer(self):
        self.train(self.data("damaged", GPT2), "damage")
        path = "damage/step-00000002/merges.txt"
        with open(f"{self.dir}/{path}", "a", encoding="utf-8") as file:
            file.write("Ġ t\n")
        self.assertRegex(self.generate("damage", code=2), path + r": .*it has \d+ bytes, and had \d+ when it was written")
        os.remove(f"{self.dir}/{path}")
        self.assertIn(path + ": is missing; it holds the tokenizer of its data", self.generate("damage", code=2))


if __name__ == "__main__":
    unittest.main()
