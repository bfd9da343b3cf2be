"""Training on chats: which labels count, whatever the mesh; packed windows are as chats alone; what is printed and refused."""
import json
import math
import os
import struct
import unittest

from tests.e2e.chat_file import write_chats, write_tokens
from tests.e2e.cli import FolderCase, read_metrics, read_slices, run

BIGRAM = "--graph=" + os.path.abspath("examples/bigram.textproto")  # of bytes, 32 tokens a sequence, 64 hidden
GPT = "--graph=gpt.textproto"
SEQUENCE = 32


def make_chat(i):
    """Questions that do not count, answers that do; of 4 to 30 tokens."""
    question = [(60 + (7 * i + j) % 40, False) for j in range(2 + i % 9)]
    answer = [(110 + (3 * i + 5 * j) % 30, True) for j in range(2 + i % 7)]
    return question + answer + (question[:3] + answer if i % 3 == 0 else [])


CHATS = [make_chat(i) for i in range(60)]


class ChatsTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_chats(cls.dir + "/chats.bin", CHATS)
        write_chats(cls.dir + "/a.bin", CHATS[:25])
        write_chats(cls.dir + "/b.bin", CHATS[25:])
        write_tokens(cls.dir + "/text.bin", [97 + i * i % 23 for i in range(600)])
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", f"--sequence={SEQUENCE}", "--vocab=256", "--out=gpt.textproto",
            cwd=cls.dir)

    def train(self, *flags, graph=BIGRAM, data="chats.bin", code=0):
        graph = [] if flags and flags[0].startswith("--plan") else [graph, "--batch=8"]
        return run("train", *graph, "--data=" + data, "--threads=1", "--epochs=1", *flags, cwd=self.dir, code=code)

    def rows(self, *flags, **options):
        self.train(*flags, "--metrics=metrics.jsonl", **options)
        return read_metrics(self.dir + "/metrics.jsonl")

    def losses(self, *flags, **options):
        return [row["loss"] for row in self.rows(*flags, **options)]

    def refuse(self, words, *flags, **options):
        error = self.train(*flags, code=2, **options)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("oneflow: error: "), 1, error)

    def labels_of(self, chats):
        """(token, label) of those that count, as a reader of the file would list them."""
        return [(chat[j][0], chat[j + 1][0]) for chat in chats for j in range(len(chat) - 1) if chat[j + 1][1]]

    def test_the_loss_is_the_mean_over_labels_that_count(self):
        # Weights that do not change, computed here as f64: logits of token a are table[a] by head.
        rows = self.rows("--learning_rate=1e-30", "--checkpoint_dir=flat")
        folder = [name for name in os.listdir(self.dir + "/flat") if name.startswith("step-")][0]
        floats = {key[0]: struct.unpack(f"<{len(data) // 4}f", data) for key, data in read_slices(f"{self.dir}/flat/{folder}").items()}
        table = [floats["table"][i:i + 64] for i in range(0, 256 * 64, 64)]
        head = [floats["head"][i::256] for i in range(256)]  # the columns

        def nll(token, label):
            logits = [sum(x * w for x, w in zip(table[token], column)) for column in head]
            most = max(logits)
            return most + math.log(sum(math.exp(logit - most) for logit in logits)) - logits[label]
        known = {}
        pairs = self.labels_of(CHATS)
        total = sum(known.setdefault(pair, nll(*pair)) for pair in pairs)
        # Each step is a mean; all chats are read once, and some twice, for the last batch goes on.
        self.assertEqual(len(rows), 8)
        losses = self.losses("--learning_rate=1e-30", "--batch=60")
        self.assertEqual(len(losses), 1)
        self.assertAlmostEqual(losses[0], total / len(pairs), delta=1e-6)
        for flags in [["--micro_batches=15"], ["--mesh=data=4"], ["--mesh=data=2", "--micro_batches=3"], ["--documents", "--batch=1"]]:
            with self.subTest(flags=flags):
                rows = self.rows("--learning_rate=1e-30", "--batch=60", *flags)
                labels = sum(row["labels"] for row in rows)
                self.assertEqual(labels, len(pairs))
                self.assertAlmostEqual(sum(row["loss"] * row["labels"] for row in rows) / labels, total / len(pairs), delta=1e-6)

    def test_meshes_micro_batches_and_processes_agree(self):
        for documents in [[], ["--documents"]]:
            one = self.losses(*documents, "--learning_rate=1e-2", graph=GPT)
            for flags in [["--mesh=data=2"], ["--mesh=data=4"], ["--micro_batches=4"], ["--mesh=tensor=2"],
                          ["--mesh=pipe=2", "--micro_batches=2"], ["--mesh=data=2", "--processes=2"]]:
                with self.subTest(flags=documents + flags):
                    for loss, same in zip(self.losses(*documents, "--learning_rate=1e-2", *flags, graph=GPT), one, strict=True):
                        self.assertAlmostEqual(loss, same, delta=3e-5)
            # At any pipe degree the bits are the same.
            self.assertEqual(self.losses(*documents, "--mesh=pipe=2", "--micro_batches=2", graph=GPT),
                             self.losses(*documents, "--micro_batches=2", graph=GPT))

    def test_packed_chats_are_as_chats_alone(self):
        # One step over all chats, then a second one: the gradients of the first were the same.
        def two(*flags):
            out = self.rows("--epochs=2", "--learning_rate=1e-2", *flags, graph=GPT)
            return [row["loss"] for row in out], [row["labels"] for row in out]
        alone, labels = two("--batch=60")
        self.assertEqual(labels, [len(self.labels_of(CHATS))] * 2)
        windows = json.loads(self.train("--documents", "--format=json", graph=GPT)[0].splitlines()[0])["data"]["records"]
        packed, labels = two("--documents", f"--batch={windows}")
        self.assertEqual(labels, [len(self.labels_of(CHATS))] * 2)
        for one, other in zip(alone, packed, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def test_experts_count_ahead_the_labels_that_count(self):
        run("model", "llama", "--preset=llama-tiny", "--experts=4", f"--sequence={SEQUENCE}", "--aux_loss_coeff=0.1", "--out=moe.textproto",
            cwd=self.dir)
        for documents in [[], ["--documents"]]:
            one = self.losses(*documents, "--learning_rate=1e-2", graph="--graph=moe.textproto")
            for flags in [["--mesh=data=2"], ["--micro_batches=4"]]:
                for loss, same in zip(self.losses(*documents, "--learning_rate=1e-2", *flags, graph="--graph=moe.textproto"), one, strict=True):
                    self.assertAlmostEqual(loss, same, delta=3e-5)

    def test_what_is_printed(self):
        tokens = sum(map(len, CHATS))
        counting = len(self.labels_of(CHATS))
        out = self.train()[0]
        self.assertIn(f"data: 60 records: 60 chats of {tokens} tokens, {100 * counting / tokens:.1f} % of which count as labels, each in a "
                      f"window of 32 that are {100 * tokens / 60 / 32:.1f} % full\n1 epoch of 60 records: 8 steps of 8\n", out)
        out = self.train("--documents", "--format=json")[0]
        data = json.loads(out.splitlines()[0])["data"]
        self.assertEqual((data["chats"], data["chat_tokens"], data["label_tokens"]), (60, tokens, counting))
        self.assertGreater(data["window_fill"], 0.9)
        self.assertAlmostEqual(data["window_fill"], tokens / 32 / data["chat_windows"])
        write_chats(self.dir + "/odd.bin", CHATS[:9] + [[(65, False)] * 4, [(66, False)] + [(67, True)] * 40, [(68, True)] * 33])
        out = self.train(data="odd.bin")[0]
        self.assertIn("data: 2 chats are truncated; 1 chat is left out: none of its tokens counts\n", out)
        out = self.train("--long_chats=drop", data="odd.bin")[0]
        self.assertIn("data: 2 chats are left out: they are too long; 1 chat is left out: none of its tokens counts\n", out)
        self.refuse(["chat 11 of odd.bin: has 41 tokens, and a sequence 32", "--long_chats=truncate or drop"], "--long_chats=error",
                    data="odd.bin")
        # Without --epochs records are drawn.
        out = run("train", BIGRAM, "--batch=8", "--data=chats.bin", "--steps=2", "--threads=1", cwd=self.dir)[0]
        self.assertIn("records are drawn with replacement; --epochs reads each once an epoch\n", out)

    def test_files_are_joined(self):
        self.assertEqual(self.losses(), self.losses(data="a.bin,b.bin"))
        self.assertEqual(self.losses(), self.losses("--checkpoint_dir=joined", data="[ab].bin"))
        self.assertEqual(self.losses("--eval_data=[ab].bin", data="a.bin"), self.losses("--eval_data=a.bin,b.bin", data="a.bin"))
        named, found = (json.loads(run("eval", "--checkpoint=joined", "--data=" + data, "--threads=1", "--format=json", cwd=self.dir)[0])
                        for data in ["a.bin,b.bin", "[ab].bin"])
        self.assertEqual(found["files"], named["files"])
        self.assertEqual([file["file"] for file in found["files"]], ["a.bin", "b.bin"])
        os.makedirs(self.dir + "/texts/more")
        self.write("texts/one.txt", "a text of many words\n" * 9)
        self.write("texts/more/two.txt", "and of others\n" * 9)
        texts = run("eval", "--checkpoint=joined", "--data=texts", "--tokenizer=bytes", "--threads=1", "--format=json", cwd=self.dir)[0]
        self.assertEqual([file["file"] for file in json.loads(texts)["files"]], ["texts/more/two.txt", "texts/one.txt"])
        for flags in [[], ["--documents", "--end_of_text_id=97"]]:
            out = self.train(*flags, data="a.bin,text.bin,b.bin")[0]
            self.assertIn("18 windows of 32 tokens, 60 chats of ", out)
        # Weights draw from files of both kinds.
        out = run("train", BIGRAM, "--batch=8", "--data=a.bin:1,text.bin:1", "--documents", "--end_of_text_id=97", "--steps=20",
                  "--threads=1", cwd=self.dir)[0]
        self.assertRegex(out, r"data of 20 steps: a.bin \d+ sequences, \d\d.\d %, text.bin \d+ sequences, \d\d.\d %\n")

    def test_validation_reads_each_chat_once(self):
        write_chats(self.dir + "/val.bin", CHATS[50:])
        for flags in [[], ["--documents"]]:
            with self.subTest(flags=flags):
                split = self.rows(*flags, "--eval_fraction=0.1666", "--learning_rate=1e-30", "--checkpoint_dir=" + "val" * (1 + len(flags)))
                named = self.rows(*flags, "--eval_data=val.bin", "--learning_rate=1e-30", data="chats.bin")
                self.assertEqual(split[-1]["eval_loss"], named[-1]["eval_loss"])
                evaluated = json.loads(run("eval", "--checkpoint=" + "val" * (1 + len(flags)), "--data=val.bin", "--threads=1",
                                           "--format=json", cwd=self.dir)[0])
                self.assertEqual(evaluated["labels"], len(self.labels_of(CHATS[50:])))
                self.assertAlmostEqual(evaluated["loss"], split[-1]["eval_loss"], delta=1e-6)
                both = json.loads(run("eval", "--checkpoint=" + "val" * (1 + len(flags)), "--data=val.bin,text.bin", "--documents=false",
                                      "--threads=1", "--format=json", cwd=self.dir)[0])
                self.assertEqual([file["labels"] for file in both["files"]], [len(self.labels_of(CHATS[50:])), 599])
        self.refuse(["--eval_fraction: text.bin is of no chats", "give --eval_data"], "--eval_fraction=0.1", data="a.bin,text.bin")
        self.refuse(["of 60 chats the training part has none"], "--eval_fraction=0.999")

    def test_resume_with_other_records_is_refused(self):
        whole = self.losses("--documents", "--epochs=3", "--mesh=data=2")
        self.train("--documents", "--epochs=3", "--mesh=data=2", "--checkpoint_dir=run", "--checkpoint_every=4")
        for name in os.listdir(self.dir + "/run"):
            if name.startswith("step-") and name != "step-00000004":
                os.rename(f"{self.dir}/run/{name}", f"{self.dir}/away-{name}")
        resume = ["--checkpoint_dir=run", "--resume", "--epochs=3", "--mesh=data=2"]
        self.refuse(["was trained on", "--long_chats, which order the data"], *resume, "--documents=false")
        self.refuse(["was trained on", "--long_chats, which order the data"], *resume, "--documents", data="b.bin")
        error = self.train(*resume, "--documents", "--processes=2", "--metrics=rest.jsonl")[1]
        self.assertNotIn("warning", error)
        self.assertEqual([row["loss"] for row in read_metrics(self.dir + "/rest.jsonl")], whole[4:])

    def test_plans_and_flags(self):
        run("compile", BIGRAM, "--batch=8", "--out=plain.plan", cwd=self.dir)
        self.refuse(["does not count labels", "compile it with --masked_labels or --documents"], "--plan=plain.plan")
        run("compile", BIGRAM, "--batch=8", "--masked_labels", "--out=masked.plan", cwd=self.dir)
        self.assertEqual(self.losses("--plan=masked.plan"), self.losses())
        self.refuse(["does not count labels"], "--masked_labels=false")
        self.refuse(["--long_chats=drop: acts on nothing"], "--long_chats=drop", data="text.bin")
        self.refuse(["--end_of_text_id: acts on nothing: all of --data are chats"], "--documents", "--end_of_text_id=9")
        write_chats(self.dir + "/silent.bin", [[(65, False)] * 9])
        self.refuse(["silent.bin: none of its chats can be trained on: 1 have no token that counts"], data="silent.bin")
        self.write("short.bin", self.read("chats.bin")[:-2])
        self.write("short.chats", self.read("chats.chats"))
        self.refuse(["short.chats: says 60 chats of ", "make it again, with the .bin beside it"], data="short.bin")


if __name__ == "__main__":
    unittest.main()
