"""A model whose blocks differ: what recomputes by class, and what explain prints of classes."""
import json
import re
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run

PLAN = ["--mesh=pipe=2", "--batch=4", "--micro_batches=2", "--cluster=h100"]


class BlockClassesTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "the cat sat on the mat. " * 100)
        run("model", "llama", "--preset=llama-tiny", "--layers=6", "--sequence=16", "--out=plain.textproto", cwd=cls.dir)
        window = ' attr { key: "window" value { i: 4 } } block: '
        # Each third block attends to a window.
        cls.write("pattern.textproto", re.sub(r'(kind: "attention".*) block: (2|5)\b', r"\1" + window + r"\2",
                                              cls.read("plain.textproto").decode()))

    def losses(self, recompute):
        run("train", "--graph=pattern.textproto", *PLAN[:-1], "--data=text.txt", "--steps=3", "--seed=1", "--threads=1",
            "--recompute=" + recompute, "--metrics=metrics.jsonl", cwd=self.dir)
        return [line["loss"] for line in read_metrics(self.dir + "/metrics.jsonl") if "loss" in line]

    def explain(self, *flags):
        return run("explain", "--graph=pattern.textproto", *PLAN, *flags, cwd=self.dir)[0]

    def test_a_policy_of_a_class_moves_no_bit(self):
        none = self.losses("none")
        self.assertEqual(len(none), 3)
        for recompute in ["full@b:1,attention@a", "full@b,selective:1/0"]:
            self.assertEqual(none, self.losses(recompute), recompute)

    def test_a_class_that_the_model_does_not_have(self):
        error = run("explain", "--graph=pattern.textproto", *PLAN, "--recompute=full@c:1", cwd=self.dir, code=2)[1]
        self.assertIn('--recompute=full@c:1: names a class of blocks that "llama-tiny" does not have; '
                      "its blocks are 2*(2*a b); name one of these classes", error)
        error = run("explain", "--graph=plain.textproto", *PLAN, "--recompute=full@b", cwd=self.dir, code=2)[1]
        self.assertIn("its blocks are 6*a; leave @b out", error)

    def test_more_classes_than_a_search_measures(self):
        blocks = ",".join(f"b{i}(window={i + 1})" for i in range(9))
        run("model", "llama", "--preset=llama-tiny", "--layers=9", f"--blocks={blocks}", "--out=nine.textproto", cwd=self.dir)
        for flags in [], ["--largest"]:
            error = run("search", "--graph=nine.textproto", "--devices=2", "--batch=4", "--cluster=h100", *flags, cwd=self.dir, code=2)[1]
            self.assertIn("nine.textproto: has blocks of 9 classes: a search measures short models of each, of at most 8", error)

    def test_explain_has_a_row_for_each_class(self):
        text = self.explain()
        self.assertIn("blocks: 2*(2*a b)\n", text)
        self.assertRegex(text, r"\n    a +4 +[\d,]+ +[\d.]+ KiB +[\d.e-]+ +[\d.]+ [mu]?s\n    b +2 +")
        plain = run("explain", "--graph=plain.textproto", *PLAN, cwd=self.dir)[0]
        self.assertNotIn("blocks: ", plain)

    def test_numbers_of_classes(self):
        def classes(*flags):
            found = json.loads(self.explain("--format=json", *flags))["block_classes"]
            self.assertEqual(found["pattern"], "2*(2*a b)")
            return found["classes"]

        a, b = classes()
        self.assertEqual([a["name"], a["blocks"], b["name"], b["blocks"]], ["a", 4, "b", 2])
        self.assertEqual(a["parameters"], b["parameters"])
        self.assertEqual(a["kept_bytes"], b["kept_bytes"])
        self.assertGreater(a["flops"], b["flops"])  # a window spares products
        self.assertGreater(b["seconds"], 0)
        with_full = classes("--recompute=full@b")
        self.assertEqual(with_full[0], a)
        self.assertLess(with_full[1]["kept_bytes"], b["kept_bytes"])
        self.assertGreater(with_full[1]["flops"], b["flops"])


if __name__ == "__main__":
    unittest.main()
