"""`oneflow data`: text becomes token files in each format, and `train` reads them all alike."""
import json
import os
import struct
import unittest

from tests.e2e.cli import FolderCase, run

VOCABULARY = os.path.abspath("training/tokenizer/testdata")  # of 700 tokens
FORMATS = ["nanogpt", "llmc", "megatron"]


class DataTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, lines in [("a.txt", 300), ("b.txt", 100)]:
            cls.write(name, "".join(f"{name} line {i}: größer als {i % 7}, and the program's text 🙂\n" for i in range(lines)))
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=700", "--out=gpt.textproto",
            cwd=cls.dir)

    def data(self, out, *flags, text="a.txt,b.txt"):
        return json.loads(run("data", "--text=" + text, "--out=" + out, "--format=json", *flags, cwd=self.dir)[0])

    def losses(self, data):
        lines = run("train", "--graph=gpt.textproto", "--data=" + data, "--steps=3", "--batch=4", "--format=json",
                    "--threads=1", cwd=self.dir)[0]
        return [json.loads(line)["loss"] for line in lines.splitlines() if '"loss"' in line]

    def test_every_format_holds_the_same_tokens(self):
        losses = []
        for token_format in FORMATS:
            facts = self.data(token_format, "--tokenizer=gpt2:" + VOCABULARY, "--token_format=" + token_format)
            self.assertEqual(facts["vocab"], 700)
            losses.append(self.losses(token_format + "/train.bin"))
        self.assertEqual(len(losses[0]), 3)
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        self.assertEqual(self.read("llmc/train.bin")[1024:], self.read("nanogpt/train.bin"))
        self.assertEqual(self.read("megatron/train.bin"), self.read("nanogpt/train.bin"))

    def test_files_of_other_programs(self):
        """The same ids as the uint32 of llm.c's Llama 3, as its evaluation, and as a Megatron pair of other sequences."""
        self.data("other", "--tokenizer=gpt2:" + VOCABULARY)
        packed = self.read("other/train.bin")
        ids = struct.unpack(f"<{len(packed) // 2}H", packed)
        expected = self.losses("other/train.bin")
        header = lambda magic, version: struct.pack("<256i", magic, version, len(ids), *[0] * 253)
        self.write("llama.bin", header(20240801, 7) + struct.pack(f"<{len(ids)}I", *ids))
        self.assertEqual(self.losses("llama.bin"), expected)
        self.write("pair.bin", struct.pack(f"<{len(ids)}i", *ids))
        sizes = [10, 0, len(ids) - 10]  # three sequences of two documents
        self.write("pair.idx", b"MMIDIDX\0\0" + struct.pack("<QBQQ3i3q3q", 1, 4, 3, 3, *sizes, 0, 40, 40, 0, 2, 3))
        self.assertEqual(self.losses("pair.bin"), expected)
        for name, data, words in [
            ("evaluation.bin", header(20240522, 1) + packed, "is a file of llm.c that holds an evaluation"),
            ("short.bin", header(20240801, 7)[:500], "has 500 bytes of the 1024 of llm.c's header"),
            ("wide.bin", struct.pack(f"<{len(ids)}i", *ids), "looks like ids of four bytes without a header"),
        ]:
            self.write(name, data)
            error = run("train", "--graph=gpt.textproto", "--data=" + name, "--steps=1", cwd=self.dir, code=2)[1]
            self.assertIn(f"{name}: ", error)
            self.assertIn(words, error)

    def test_bytes_are_the_text_itself(self):
        self.data("bytes", "--tokenizer=bytes")
        text = self.read("a.txt") + self.read("b.txt")
        self.assertEqual(self.read("bytes/train.bin"), b"".join(struct.pack("<H", byte) for byte in text))
        self.assertEqual(self.losses("bytes/train.bin"), self.losses("a.txt,b.txt"))

    def test_the_last_part_is_for_validation(self):
        whole = self.data("whole", "--tokenizer=" + VOCABULARY + "/tokenizer.json")
        split = self.data("split", "--tokenizer=" + VOCABULARY + "/tokenizer.json", "--val_fraction=0.3")
        train, val = split["files"]
        self.assertEqual([train["path"], val["path"]], ["split/train.bin", "split/val.bin"])
        self.assertAlmostEqual(val["text_bytes"] / whole["files"][0]["text_bytes"], 0.3, delta=0.01)
        self.assertEqual(self.read("split/train.bin") + self.read("split/val.bin"), self.read("whole/train.bin"))

    def test_nothing_of_an_earlier_run_stays(self):
        byte = ["--tokenizer=bytes", "--token_format=megatron"]
        self.data("again", *byte, "--val_fraction=0.3")
        names = lambda: sorted(os.listdir(self.dir + "/again"))
        self.assertEqual(names(), ["train.bin", "train.idx", "train.meta.json", "val.bin", "val.idx", "val.meta.json"])
        self.write("again/notes.txt", "of no concern")
        self.data("again", "--tokenizer=bytes", "--token_format=llmc")
        self.assertEqual(names(), ["notes.txt", "train.bin", "train.meta.json"])
        self.assertEqual(self.losses("again/train.bin"), self.losses("a.txt,b.txt"))

    def test_documents_may_end_in_a_token(self):
        self.data("ends", "--tokenizer=gpt2:" + VOCABULARY, "--end_of_text", "--token_format=megatron")
        ids = struct.unpack("<" + "H" * (len(self.read("ends/train.bin")) // 2), self.read("ends/train.bin"))
        self.assertEqual([ids.count(0), ids[-1]], [2, 0])
        sequences, documents = struct.unpack("<QQ", self.read("ends/train.idx")[18:34])
        self.assertEqual([sequences, documents], [2, 3])

    def test_special_tokens_in_a_text(self):
        """<|eot_id|> of llama3.json is id 806; <|endoftext|> of GPT-2's files is id 0."""
        self.write("talk.txt", "the<|eot_id|>the<|endoftext|>")
        for tokenizer, token in [(VOCABULARY + "/llama3.json", 806), ("gpt2:" + VOCABULARY, 0)]:
            ids = []
            for flags in [[], ["--special"]]:
                self.data("talk", "--tokenizer=" + tokenizer, *flags, text="talk.txt")
                packed = self.read("talk/train.bin")
                ids.append(struct.unpack(f"<{len(packed) // 2}H", packed))
            self.assertEqual([made.count(token) for made in ids], [0, 1])
            self.assertLess(len(ids[1]), len(ids[0]))
        train = ["train", "--graph=gpt.textproto", "--data=talk.txt", "--steps=1", "--batch=1", "--threads=1"]
        error = run(*train, "--tokenizer=bytes", "--special", cwd=self.dir, code=2)[1]
        self.assertIn("--special: acts on nothing: tokenizer bytes has no special tokens; leave it out", error)

    def test_text_for_people(self):
        out = run("data", "--text=a.txt", "--out=people", cwd=self.dir)[0]
        self.assertRegex(out, r"people/train.bin: \d+ tokens of 2 bytes, for .* \(1.00 bytes a token\)")
        self.assertRegex(out, r"tokenizer bytes \(0000000000000100\), vocabulary of 256; [\d.]+ MB/s")
        self.assertNotIn("post-processor", out)


if __name__ == "__main__":
    unittest.main()
