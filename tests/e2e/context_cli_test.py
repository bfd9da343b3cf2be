"""Positions split over devices, on the command line: what is refused, warned of and printed."""
import unittest

from tests.e2e.cli import FolderCase, run

LLAMA = ["--layers=1", "--heads=2", "--hidden=16", "--inner=16", "--sequence=16", "--vocab=256"]


class ContextCliTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model("llama", "llama", *LLAMA)

    @classmethod
    def model(cls, name, family, *flags):
        run("model", family, *flags, f"--out={name}.textproto", cwd=cls.dir)

    def compile(self, name, *flags, code=0):
        return run("compile", f"--graph={name}.textproto", "--batch=2", "--out=x.plan", *flags, cwd=self.dir, code=code)

    def test_what_cannot_be_split(self):
        gpt = ["--layers=1", "--heads=2", "--hidden=16", "--sequence=16", "--vocab=256"]
        self.model("moe", "llama", *LLAMA, "--experts=4")
        self.model("runs", "llama", *LLAMA, "--experts=4", "--routed_positions=4")
        self.model("unfused", "gpt", *gpt, "--attention=unfused")
        for words, name, mesh in [
                ("op h.0.mlp.route: queues tokens in runs of 16, which 2 parts of the sequence of 16 would cut; make it of "
                 "runs of 4 (`oneflow model llama --routed_positions=4`)", "moe", "context=2"),
                ("op h.0.mlp.route: queues tokens in runs of 4, which 4 parts of the sequence of 16 would cut; make it of "
                 "runs of 2", "runs", "context=4"),
                ("attends to all tokens before, and axes split their positions; use a graph with attention or "
                 "causal_attention (`oneflow model gpt --attention=fused`)", "unfused", "context=2"),
                ("leaves some of its 32 devices without an element", "llama", "context=32"),
        ]:
            with self.subTest(words):
                self.assertIn(words, self.compile(name, f"--mesh={mesh}", code=2)[1])
        self.compile("runs", "--mesh=context=2")
        words = "--context_pieces=0: is out of range; use 1 to 64"
        self.assertIn(words, self.compile("llama", "--mesh=context=2", "--context_pieces=0", code=2)[1])

    def test_what_acts_on_nothing(self):
        warning = self.compile("llama", "--mesh=data=2", "--context_pieces=2")[1]
        self.assertIn("--context_pieces=2 acts on nothing in this plan: the mesh has no axis context", warning)
        self.assertNotIn("warning", self.compile("llama", "--mesh=context=2", "--shard=states")[1])
        self.assertIn("did you mean context?", self.compile("llama", "--mesh=cp=2")[1])

    def test_dropout_keeps_tokens_in_order(self):
        self.model("dropout", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=16", "--vocab=256", "--dropout=0.1")
        self.compile("dropout", "--mesh=context=2")
        self.assertRegex(run("explain", "--plan=x.plan", cwd=self.dir)[0],
                         "positions: 2 parts in order, so that the last device computes most of causal attention: .* op embed.drop goes "
                         "by the order of tokens")
        self.compile("llama", "--mesh=context=2")
        self.assertNotIn("parts in order", run("explain", "--plan=x.plan", cwd=self.dir)[0])
        self.assertIn("tokens is S(1) on context: the default says so", run("explain", "--plan=x.plan", cwd=self.dir)[0])


if __name__ == "__main__":
    unittest.main()
