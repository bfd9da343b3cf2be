"""Tokens as their libraries give them, from text to file to checkpoint: where texts are split, what stands around documents, which
tokenizer made the data; and input that is reported or refused: pipes, empty files, repeated flags, a mistyped axis."""
import bz2
import json
import os
import shutil
import struct
import unittest

from tests.e2e.cli import FolderCase, run

TESTDATA = os.path.abspath("training/tokenizer/testdata")
GPT2, PIECES = "--tokenizer=gpt2:" + TESTDATA, "--tokenizer=" + TESTDATA + "/unigram.model"


class TokensTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "the program of the café, and its text.\n" * 60)
        for name, vocab in [("bytes", "256"), ("bpe", "704")]:
            run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=" + vocab,
                f"--out={name}.textproto", cwd=cls.dir)

    def oneflow(self, *args, code=0):
        return run(*args, cwd=self.dir, code=code)

    def refuse(self, words, *args):
        error = self.oneflow(*args, code=2)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(error.count("\n"), 1, error)

    def data(self, out, *flags):
        return json.loads(self.oneflow("data", "--out=" + out, "--format=json", *flags)[0])

    def ids(self, path):
        return [one for one, in struct.iter_unpack("<H", self.read(path))]

    def train(self, graph, data, *flags, code=0):
        return self.oneflow("train", f"--graph={graph}.textproto", "--data=" + data, "--steps=1", "--batch=2", *flags, code=code)

    def test_the_last_part_is_as_large_as_the_fraction_says(self):
        words = "the program of the license and its text " * 200
        self.write("one_line.txt", "first line\nsecond line\n" + words)
        self.write("no_space.txt", "中文字" * 3001)
        # The fraction of 0.1 falls inside a character of three bytes.
        for text, tokenizer in [("one_line.txt", PIECES), ("no_space.txt", PIECES), ("no_space.txt", GPT2), ("text.txt", PIECES)]:
            with self.subTest(text=text, tokenizer=tokenizer):
                whole = os.path.getsize(f"{self.dir}/{text}")
                train, val = self.data("split", "--text=" + text, tokenizer, "--val_fraction=0.1")["files"]
                self.assertEqual(train["text_bytes"] + val["text_bytes"], whole)
                self.assertGreaterEqual(val["text_bytes"], 0.1 * whole - 1)
                self.assertLessEqual(val["text_bytes"], 0.11 * whole + 1)
                if text == "no_space.txt":
                    self.assertEqual(train["text_bytes"] % 3, 0)  # no character is split

    def test_a_split_ends_no_document(self):
        self.write("a.txt", "the program\n" * 50)
        self.write("b.txt", "of the license\n" * 50)
        for token_format in ["nanogpt", "megatron"]:
            self.data("ends", "--text=a.txt,b.txt", GPT2, "--end_of_text", "--val_fraction=0.3", "--token_format=" + token_format)
            train, val = self.ids("ends/train.bin"), self.ids("ends/val.bin")
            self.assertEqual((train.count(0), train[-1] == 0), (1, False))
            self.assertEqual((val.count(0), val[-1]), (1, 0))
            self.data("whole", "--text=a.txt,b.txt", GPT2, "--end_of_text", "--token_format=" + token_format)
            self.assertEqual(train + val, self.ids("whole/train.bin"))

    def test_a_text_of_which_nothing_is_left(self):
        self.write("spaces.txt", " \n\t \n")
        self.data("nothing", "--text=text.txt", PIECES, "--val_fraction=0.1")
        before = sorted(os.listdir(self.dir + "/nothing"))
        ids = self.ids("nothing/train.bin")
        self.refuse(["--text=spaces.txt", "no token of the text of nothing/train.bin", "normalizer leaves nothing"],
                    "data", "--text=spaces.txt", PIECES, "--out=nothing", "--end_of_text")
        self.refuse(["no token of the text of nothing/val.bin"],
                    "data", "--text=text.txt,spaces.txt", PIECES, "--out=nothing", "--val_fraction=0.002")
        self.assertEqual(sorted(os.listdir(self.dir + "/nothing")), before)
        self.assertEqual(self.ids("nothing/train.bin"), ids)
        error = self.oneflow("data", "--text=text.txt,spaces.txt", PIECES, "--out=some")[1]
        self.assertIn("warning: spaces.txt: the tokenizer makes no token of its text", error)
        self.assertNotIn("text.txt: the", error)

    def with_template(self, end=("two",)):
        with open(TESTDATA + "/expected_templates.json", encoding="utf-8") as file:
            template = json.load(file)["cases"][2]["post_processor"]  # 0 before, 1 and 2 after
        template["single"] = template["single"][:2] + [{"SpecialToken": {"id": name, "type_id": 0}} for name in end]
        with open(TESTDATA + "/tokenizer.json", encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["post_processor"] = template
        self.write("template.json", json.dumps(tokenizer))
        return "--tokenizer=template.json"

    def test_a_post_processor_stands_around_documents_and_before_prompts(self):
        template = self.with_template()
        self.write("c.txt", "the program\n" * 30)
        facts = self.data("around", "--text=c.txt,text.txt", template, "--val_fraction=0.2")
        self.assertEqual((facts["begin"], facts["end"]), ([0], [1, 2]))
        self.data("plain", "--text=c.txt,text.txt", GPT2, "--val_fraction=0.2")
        first = self.data("first", "--text=c.txt", GPT2)["files"][0]["tokens"]
        plain = self.ids("plain/train.bin")
        self.assertEqual(self.ids("around/train.bin"), [0] + plain[:first] + [1, 2] + [0] + plain[first:])
        self.assertEqual(self.ids("around/val.bin"), self.ids("plain/val.bin") + [1, 2])
        for end_of_text, ids in [([], [1, 2]), (["--end_of_text"], [1, 2, 0])]:
            self.data("end", "--text=c.txt", template, *end_of_text)
            self.assertEqual(self.ids("end/train.bin"), [0] + plain[:first] + ids)
        # A document that ends with the token already does not get it twice.
        self.with_template(end=["<|endoftext|>"])
        self.data("end", "--text=c.txt", template, "--end_of_text")
        self.assertEqual(self.ids("end/train.bin"), [0] + plain[:first] + [0])
        self.with_template()
        out = self.oneflow("data", "--text=c.txt", template, "--out=people")[0]
        self.assertIn('each document stands between "<|endoftext|>" and "!""', out)
        # The model is new: what it says depends on all it has seen, and so on the token before the prompt.
        self.train("bpe", "around/train.bin", "--checkpoint_dir=around/ckpt")
        generate = ["generate", "--checkpoint=around/ckpt", template, "--tokens=1", "--temperature=0"]
        self.oneflow(*generate)  # without a prompt a text begins
        error = self.oneflow(*generate, "--prompt=the")[1]
        self.assertIn("prompt of 2 in", error)

    def read_tokenizer(self, folder):
        with open(f"{self.dir}/{folder}/train.meta.json", encoding="utf-8") as file:
            return "{name} ({hash})".format(**json.load(file)["tokenizer"])

    def test_another_tokenizer_is_refused(self):
        for name, tokenizer in [("gpt2", GPT2), ("pieces", PIECES)]:
            facts = self.data(name, "--text=text.txt", tokenizer, "--val_fraction=0.2")
            self.assertRegex(facts["tokenizer_hash"], "^[0-9a-f]{16}$")
        gpt2, pieces = self.read_tokenizer("gpt2"), self.read_tokenizer("pieces")
        self.assertRegex(gpt2, r"^gpt2:testdata \([0-9a-f]{16}\)$")
        self.assertRegex(pieces, r"^unigram.model \(")
        out, error = self.train("bpe", "gpt2/train.bin", "--eval_data=gpt2/val.bin", "--checkpoint_dir=ckpt", "--eval_batches=1")
        self.assertNotIn("tokenizer", out + error)
        self.assertEqual(json.loads(self.read("ckpt/step-00000001/manifest.json"))["tokenizer"]["name"], "gpt2:testdata")

        self.refuse(["--eval_data=pieces/val.bin", gpt2, pieces], "train", "--graph=bpe.textproto", "--data=gpt2/train.bin",
                    "--eval_data=pieces/val.bin", "--steps=1", "--batch=2")
        self.refuse(["pieces/val.bin", "gpt2/train.bin", gpt2, pieces], "train", "--graph=bpe.textproto",
                    "--data=gpt2/train.bin,pieces/val.bin", "--steps=1", "--batch=2")
        resume = ["--checkpoint_dir=ckpt", "--resume", "--steps=2"]
        train = ["train", "--graph=bpe.textproto", "--batch=2", *resume]
        error = self.oneflow(*train, "--data=pieces/train.bin", code=2)[1]
        self.assertIn(f"--data: the tokenizer is {pieces}, but ckpt/step-00000001 was trained on tokens of {gpt2}", error)
        generate = ["generate", "--checkpoint=ckpt", "--prompt=the", "--tokens=2"]
        self.refuse([f"the tokenizer is {pieces}", gpt2], *generate, PIECES)
        self.refuse(["--tokenizer=bytes", "the tokenizer is bytes", gpt2], *generate, "--tokenizer=bytes")
        error = self.oneflow(*generate, "--tokenizer=" + TESTDATA + "/tokenizer.json")[1]  # the same vocabulary
        self.assertNotIn("tokenizer", error)

        # Ids of another program: the tokenizer is unknown, which is reported.
        shutil.copy(self.dir + "/gpt2/train.bin", self.dir + "/foreign.bin")
        error = self.oneflow(*train, "--data=foreign.bin")[1]
        self.assertIn(f"the tokenizer is not checked: that of ckpt/step-00000001 is {gpt2}, that of --data is unknown", error)
        # The checkpoint goes on with the tokenizer of the one before.
        error = self.oneflow(*generate, PIECES, code=2)[1]
        self.assertIn(f"the tokenizer is {pieces}, but ckpt/step-00000002 was trained on tokens of {gpt2}", error)
        # Neither does a checkpoint of such ids say what their tokenizer is.
        self.train("bpe", "foreign.bin", "--checkpoint_dir=foreign")
        error = self.oneflow("generate", "--checkpoint=foreign", "--prompt=the", "--tokens=2", GPT2)[1]
        self.assertIn(f"that of foreign/step-00000001 is unknown, that of --tokenizer=gpt2:{TESTDATA} is {gpt2}", error)

    def test_a_pipe_is_refused_at_once(self):
        os.mkfifo(self.dir + "/pipe")
        message = "pipe: is a pipe, no regular file"
        for flags in [["--data=pipe"], ["--data=text.txt", "--eval_data=pipe"], ["--data=text.txt,pipe"]]:
            self.refuse([message, "write it to a file first"], "train", "--graph=bytes.textproto", "--steps=1", *flags)
        self.refuse([message], "data", "--text=pipe", "--out=piped")
        # As a shell gives it: --data=<(cat text.txt).
        reader, writer = os.pipe()
        os.write(writer, b"text")
        os.close(writer)
        try:
            os.symlink(f"/proc/{os.getpid()}/fd/{reader}", self.dir + "/link")
            self.refuse(["link: is a pipe"], "train", "--graph=bytes.textproto", "--data=link", "--steps=1")
        finally:
            os.close(reader)

    def test_empty_files_among_several_are_named(self):
        self.write("empty.txt", "")
        error = self.train("bytes", "text.txt,empty.txt")[1]
        self.assertIn("oneflow: warning: --data: empty.txt is empty\n", error)
        error = self.train("bytes", "text.txt", "--eval_data=empty.txt,text.txt", "--eval_batches=1")[1]
        self.assertIn("oneflow: warning: --eval_data: empty.txt is empty\n", error)

    def test_what_is_no_text_is_refused_in_each_place(self):
        line = json.dumps({"text": "Hello world."}) + "\n"
        self.write("text.bz2", bz2.compress(b"the program of the license\n" * 40))
        self.write("lines.jsonl", '"a string"\n' * 30)
        train = ["train", "--graph=bytes.textproto", "--steps=1", "--batch=2"]
        for name, words in [("text.bz2", ["text.bz2: is compressed with bzip2", "bzip2 -dk"]),
                            ("lines.jsonl", ["lines.jsonl: holds JSON Lines: each line is a string", "jq -r ."])]:
            self.refuse(words, *train, "--data=" + name)
            self.refuse(words, *train, "--data=text.txt," + name)
            self.refuse(words, *train, "--data=text.txt:0.5," + name + ":0.5")
            self.refuse(words, *train, "--data=text.txt", "--eval_data=" + name)
            self.refuse(words, *train, "--data=" + name, GPT2)
            self.refuse(words, "data", "--text=text.txt," + name, "--out=refused")
        self.assertFalse(os.path.exists(self.dir + "/refused"))
        # One document of JSON is text; zero bytes are doubted.
        self.write("one.json", line.replace("world", "world " * 20))
        self.assertEqual(self.train("bytes", "one.json")[1].count("warning"), 0)
        self.write("zeros", "the program\0of the license\n" * 20)
        for command in [["data", "--text=zeros", "--out=zeros_out"], [*train, "--data=zeros"]]:
            self.assertIn("oneflow: warning: zeros: holds 20 zero bytes in its first 540", self.oneflow(*command)[1])

    def test_text_that_is_no_utf8_gives_a_warning_where_a_tokenizer_encodes_it(self):
        self.write("latin1.txt", "the Größe of the license\n".encode("latin1") * 20)
        warning = "oneflow: warning: latin1.txt: is no UTF-8 (byte 6)"
        for flags in [["--tokenizer=bytes"], [GPT2]]:
            expected = 1 if GPT2 in flags else 0
            error = self.oneflow("data", "--text=latin1.txt", "--out=latin1", *flags)[1]
            self.assertEqual(error.count(warning), expected)
            error = self.train("bpe", "latin1.txt", *flags)[1]
            self.assertEqual(error.count(warning), expected)

    def test_ids_without_a_header_have_the_bytes_that_one_says(self):
        ids = [(7 * i) % 700 for i in range(300)]
        for name, kind in [("two.npy", "H"), ("four.npy", "I"), ("four.bin", "i")]:
            self.write(name, struct.pack(f"<300{kind}", *ids))
        losses = set()
        for name, flags in [("two.npy", []), ("two.npy", ["--token_bytes=2"]), ("four.npy", ["--token_bytes=4"]),
                            ("four.bin", ["--token_bytes=4"])]:
            out = self.train("bpe", name, "--format=json", *flags)[0]
            losses.add(json.loads(out.splitlines()[0])["loss"])
        self.assertEqual(len(losses), 1)
        train = ["train", "--graph=bpe.textproto", "--data=four.npy", "--steps=1"]
        self.refuse(["four.npy: looks like ids of four bytes", "--token_bytes=4"], *train)
        self.train("bpe", "four.bin", "--token_bytes=2")
        self.refuse(["--token_bytes=3"], *train, "--token_bytes=3")

    def test_bytes_are_for_models_that_were_made_with_them(self):
        self.data("of_gpt2", "--text=text.txt", GPT2)
        shutil.copy(self.dir + "/of_gpt2/train.bin", self.dir + "/unknown.bin")
        self.train("bpe", "unknown.bin", "--checkpoint_dir=unknown")
        generate = ["generate", "--checkpoint=unknown", "--prompt=the", "--tokens=2"]
        self.refuse(["unknown/step-00000001: contains no tokenizer", "--tokenizer=bytes takes"], *generate)
        self.oneflow(*generate, GPT2)
        self.oneflow(*generate, "--tokenizer=bytes")
        for flags in [["--init_from=unknown"], ["--checkpoint_dir=unknown", "--resume", "--graph=bpe.textproto"]]:
            train = ["train", "--steps=2", "--batch=2", "--data=text.txt", *flags]
            self.refuse(["text.txt: is text, and the tokenizer of unknown/step-00000001 is not known"], *train)
        self.oneflow("train", "--init_from=unknown", "--steps=1", "--batch=2", "--data=text.txt", GPT2)
        self.oneflow("train", "--init_from=unknown", "--steps=1", "--batch=2", "--data=unknown.bin")
        # Of one that was made with bytes they are the tokenizer.
        self.train("bytes", "text.txt", "--checkpoint_dir=of_bytes")
        self.oneflow("train", "--init_from=of_bytes", "--steps=1", "--batch=2", "--data=text.txt")
        self.oneflow("generate", "--checkpoint=of_bytes", "--prompt=the", "--tokens=2")

    def test_the_files_beside_a_tokenizer_travel_with_it(self):
        os.mkdir(self.dir + "/llama")
        shutil.copy(TESTDATA + "/bpe.model", self.dir + "/llama/tokenizer.model")
        self.write("llama/config.json", json.dumps({"model_type": "llama", "eos_token_id": [2, 3]}))
        facts = self.data("llama_data", "--text=text.txt", "--tokenizer=llama", "--end_of_text")
        self.assertEqual((facts["begin"], facts["end"], self.ids("llama_data/train.bin")[0], self.ids("llama_data/train.bin")[-1]),
                         ([1], [], 1, 2))
        self.train("bpe", "llama_data/train.bin", "--documents", "--checkpoint_dir=llama_ckpt")
        self.assertEqual(json.loads(self.read("llama_ckpt/step-00000001/tokenizer_config.json"))["tokenizer_class"], "LlamaTokenizer")
        self.assertIn("prompt of 1 in", self.oneflow("generate", "--checkpoint=llama_ckpt", "--tokens=1")[1])
        # Another setting is another tokenizer.
        self.write("llama/tokenizer_config.json", json.dumps({"tokenizer_class": "LlamaTokenizer", "add_bos_token": False}))
        self.refuse(["the tokenizer is tokenizer.model", "was trained on tokens of tokenizer.model"],
                    "generate", "--checkpoint=llama_ckpt", "--tokens=1", "--tokenizer=llama")
        # Data of another text leaves none of it.
        self.data("llama_data", "--text=text.txt", GPT2)
        self.assertEqual(sorted(os.listdir(self.dir + "/llama_data/tokenizer")), ["merges.txt", "vocab.json"])

    def test_a_tokenizer_may_have_more_tokens_than_the_model(self):
        self.oneflow("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=699", "--out=few.textproto")
        self.data("few", "--text=text.txt", PIECES.replace("unigram", "bpe"))
        self.train("few", "few/train.bin", "--checkpoint_dir=few_ckpt")
        generate = ["generate", "--checkpoint=few_ckpt", "--tokens=2"]
        self.oneflow(*generate, "--prompt=the")
        with open(self.dir + "/few/train.bin", "r+b") as file:
            file.write(struct.pack("<H", 699))  # one that occurs
        self.refuse(["token 699 at position 0 is not in the model's vocabulary of 699"],
                    "train", "--graph=few.textproto", "--data=few/train.bin", "--steps=1")

    def test_an_axis_that_is_one_letter_off(self):
        error = self.oneflow("compile", "--graph=bytes.textproto", "--mesh=dat=2", "--batch=4", "--out=dat.plan")[1]
        self.assertIn("mesh axis dat: did you mean data?", error)
        self.train("bytes", "text.txt", "--checkpoint_dir=axis")
        error = self.oneflow("generate", "--checkpoint=axis", "--prompt=the", "--tokens=1", "--mesh=tenso=2")[1]
        self.assertIn("mesh axis tenso: did you mean tensor?", error)
        error = self.oneflow("compile", "--graph=bytes.textproto", "--mesh=replica=2", "--batch=4", "--out=dat.plan")[1]
        self.assertIn("mesh axis replica: neither the model", error)


if __name__ == "__main__":
    unittest.main()
