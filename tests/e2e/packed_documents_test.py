"""--documents on the command line: which token ends a document, with every source of tokenizers; meshes agree; what is refused."""
import json
import math
import os
import struct
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

TESTDATA = os.path.abspath("training/tokenizer/testdata")
GPT2 = "--tokenizer=gpt2:" + TESTDATA
END = "--end_of_text_id=10"  # a text of bytes: its lines are documents


class PackedDocumentsTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("lines.txt", "".join(f"line {i} of many\nand one\n" for i in range(100)))
        for name, flags in [("bytes", ["--vocab=256"]), ("bpe", ["--vocab=704"]), ("unfused", ["--vocab=256", "--attention=unfused"])]:
            run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=16", f"--out={name}.textproto", *flags,
                cwd=cls.dir)

    def train(self, *flags, graph="bytes", data="lines.txt", steps=3, code=0):
        source = [] if "--plan" in flags[0] else [f"--graph={graph}.textproto", "--batch=4"]
        return run("train", *source, "--data=" + data, f"--steps={steps}", "--threads=1", *flags, cwd=self.dir, code=code)

    def losses(self, *flags, **options):
        self.train(*flags, "--metrics=metrics.jsonl", **options)
        return [line["loss"] for line in read_metrics(self.dir + "/metrics.jsonl") if "loss" in line]

    def refuse(self, words, *flags, **options):
        error = self.train(*flags, code=2, **options)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("\n"), 1, error)

    def test_meshes_and_micro_batches_agree(self):
        one = self.losses("--documents", END)
        self.assertNotEqual(one, self.losses("--documents=false"))
        for flags in [["--micro_batches=4"], ["--mesh=data=2", "--shard=weights"], ["--mesh=tensor=2"],
                      ["--mesh=pipe=2", "--micro_batches=2"]]:
            with self.subTest(flags=flags):
                for loss, same in zip(self.losses("--documents", END, *flags), one, strict=True):
                    self.assertAlmostEqual(loss, same, delta=2e-5)

    def test_a_plan_keeps_documents_apart_and_a_run_names_their_end(self):
        run("compile", "--graph=bytes.textproto", "--documents", "--batch=4", "--out=apart.plan", cwd=self.dir)
        self.assertEqual(self.losses("--plan=apart.plan", END), self.losses("--documents", END))
        self.refuse(["--documents", "the plan has it fixed"], "--plan=apart.plan", "--documents", END)

    def test_a_run_that_goes_on_without_its_graph_is_the_same_run(self):
        numbers = ["--documents", "--micro_batches=2", "--precision=bf16", "--learning_rate=1e-3", END]
        whole = self.losses(*numbers, steps=4)
        self.train(*numbers, "--checkpoint_dir=halved", steps=2)
        resume = ["train", "--resume", "--checkpoint_dir=halved", "--data=lines.txt", "--steps=4", "--threads=1"]
        error = run(*resume, cwd=self.dir, code=2)[1]
        self.assertIn("it is not known which token of --data ends a document", error)
        error = run(*resume, END, "--metrics=rest.jsonl", cwd=self.dir)[1]
        self.assertNotIn("warning", error)
        self.assertEqual([row["loss"] for row in read_metrics(self.dir + "/rest.jsonl") if "loss" in row], whole[2:])
        error = run(*resume, "--documents=false", "--batch=2", "--steps=5", cwd=self.dir)[1]
        self.assertIn("with other numbers: --batch 4, now 2; --documents true, now false\n", error)

    def test_the_end_is_that_of_the_tokenizer(self):
        # 0 is <|endoftext|> there. Of text, of files beside the data, of a checkpoint, of the flag.
        by_flag = self.losses("--documents", GPT2, "--end_of_text_id=0", "--checkpoint_dir=kept", graph="bpe", data="lines.txt,lines.txt")
        self.assertEqual(self.losses("--documents", GPT2, graph="bpe", data="lines.txt,lines.txt"), by_flag)
        run("data", "--text=lines.txt,lines.txt", GPT2, "--end_of_text", "--out=tokens", cwd=self.dir)
        self.assertEqual(self.losses("--documents", graph="bpe", data="tokens/train.bin"), by_flag)
        begun = ["--documents", "--init_from=kept"]
        self.assertEqual(self.losses(*begun, graph="bpe", data="lines.txt,lines.txt"),
                         self.losses(*begun, graph="bpe", data="tokens/train.bin"))
        # Each file ends with it once.
        ids = [one for one, in struct.iter_unpack("<H", self.read("tokens/train.bin"))]
        self.assertEqual(ids.count(0), 2)

    def test_validation_keeps_documents_apart_too(self):
        validated = [self.train("--eval_fraction=0.3", *flags)[0] for flags in [["--documents", END], ["--documents=false"]]]
        lines = [[line for line in out.splitlines() if "validation" in line] for out in validated]
        self.assertEqual([len(line) for line in lines], [1, 1])
        self.assertNotEqual(*lines)

    def evaluate(self, *flags, checkpoint="evaluated", data="lines.txt"):
        out, error = run("eval", "--checkpoint=" + checkpoint, "--data=" + data, "--threads=1", "--format=json", *flags, cwd=self.dir)
        return json.loads(out), error

    def test_an_evaluation_reads_each_label_once(self):
        self.train("--documents", END, "--checkpoint_dir=evaluated")
        tokens = self.read("lines.txt")
        self.write("short.txt", tokens[:7])  # less than a sequence
        # The checkpoint was trained with documents apart.
        for documents, labels in [([END], len(tokens) - 1 - tokens[:-1].count(b"\n")), (["--documents=false"], len(tokens) - 1)]:
            one, error = self.evaluate(*documents)
            self.assertEqual((one["labels"], one["step"], error), (labels, 3, ""))
            self.assertAlmostEqual(one["perplexity"], math.exp(one["loss"]), delta=1e-9)
            for flags in [["--batch=1"], ["--batch=7"], ["--batch=12", "--micro_batches=4"], ["--mesh=data=2"], ["--mesh=tensor=2"],
                          ["--mesh=pipe=2"], ["--loss_pieces=4"]]:
                with self.subTest(flags=flags):
                    other = self.evaluate(*documents, *flags)[0]
                    self.assertEqual(other["labels"], labels)
                    self.assertAlmostEqual(other["loss"], one["loss"], delta=1e-6)
            # Files of different sizes: each its own, and all by their labels.
            both = self.evaluate(*documents, data="lines.txt,short.txt")[0]
            self.assertEqual([file["file"] for file in both["files"]], ["lines.txt", "short.txt"])
            self.assertEqual(both["files"][0]["loss"], one["loss"])
            self.assertEqual(both["files"][1], {"file": "short.txt", **both["files"][1], "labels": 6})
            self.assertEqual(both["labels"], labels + 6)
            self.assertAlmostEqual(both["loss"] * both["labels"], sum(file["loss"] * file["labels"] for file in both["files"]), delta=1e-6)
        part = self.evaluate("--documents=false", "--batch=2", "--eval_batches=3")[0]
        self.assertEqual(part["labels"], 2 * 3 * 16)
        out, error = run("eval", "--checkpoint=evaluated", "--data=lines.txt:1,short.txt:3", "--documents=false", cwd=self.dir)
        self.assertEqual([line.split(":")[0] for line in out.splitlines()], ["lines.txt", "short.txt", "all 2 files"])
        self.assertRegex(out, r"^lines.txt: loss \d\.\d+, perplexity [\d.]+, \d+ labels\n")
        self.assertEqual(error, "oneflow: warning: the weights of --data act on nothing: each file is evaluated alone\n")
        self.write("one.txt", "a")
        for words, flags in [("--eval_batches=0: is out of range", ["--data=lines.txt", END, "--eval_batches=0"]),
                             ("--data: is missing", [END]), ("too short: it needs 2 tokens", ["--data=one.txt", END]),
                             ("--end_of_text_id: acts on nothing", ["--data=lines.txt", END, "--documents=false"]),
                             ("it is not known which token of --data ends a document", ["--data=lines.txt"])]:
            error = run("eval", "--checkpoint=evaluated", *flags, cwd=self.dir, code=2)[1]
            self.assertIn(words, error)

    def test_no_label_counts(self):
        self.write("ends.txt", "\n" * 400)
        out, error = self.train("--documents", END, "--eval_fraction=0.3", "--checkpoint_dir=ends", "--metrics=ends.jsonl", data="ends.txt")
        self.assertIn("  loss none  ", out)
        self.assertIn("  validation loss none  ", out)
        why = "counts, so it has no loss: all tokens read of --data=ends.txt are 10, the end of a document; use data that has text"
        for what in ["step 1", "the validation"]:
            self.assertEqual(error.count(f"warning: no label of {what} {why}"), 1, error)
        self.assertIn("warning: no label of 3 steps counts", error)
        rows = read_metrics(self.dir + "/ends.jsonl")
        self.assertEqual([(row["loss"], row["labels"]) for row in rows], [(None, 0)] * 3)
        self.assertIn("eval_loss", rows[-1])
        self.assertIsNone(rows[-1]["eval_loss"])
        result, error = self.evaluate(END, checkpoint="ends", data="ends.txt")
        self.assertEqual((result["loss"], result["perplexity"], result["labels"]), (None, None, 0))
        self.assertIn(f"warning: no label of ends.txt {why}", error)

    def test_an_end_that_occurs_nowhere_is_told(self):
        told = "warning: --documents: token 7, the end of a document, is none of the "
        error = self.train("--documents", "--end_of_text_id=7", "--eval_data=lines.txt", "--checkpoint_dir=nowhere")[1]
        self.assertIn(told, error)
        self.assertIn("tokens of --data=lines.txt, so all of it is one document", error)
        self.assertIn("tokens of --eval_data=lines.txt, so", error)
        self.assertIn(told, self.evaluate("--end_of_text_id=7", checkpoint="nowhere")[1])
        self.assertNotIn("none of the", self.train("--documents", END)[1])

    def test_a_run_that_goes_on_otherwise_is_told(self):
        self.train("--documents", END, "--checkpoint_dir=run")
        error = self.train("--checkpoint_dir=run", "--resume", steps=4)[1]
        self.assertIn("with other numbers: --documents true, now false", error)

    def test_refusals(self):
        self.refuse(["--documents: it is not known which token of --data ends a document", "--end_of_text_id=ID"], "--documents")
        self.refuse(["--end_of_text_id=256: is no token of a vocabulary of 256"], "--documents", "--end_of_text_id=256")
        self.refuse(["--end_of_text_id=-7: is no token"], "--documents", "--end_of_text_id=-7")
        self.refuse(["--end_of_text_id: acts on nothing: no documents are kept apart", "--documents"], END)
        self.refuse(["h.0.attn", "whatever document", "--attention=fused"], "--documents", END, graph="unfused")
        self.refuse(["--reset_position_ids", "write --documents"], "--reset_position_ids")


if __name__ == "__main__":
    unittest.main()
