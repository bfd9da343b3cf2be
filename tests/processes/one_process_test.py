"""`generate` and `run` stay in one process, whatever started them, and say so."""
import os
import subprocess
import tempfile
import unittest

from tests.e2e import cli

MODEL = ["--layers=1", "--heads=1", "--hidden=8", "--sequence=8", "--vocab=256"]


class OneProcessTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def start(self, *args, **environment):
        """(what it printed, what it said on stderr) of `oneflow args` with variables of a launcher."""
        done = subprocess.run([cli.ONEFLOW, *args], cwd=self.dir, capture_output=True, text=True, errors="replace",
                              env=dict(os.environ, GLOG_logtostderr="1", **environment), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_generate(self):
        with open(self.dir + "/text.txt", "w") as text:
            text.write("the cat sat on the mat. " * 20)
        cli.run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=self.dir)
        cli.run("train", "--graph=gpt.textproto", "--data=text.txt", "--steps=1", "--batch=2", "--checkpoint_dir=ckpt",
                cwd=self.dir)
        generate = ["generate", "--checkpoint=ckpt", "--prompt=the", "--tokens=4", "--seed=1"]
        alone, says = self.start(*generate)
        self.assertNotIn("one process", says)
        for flags, environment, line in [
            (["--processes=2"], {}, "generate runs in one process: --processes=2 starts no others"),
            ([], {"RANK": "0", "WORLD_SIZE": "2"}, "generate runs in one process: this one, of 2"),
        ]:
            text, says = self.start(*generate, *flags, **environment)
            self.assertEqual(text, alone)
            self.assertEqual([part for part in says.splitlines() if "one process" in part], ["oneflow: " + line])
        text, says = self.start(*generate, SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2", SLURM_STEP_NODELIST="n1",
                                SLURM_JOB_ID="1", SLURM_STEP_ID="0")
        self.assertEqual(text, "")
        self.assertEqual(says, "oneflow: generate runs in one process, process 0 of 2: this one, process 1, has nothing "
                               "to do\n")

    def test_run(self):
        cli.write_npy(self.dir + "/x.npy", [4, 5], [1] * 20)
        cli.write_npy(self.dir + "/w.npy", [5, 8], [1] * 40)
        graph = os.path.abspath("examples/matmul_data_parallel.textproto")
        _, says = self.start("run", "--graph=" + graph, "--feed=x=x.npy", "--feed=w=w.npy", "--fetch=out=out.npy",
                             "--processes=2")
        self.assertIn("oneflow: run runs in one process: --processes=2 starts no others\n", says)
        self.assertEqual(cli.read_npy(self.dir + "/out.npy"), ([4, 8], [5] * 32))


if __name__ == "__main__":
    unittest.main()
