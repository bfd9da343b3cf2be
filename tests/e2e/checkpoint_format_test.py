"""The Python of docs/checkpoints.md, as it stands there, reads what a run wrote and computes its first loss."""
import array
import json
import math
import operator
import os
import re
import unittest

import xxhash

from tests.e2e.cli import FolderCase, read_metrics, run

PAGE = "docs/checkpoints.md"
SEED = 7


def functions():
    """The definitions of the page's blocks of Python."""
    with open(PAGE, encoding="utf-8") as page:
        blocks = re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)
    defined = {}
    for block in blocks:
        exec(block, defined)  # pylint: disable=exec-used
    defined["xxhash"] = StrictXxhash
    return defined


class StrictXxhash:
    """As of version 4, which takes no strings."""
    @staticmethod
    def xxh3_64_intdigest(data, seed):
        if isinstance(data, str):
            raise TypeError("Strings must be encoded before hashing")
        return xxhash.xxh3_64_intdigest(data, seed)


class CheckpointFormatTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = functions()
        cls.text = bytes(range(32, 127)) * 20
        cls.write("text.txt", cls.text)
        # A step this small changes no bit of a weight.
        run("train", "--graph=" + os.path.abspath("examples/bigram.textproto"), "--mesh=data=2,tensor=2", "--batch=4",
            "--data=text.txt", "--steps=1", f"--seed={SEED}", "--learning_rate=1e-30", "--checkpoint_dir=checkpoints",
            "--metrics=metrics.jsonl", cwd=cls.dir)

    def test_variables_and_their_random_numbers(self):
        folder = self.dir + "/checkpoints/step-00000001"
        for name, deviation, dims in [("table", 0.02, [256, 64]), ("head", 0.1, [64, 256])]:
            found, values = self.page["read_variable"](folder, name)
            self.assertEqual(found, dims)
            drawn = array.array("f", [deviation * self.page["normal"](SEED, name, i) for i in range(len(values))])
            self.assertEqual(values, drawn)
            self.assertEqual(len(set(self.page["read_variable"](folder, name + "/m")[1])) > 1, True)

    def test_the_first_loss(self):
        loss = read_metrics(self.dir + "/metrics.jsonl")[0]["loss"]
        self.assertAlmostEqual(loss, self.page["first_loss"](self.text, SEED, 4), delta=1e-5)
        self.assertGreater(abs(loss - self.page["first_loss"](self.text, SEED + 1, 4)), 1e-3)

    def test_epochs(self):
        record = self.page["record"]
        self.assertEqual([record(1, k, 10) for k in range(10)], [0, 1, 7, 4, 2, 5, 3, 6, 9, 8])
        self.assertEqual(record(1, 0, 2**40), 224026700796)
        records = (len(self.text) - 1) // 32
        run("train", "--graph=" + os.path.abspath("examples/bigram.textproto"), "--batch=4", "--data=text.txt", "--epochs=2",
            f"--seed={SEED}", "--learning_rate=1e-30", "--metrics=epochs.jsonl", cwd=self.dir)
        lines = read_metrics(self.dir + "/epochs.jsonl")
        self.assertEqual(len(lines), -(-2 * records // 4))
        for step in [0, records // 4]:  # the second one begins in one epoch and ends in the next
            def read(_, seed, __, number, sequence, step=step):
                begin = record(seed, 4 * step + number, records) * sequence
                return self.text[begin:begin + sequence + 1]
            first_loss = self.page["first_loss"]
            loss = type(first_loss)(first_loss.__code__, dict(first_loss.__globals__, sample=read))(None, SEED, 4)
            self.assertAlmostEqual(lines[step]["loss"], loss, delta=1e-5)
        self.assertNotEqual(records % 4, 0)

    def test_a_mixture(self):
        texts = [self.text, bytes(range(97, 123)) * 30]
        self.write("b.txt", texts[1])
        run("train", "--graph=" + os.path.abspath("examples/bigram.textproto"), "--batch=8", "--data=text.txt:3,b.txt:1", "--steps=2",
            f"--seed={SEED}", "--learning_rate=1e-30", "--metrics=mixture.jsonl", "--checkpoint_dir=mixture", cwd=self.dir)
        weights = [one["weight"] for one in json.loads(self.read("mixture/step-00000002/manifest.json"))["mixture"]]
        part, sample, chosen = self.page["part"], self.page["sample"], set()
        for step, line in enumerate(read_metrics(self.dir + "/mixture.jsonl")):
            def drawn(_, seed, __, number, sequence, step=step):
                chosen.add(part(weights, seed, step, number))
                return sample(texts[part(weights, seed, step, number)], seed, step, number, sequence)
            # The page's loss, of the samples of the mixture.
            first_loss = self.page["first_loss"]
            loss = type(first_loss)(first_loss.__code__, dict(first_loss.__globals__, sample=drawn))(None, SEED, 8)
            self.assertAlmostEqual(line["loss"], loss, delta=1e-5)
        self.assertEqual(chosen, {0, 1})

    def test_the_masks_of_dropout(self):
        rate, batch, hidden, sequence = 0.25, 4, 64, 32
        with open("examples/bigram.textproto", encoding="utf-8") as file:
            graph = file.read()
        graph = graph.replace('kind: "linear" input: "x"', 'kind: "linear" input: "dropped"') + (
            f'op {{ name: "dropped" kind: "dropout" input: "x" attr {{ key: "rate" value {{ f: {rate} }} }} }}\n')
        self.write("dropout.textproto", graph)
        run("train", "--graph=dropout.textproto", "--mesh=data=2", f"--batch={batch}", "--micro_batches=2", "--data=text.txt",
            "--steps=2", f"--seed={SEED}", "--learning_rate=1e-30", "--metrics=dropout.jsonl", cwd=self.dir)
        normal, kept, sample = self.page["normal"], self.page["kept"], self.page["sample"]
        table, head = ([deviation * normal(SEED, name, i) for i in range(256 * hidden)]
                       for name, deviation in [("table", 0.02), ("head", 0.1)])
        columns = [head[v::256] for v in range(256)]
        for step, line in enumerate(read_metrics(self.dir + "/dropout.jsonl")):
            loss = 0
            for s in range(batch):
                tokens = sample(self.text, SEED, step, s, sequence)
                for position in range(sequence):
                    row = [table[hidden * tokens[position] + h] / (1 - rate) *
                           kept(SEED, "dropped", step, (s * sequence + position) * hidden + h, rate) for h in range(hidden)]
                    logits = [sum(map(operator.mul, row, column)) for column in columns]
                    loss += math.log(sum(map(math.exp, logits))) - logits[tokens[position + 1]]
            # One element more or less changes it by 1e-5 and more.
            self.assertAlmostEqual(line["loss"], loss / (batch * sequence), delta=1e-6)

    def test_the_length_of_the_page_s_code(self):
        with open(PAGE, encoding="utf-8") as page:
            block = re.search(r"```python\n(.*?)```", page.read(), re.DOTALL).group(1)
        self.assertLessEqual(len([line for line in block.splitlines() if line.strip()]), 30)


if __name__ == "__main__":
    unittest.main()
