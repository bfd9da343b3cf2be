"""`oneflow generate`: tokenizers, sampling, where it stops, and that meshes agree."""
import json
import os
import unittest

from tests.e2e.cli import FolderCase, run

VOCABULARY = os.path.abspath("training/tokenizer/testdata")  # of 700 tokens


class GenerateTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "the café 🙂 of the cat. " * 400)
        tokenizer = "--tokenizer=gpt2:" + VOCABULARY
        run("data", "--text=text.txt", tokenizer, "--out=data", cwd=cls.dir)
        for name, vocab, data in [("bytes", "256", "text.txt"), ("bpe", "704", "data/train.bin")]:
            run("model", "gpt", "--layers=2", "--heads=2", "--hidden=32", "--sequence=16", "--vocab=" + vocab,
                f"--out={name}.textproto", cwd=cls.dir)
            run("train", f"--graph={name}.textproto", "--data=" + data, "--steps=300", "--batch=16",
                "--learning_rate=5e-3", "--checkpoint_dir=" + name, cwd=cls.dir)

    def generate(self, checkpoint, *flags):
        flags = [*flags, "--prompt=the café"] if checkpoint == "bytes" else [*flags, "--tokenizer=gpt2:" + VOCABULARY]
        return json.loads(run("generate", "--checkpoint=" + checkpoint, "--format=json", *flags, cwd=self.dir)[0])

    def test_greedy_text_is_what_was_learned_beyond_the_window_and_on_any_mesh(self):
        one = self.generate("bytes", "--temperature=0", "--tokens=60")
        self.assertEqual(len(one["tokens"]), 60)
        self.assertIn(" 🙂 of the cat. the café", one["text"])
        for mesh in ["tensor=2", "pipe=2", "data=2"]:
            self.assertEqual(self.generate("bytes", "--temperature=0", "--tokens=60", "--mesh=" + mesh)["tokens"],
                             one["tokens"])

    def test_all_cores_compute(self):
        cores = len(os.sched_getaffinity(0))
        self.assertGreaterEqual(self.generate("bytes", "--tokens=1")["threads"], min(2, cores))
        self.assertEqual(self.generate("bytes", "--tokens=1", "--threads=1")["threads"], 1)

    def test_byte_pairs_without_a_prompt(self):
        result = self.generate("bpe", "--temperature=0", "--tokens=40")
        self.assertIn("café 🙂 of the cat. the", result["text"])
        self.assertLess(len(result["tokens"]), len(result["text"]))

    def test_sentencepiece(self):
        tokenizer = "--tokenizer=" + VOCABULARY + "/bpe.model"
        run("data", "--text=text.txt", tokenizer, "--out=pieces", cwd=self.dir)
        run("train", "--graph=bpe.textproto", "--data=pieces/train.bin", "--steps=300", "--batch=16",
            "--learning_rate=5e-3", "--checkpoint_dir=pieces", cwd=self.dir)
        result = run("generate", "--checkpoint=pieces", "--prompt=of the", tokenizer, "--temperature=0", "--tokens=40",
                     cwd=self.dir)[0]
        self.assertIn("of the cat. the café 🙂 of the", result)

    def test_sampling(self):
        greedy = self.generate("bytes", "--temperature=0", "--tokens=20")["tokens"]
        self.assertEqual(self.generate("bytes", "--top_k=1", "--tokens=20")["tokens"], greedy)
        self.assertEqual(self.generate("bytes", "--top_p=1e-6", "--tokens=20")["tokens"], greedy)
        hot = lambda seed, n: self.generate("bytes", "--temperature=3", "--seed=" + seed, "--tokens=" + n)["tokens"]
        self.assertNotEqual(hot("1", "20"), hot("2", "20"))
        self.assertEqual(hot("1", "20")[:7], hot("1", "7"))

    def test_it_stops_before_a_string(self):
        result = self.generate("bytes", "--temperature=0", "--tokens=60", "--stop=cat", "--stop=dog")
        self.assertEqual(result["text"], " 🙂 of the ")
        self.assertEqual(result["end"], "stop")
        self.assertEqual(self.generate("bytes", "--temperature=0", "--tokens=6")["end"], "length")

    def test_text_streams_whole_characters_and_tells_its_speed(self):
        out, error = run("generate", "--checkpoint=bytes", "--prompt=the café", "--temperature=0", "--tokens=3", cwd=self.dir)
        self.assertEqual(out, "the café \ufffd\ufffd\n")  # two of the four bytes of the smiley
        self.assertRegex(error, r"3 tokens in [\d.]+ s: [\d.]+ tokens/s; prompt of 9 in [\d.]+ s")


if __name__ == "__main__":
    unittest.main()
