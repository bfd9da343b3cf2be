"""A folder of a job, and its checkpoint, as written at commit 2c508087: they load, and go on with the same bits."""
import shutil
import tarfile
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run
from tests.slurm.waiting import wait_for

# Steps 4 to 7, as that commit went on from the checkpoint of step 4.
LOSSES = [5.100987434387207, 4.999199867248535, 4.928323745727539, 4.899034023284912]
# Where nothing is said of how it was trained, it is as it was.
GO_ON = ["--mesh=pipe=2,data=2", "--data=text.txt", "--steps=8", "--seed=7", "--instruction_set=baseline"]
AS_TRAINED = ["--batch=8", "--micro_batches=2", "--precision=bf16", "--residual=f32", "--loss_pieces=2", "--lr_schedule=cosine", "--decay_steps=8",
              "--warmup_steps=2", "--clip=0.5", "--learning_rate=0.01"]


class OldJobTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with tarfile.open("tests/e2e/old_job.tgz") as archive:
            archive.extractall(cls.dir)

    def copy(self, name):
        shutil.copytree(self.dir + "/job", f"{self.dir}/{name}")
        return f"--job_dir={name}"

    def test_the_checkpoint_goes_on_with_the_same_bits(self):
        self.copy("resumed")
        _, told = run("train", *GO_ON, "--checkpoint_dir=resumed/checkpoints", "--resume", "--metrics=resumed/m", cwd=self.dir)
        self.assertIn("the run goes on from resumed/checkpoints/step-00000004", told)
        self.assertNotIn("was trained", told)
        self.assertEqual([line["loss"] for line in read_metrics(self.dir + "/resumed/m")], LOSSES)

    def test_what_differs_is_named(self):
        self.copy("other")
        _, told = run("train", *GO_ON, "--mesh=data=4", "--batch=4", "--clip=1", "--checkpoint_dir=other/checkpoints", "--resume",
                      cwd=self.dir)
        self.assertIn("step-00000004 was trained with other numbers: --mesh data=2, now data=4 (sums in another order); --batch 8, "
                      "now 4; --micro_batches 2, now 1 (sums in another order); --clip 0.5, now 1\n", told)

    def test_a_default_that_is_another_now_is_named(self):
        self.copy("default")
        said = [flag for flag in AS_TRAINED if not flag.startswith("--residual")]
        _, told = run("train", *GO_ON, *said, "--graph=job/graph.textproto", "--checkpoint_dir=default/checkpoints", "--resume", cwd=self.dir)
        self.assertIn("was trained with other numbers: --residual f32, now bf16\n", told)

    def test_the_job_goes_on(self):
        job = self.copy("again")
        self.assertIn("done", run("status", job, cwd=self.dir)[0])
        run("submit", "--engine=local", job, "--processes_per_node=2", "--graph=job/graph.textproto", "--checkpoint_every=4", *GO_ON,
            *AS_TRAINED, cwd=self.dir)
        wait_for("the end", lambda: "done" in run("status", job, cwd=self.dir)[0].split("state")[1].split("\n")[0], 120)
        self.assertEqual([line["loss"] for line in read_metrics(self.dir + "/again/metrics.jsonl")[4:]], LOSSES)


if __name__ == "__main__":
    unittest.main()
