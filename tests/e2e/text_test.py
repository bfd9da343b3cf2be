"""Text in any form: JSON Lines, packed files, tables, folders and patterns, in `data`, `train` and `eval`."""
import base64
import gzip
import json
import os
import shutil
import struct
import subprocess
import unittest

from tests.e2e.cli import ONEFLOW, FolderCase, run

VOCABULARY = os.path.abspath("training/tokenizer/testdata")  # of 700 tokens; the end of text is 0
GPT2 = "--tokenizer=gpt2:" + VOCABULARY
TEXTS = [f"Document {i}: größer als {i % 7}, and\nthe program's text 🙂 " * (1 + i % 5) for i in range(60)]
# `zstd` of {"text": "packed"} and {"text": "by zstd"}.
ZSTD = "KLUv/QRYHQEA6HsidGV4dCI6ICJwYWNrZWQifQpieSB6c3RkIn0KAQBtm2H7j+qa"


def lines(texts, key="text"):
    return "".join(json.dumps({"id": i, key: text}) + "\n" for i, text in enumerate(texts))


class TextTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=700", "--out=gpt.textproto",
            cwd=cls.dir)
        cls.write("a.jsonl", lines(TEXTS))
        cls.write("all.txt", "".join(TEXTS))

    def ids(self, name):
        packed = self.read(name)
        return list(struct.unpack(f"<{len(packed) // 2}H", packed))

    def data(self, text, *flags):
        """The ids of train.bin."""
        shutil.rmtree(self.dir + "/out", ignore_errors=True)
        self.facts = json.loads(run("data", "--text=" + text, "--out=out", "--format=json", GPT2, *flags, cwd=self.dir)[0])
        return self.ids("out/train.bin")

    def refuse(self, words, *args, env=None):
        done = subprocess.run([ONEFLOW, *args], cwd=self.dir, capture_output=True, text=True, check=False,
                              env=dict(os.environ, **(env or {})))
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def losses(self, data, *flags):
        out = run("train", "--graph=gpt.textproto", "--data=" + data, "--steps=2", "--batch=4", "--format=json", "--threads=1",
                  GPT2, *flags, cwd=self.dir)[0]
        return [json.loads(line)["loss"] for line in out.splitlines() if '"loss"' in line]

    def test_each_line_of_json_lines_is_a_document(self):
        os.makedirs(self.dir + "/texts", exist_ok=True)
        for i, text in enumerate(TEXTS):
            self.write(f"texts/{i:02}.txt", text)
        expected = self.data("texts", "--end_of_text")
        self.assertEqual(expected.count(0), 60)
        self.assertEqual(self.data("a.jsonl", "--end_of_text"), expected)
        self.assertEqual(self.facts["files"][0]["documents"], 60)
        self.assertEqual(self.facts["files"][0]["text_bytes"], sum(len(text.encode()) for text in TEXTS))
        self.write("b.jsonl.gz", gzip.compress(lines(TEXTS, "content").encode()))
        self.assertEqual(self.data("b.jsonl.gz", "--end_of_text", "--key=content"), expected)
        self.data("b.jsonl.gz", "--key=content", "--token_format=megatron")
        self.assertEqual(struct.unpack("<Q", self.read("out/train.idx")[18:26]), (60,))

    def test_packed_text_has_the_ids_of_the_text(self):
        long = "".join(f"line {i} of größer texts 🙂 and the license, {i * i}\n" for i in range(70000))
        self.write("long.txt", long)
        self.write("long.txt.gz", gzip.compress(long[:1000000].encode(), 1) + gzip.compress(long[1000000:].encode(), 1))
        plain = self.data("long.txt")
        self.assertGreater(self.facts["files"][0]["text_bytes"], 3 << 20)
        self.assertEqual(self.data("long.txt.gz"), plain)
        for fraction in ["0.3", "0.001"]:
            train = self.data("long.txt", "--val_fraction=" + fraction)
            val = self.ids("out/val.bin")
            self.assertEqual(train + val, plain)
            self.assertEqual(self.data("long.txt.gz", "--val_fraction=" + fraction), train)
            self.assertEqual(self.ids("out/val.bin"), val)
        self.write("z.zst", base64.b64decode(ZSTD))
        self.assertEqual(self.data("z.zst"), self.data_of_lines(["packed", "by zstd"]))

    def data_of_lines(self, texts):
        self.write("few.jsonl", lines(texts))
        return self.data("few.jsonl")

    def test_records_are_not_split_for_validation(self):
        every = self.data("a.jsonl", "--end_of_text")
        train = self.data("a.jsonl", "--end_of_text", "--val_fraction=0.2")
        val = self.ids("out/val.bin")
        self.assertEqual(train + val, every)
        self.assertEqual((train[-1], val[-1]), (0, 0))
        counts = [file["documents"] for file in self.facts["files"]]
        self.assertEqual(sum(counts), 60)
        share = self.facts["files"][1]["text_bytes"] / sum(len(text.encode()) for text in TEXTS)
        self.assertTrue(0.2 <= share < 0.25, share)
        self.write("one.jsonl", lines(["a text of one document"]))
        self.refuse(["leaves one of the two parts empty"], "data", "--text=one.jsonl", "--out=none", "--val_fraction=0.1")

    def test_training_reads_what_data_writes(self):
        self.data("a.jsonl")
        expected = self.losses("out/train.bin")
        self.assertEqual(self.losses("a.jsonl"), expected)
        self.write("b.jsonl.gz", gzip.compress(lines(TEXTS, "content").encode()))
        self.assertEqual(self.losses("b.jsonl.gz", "--key=content"), expected)
        self.write("c.txt.gz", gzip.compress("".join(TEXTS).encode()))
        self.data("all.txt")
        self.assertEqual(self.losses("c.txt.gz"), self.losses("out/train.bin"))
        self.data("a.jsonl", "--end_of_text")
        self.assertEqual(self.losses("a.jsonl", "--documents"), self.losses("out/train.bin", "--documents"))

    def test_folders_and_patterns(self):
        os.makedirs(self.dir + "/corpus/deep", exist_ok=True)
        self.write("corpus/b.txt", "second " * 20)
        self.write("corpus/deep/c.jsonl", lines(["third " * 20, "fourth " * 20]))
        self.write("corpus/a.txt", "first " * 20)
        self.write("corpus/.hidden", b"\0\1\2")
        every = self.data("corpus", "--end_of_text")
        self.assertEqual(every, self.data("corpus/a.txt,corpus/b.txt,corpus/deep/c.jsonl", "--end_of_text"))
        self.assertEqual(every, self.data("corpus/**", "--end_of_text"))
        self.assertEqual(self.data("corpus/*.txt"), self.data("corpus/a.txt,corpus/b.txt"))
        self.assertEqual(self.data("corpus/**/*.jsonl"), self.data("corpus/deep/c.jsonl"))
        self.assertEqual(self.losses("corpus"), self.losses("corpus/a.txt,corpus/b.txt,corpus/deep/c.jsonl"))
        self.assertEqual(self.losses("corpus:1"), self.losses("corpus"))
        self.assertEqual(self.losses("corpus/*.txt:0.5,corpus/deep:0.5"),
                         self.losses("corpus/[ab].txt:0.5,corpus/deep/c.jsonl:0.5"))
        train = ["train", "--graph=gpt.textproto", "--steps=1", GPT2]
        self.refuse(["corpus/*.gz: matches no file"], *train, "--data=corpus/*.gz")
        self.refuse(["corpus/*.gz: matches no file"], "data", "--text=corpus/*.gz", "--out=none")
        self.write("corpus/deep/d.bin", b"\1\0\2\0\7\0\0\0\3")
        for command in [["data", "--text=corpus", "--out=none"], [*train, "--data=corpus"]]:
            self.refuse(["corpus/deep/d.bin: holds token ids, by its name"], *command)
        os.remove(self.dir + "/corpus/deep/d.bin")

    def test_what_is_refused_is_named(self):
        self.write("bad.jsonl", lines(TEXTS[:3]) + '{"text": 7}\n')
        self.write("broken.jsonl", '{"text": "a"}\n\n{"text": "b}\n')
        self.write("short.txt.gz", gzip.compress("".join(TEXTS).encode())[:-9])
        cases = [("a.jsonl --key=content", ['a.jsonl:1: has no key "content", but id, text; name the key of the text with --key']),
                 ("bad.jsonl", ['bad.jsonl:4: "text" is a number, and no string']),
                 ("broken.jsonl", ["broken.jsonl:3: is no JSON (byte ", "correct the line, or leave it out"]),
                 ("short.txt.gz", ["short.txt.gz: cannot be unpacked near byte ", "it ends too early"])]
        for name, words in cases:
            name, *key = name.split()
            self.refuse(words, "data", "--text=" + name, "--out=none", GPT2, *key)
            self.refuse(words, "train", "--graph=gpt.textproto", "--steps=1", "--data=" + name, GPT2, *key)
        self.refuse(["--key=content: acts on nothing"], "data", "--text=all.txt", "--key=content", "--out=none")

    def test_tables_need_pyarrow(self):
        self.write("t.parquet", b"PAR1\0\0\0\0PAR1")
        os.makedirs(self.dir + "/bin", exist_ok=True)
        self.write("bin/python3", '#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')  # without packages
        os.chmod(self.dir + "/bin/python3", 0o755)
        env = {"PATH": self.dir + "/bin:" + os.environ.get("PATH", "/usr/bin:/bin")}
        words = ["reading t.parquet: needs the module pyarrow, which python3 does not have; install it: python3 -m venv"]
        self.refuse(words, "data", "--text=t.parquet", "--out=none", env=env)
        self.refuse(words, "train", "--graph=gpt.textproto", "--steps=1", "--data=t.parquet", env=env)

    def test_evaluation_reads_records(self):
        run("train", "--graph=gpt.textproto", "--data=a.jsonl", GPT2, "--steps=1", "--batch=4", "--checkpoint_dir=trained", cwd=self.dir)
        self.data("a.jsonl")
        losses = [json.loads(run("eval", "--checkpoint=trained", "--data=" + name, "--format=json", *flags, cwd=self.dir)[0])["loss"]
                  for name, flags in [("a.jsonl", []), ("out/train.bin", []), ("b.jsonl", ["--key=content"])]
                  if self.write("b.jsonl", lines(TEXTS, "content")) is None]
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])


if __name__ == "__main__":
    unittest.main()
