"""The loop of jobs on a real Slurm of four nodes, with trainer.py instead of `oneflow train`."""
import os
import signal

from tests.e2e.cli import run
from tests.slurm import cluster
from tests.slurm.slurm_case import StandInCase
from tests.slurm.waiting import wait_for


class SlurmLoopTest(StandInCase):
    def test_submit_watch_and_cancel(self):
        first, second = self.submit_and_wait("--max_jobs=2")
        self.find_node(1, 1)
        status = self.status()
        self.assertEqual(status["state"], "running")
        self.assertEqual([(job["id"], job["state"], job["nodes"]) for job in status["jobs"]],
                         [(first, "RUNNING", 2), (second, "PENDING", 2)])
        self.assertEqual(status["training"], {"attempt": 1, "step": 7})
        self.assertEqual(status["checkpoint"], "step-00000005")
        logs = self.oneflow("logs")
        self.assertIn(f"== loop of job {first} (job/logs/slurm-{first}.log)\noneflow: attempt 1", logs)
        self.assertRegex(logs, r"== process 1 \(job/logs/attempt-1/process-1.log\)\nprocess 1 on n\d\n")
        error = self.submit(code=2)
        self.assertIn(f"belongs to Slurm's job {first}, which is RUNNING; give another directory", error)
        self.assertEqual(self.oneflow("cancel"), f"cancelled: {first} {second}\n")
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["checkpoint"]), ("cancelled", "step-00000007"))
        # A cancelled job continues when it is submitted again.
        self.wait_until_gone()
        self.submit()
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertEqual(self.losses(), self.undisturbed())

    def test_the_script_is_submitted_a_second_time(self):
        first, = self.submit_and_wait()
        second = self.slurm.run("sbatch", "--parsable", self.job + "/job.sh").strip()
        wait_for("the second job's end", lambda: self.slurm.jobs()[second] == "FAILED")
        self.assertEqual(self.read(f"logs/slurm-{second}.log"), f"oneflow: {self.job} belongs to job {first}, which runs\n")
        self.let_go()
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertEqual(self.attempts(), [(first, "none")])

    def test_cancel_now(self):
        jobs = self.submit_and_wait("--max_jobs=3")
        self.oneflow("cancel", "--now")
        self.assertEqual(self.wait_until_over()["state"], "cancelled")
        wait_for("the jobs' ends", lambda: {self.slurm.jobs()[job] for job in jobs} == {"CANCELLED"})

    def test_a_killed_task_and_a_lost_node_in_the_same_job(self):
        job, = self.submit_and_wait("--spare_nodes=1", attempt_2={"wait": 13})
        self.find_node(1, 1)
        pid, = self.tasks(1)
        os.kill(pid, signal.SIGKILL)
        self.wait_for_log(2, "waits at step 13")
        lost = self.find_node(2, 1)
        self.slurm.set_down(lost)
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertNotEqual(self.find_node(3, 1), lost)
        # The first process was signalled each time, and left a checkpoint.
        self.assertEqual(self.attempts(), [(job, "none"), (job, "step-00000007"), (job, "step-00000013")])
        self.assertEqual(self.losses(), self.undisturbed())

    def test_the_node_of_the_script_is_lost(self):
        jobs = self.submit_and_wait("--spare_nodes=1", "--max_jobs=4")
        self.slurm.set_down(self.node_of_script(jobs[0]))
        status = self.wait_until_over()
        self.assertEqual(status["state"], "done")
        self.assertEqual([job for job, _ in self.attempts()], jobs[:2])
        self.assertEqual(self.losses(), self.undisturbed())
        states = wait_for("the jobs' ends", lambda: not {"PENDING", "RUNNING", "COMPLETING"} & set((s := self.slurm.jobs()).values()) and s)
        self.assertEqual([states[job] for job in jobs[1:]], ["COMPLETED", "CANCELLED", "CANCELLED"])

    def test_too_few_nodes_are_left_and_the_successor_gets_new_ones(self):
        jobs = self.submit_and_wait("--max_jobs=2")
        self.slurm.set_down(self.find_node(1, 1))
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertEqual([job for job, _ in self.attempts()], jobs)
        self.assertIn("oneflow: 1 of 2 nodes are left\n", self.read(f"logs/slurm-{jobs[0]}.log"))
        self.assertEqual(self.losses(), self.undisturbed())

    def test_code_2_ends_the_job_and_those_behind_it(self):
        self.behave(attempt_1={"fail": 7, "code": 2})
        jobs = self.submit("--max_jobs=3")
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["attempt"]), ("failed", 1))
        wait_for("the jobs' ends", lambda: [self.slurm.jobs()[job] for job in jobs] == ["FAILED", "CANCELLED", "CANCELLED"])

    def test_what_slurm_refuses(self):
        for words, flag in [("--nodes=2 --spare_nodes=3: Slurm has 4 nodes, not 5", "--spare_nodes=3"),
                            ("invalid partition specified: some", "--partition=some"),
                            ("Requested time limit is invalid", "--time=100-0"),
                            ("Invalid --time specification", "--time=2h"),
                            ("unrecognized option '--account mine'", "--sbatch_option=--account mine")]:
            self.assertIn(words, self.submit(flag, code=2))
        self.assertEqual(self.slurm.run("squeue", "--noheader"), "")

    def test_sbatch_reads_back_every_byte(self):
        comment = "it's \"50%\" \\ of $HOME; `x` # é\\\\'\\ "
        job, = self.submit("--sbatch_option=--hold", "--sbatch_option=--comment=" + comment, "--sbatch_option=--output=x")
        self.assertEqual(self.slurm.run("squeue", "--noheader", "--jobs=" + job, "--format=%k"), comment + "\n")
        self.assertEqual(self.oneflow("cancel"), f"cancelled: {job}\n")
        self.assertEqual(self.status()["state"], "cancelled")

    def test_processes_that_need_more_memory_than_a_node_has(self):
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=4096", "--sequence=8", "--vocab=256", "--out=big.textproto",
            cwd=self.dir)
        error = run("submit", "--engine=slurm", "--job_dir=job", "--graph=big.textproto", "--mesh=data=2", "--batch=2",
                    "--data=../text.txt", "--nodes=1", cwd=self.dir, code=2)[1]
        self.assertRegex(error, r"Slurm has 0 nodes, not 1, with the \d+ MiB that a node's processes need for arenas; its "
                                r"largest has 2000 MiB")
        self.assertEqual(os.listdir(self.job), [])


class ControllerTest(StandInCase):
    def test_the_controller_is_restarted_during_a_job(self):
        job, = self.submit_and_wait(attempt_1={"wait": 7, "fail": 8, "code": 1})
        self.slurm.stop_controller()
        try:
            text = self.oneflow("status")
            self.assertRegex(text, r"\Astate +unknown\nslurm +does not answer; the rest is what the directory tells: `squeue .*")
            self.assertRegex(text, r"(?m)^last_status +20\d\d-.*\ntraining\n  attempt +1\n  step +7$")
            self.let_go()
            wait_for("the end of attempt 1", lambda: os.path.exists(self.job + "/outcome.json"))
        finally:
            self.slurm.start_controller()
        status = self.wait_until_over(100)
        self.assertEqual(status["state"], "done", self.all_logs())
        self.assertEqual(set(self.attempts()), {(job, "none"), (job, "step-00000005")})
        self.assertEqual(self.losses(), self.undisturbed())


if __name__ == "__main__":
    cluster.main(__name__)
