"""--documents on the command line: which token ends a document, with every source of tokenizers; meshes agree; what is refused."""
import os
import struct
import tempfile
import unittest

from tests.e2e.cli import read_metrics, run

TESTDATA = os.path.abspath("actor_runtime/tokenizer/testdata")
GPT2 = "--tokenizer=gpt2:" + TESTDATA
END = "--end_of_text_id=10"  # a text of bytes: its lines are documents


class PackedDocumentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.dir = temporary.name
        with open(cls.dir + "/lines.txt", "w", encoding="utf-8") as text:
            text.write("".join(f"line {i} of many\nand one\n" for i in range(100)))
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
        with open(self.dir + "/tokens/train.bin", "rb") as file:
            ids = [one for one, in struct.iter_unpack("<H", file.read())]
        self.assertEqual(ids.count(0), 2)

    def test_validation_keeps_documents_apart_too(self):
        validated = [self.train("--eval_fraction=0.3", *flags)[0] for flags in [["--documents", END], ["--documents=false"]]]
        lines = [[line for line in out.splitlines() if "validation" in line] for out in validated]
        self.assertEqual([len(line) for line in lines], [1, 1])
        self.assertNotEqual(*lines)

    def test_a_run_that_goes_on_otherwise_is_told(self):
        self.train("--documents", END, "--checkpoint_dir=run")
        error = self.train("--checkpoint_dir=run", "--resume", steps=4)[1]
        self.assertIn("with other numbers: documents apart, now joined", error)

    def test_refusals(self):
        self.refuse(["--documents: it is not known which token of --data ends a document", "--end_of_text_id=ID"], "--documents")
        self.refuse(["--end_of_text_id=256: is no token of a vocabulary of 256"], "--documents", "--end_of_text_id=256")
        self.refuse(["--end_of_text_id=-7: is no token"], "--documents", "--end_of_text_id=-7")
        self.refuse(["--end_of_text_id: acts on nothing: the plan keeps no documents apart", "--documents"], END)
        self.refuse(["h.0.attn", "whatever document", "--attention=fused"], "--documents", END, graph="unfused")
        self.refuse(["--reset_position_ids", "write --documents"], "--reset_position_ids")


if __name__ == "__main__":
    unittest.main()
