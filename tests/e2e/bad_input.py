"""Shared by tests of bad input: a folder with a small model, its plan, data and checkpoint, and refusals.

A case is a command and the words its error must hold. Nothing a user writes may abort the process.
"""
import os
import shutil

from tests.e2e.cli import FolderCase, run

SMALL = ["--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256"]


class BadInputCase(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", *SMALL, "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--batch=4", "--out=gpt.plan", cwd=cls.dir)
        cls.write("text.txt", "some words to learn from. " * 50)
        run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=1", "--checkpoint_dir=ckpt", cwd=cls.dir)

    def refuse(self, words, *args):
        error = run(*args, cwd=self.dir, code=2)[1]
        self.assertIn("oneflow: error: ", error)
        for word in words:
            self.assertIn(word, error)
        return error

    def compile(self, words, *flags):
        return self.refuse(words, "compile", "--graph=gpt.textproto", "--out=x.plan", *flags)

    def train(self, words, *flags):
        return self.refuse(words, "train", "--plan=gpt.plan", "--steps=1", *flags)

    def checkpoint(self, change):
        """A copy of the checkpoint, changed by `change(folder of the step)`."""
        copy = self.dir + "/copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.dir + "/ckpt", copy)
        step = [d for d in os.listdir(copy) if d.startswith("step-")][0]
        change(os.path.join(copy, step))
        return "copy"

    def largest_slice(self, folder):
        files = [os.path.join(folder, f) for f in os.listdir(folder)]
        return max((f for f in files if not f.endswith((".json", ".textproto"))), key=os.path.getsize)
