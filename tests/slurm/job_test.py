"""The loop of a job on one host: attempts, their ends, status, logs, cancel. The trainer is trainer.py."""
import json
import os
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

from tests.e2e.cli import ONEFLOW, read_metrics, run
from tests.slurm.job_case import TRAINER, JobCase, make_plan
from tests.slurm.waiting import wait_for

STEPS = 20


class JobTest(JobCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name + "/größe 50% it's $HOME"
        self.job = self.dir + "/job"
        os.mkdir(self.dir)
        make_plan(self.dir, "data=4", 8)
        self.addCleanup(self.end_all)

    def end_all(self):
        if os.path.exists(self.job + "/job.json"):
            subprocess.run([ONEFLOW, "cancel", "--job_dir=" + self.job, "--now"], capture_output=True, check=False)
            self.wait_until_over()

    def submit(self, *flags, code=0, plan="--plan=gpt.plan"):
        return run("submit", "--engine=local", "--job_dir=job", plan, "--data=text.txt", f"--steps={STEPS}",
                   "--checkpoint_every=5", "--oneflow=" + TRAINER, *flags, cwd=self.dir, code=code)

    def check_metrics(self):
        """Losses are those of a run that was never disturbed."""
        losses = self.losses()
        self.assertEqual(len(losses), STEPS)
        other = self.dir + "/other"
        if not os.path.exists(other):
            run("submit", "--engine=local", "--job_dir=other", "--plan=gpt.plan", "--data=text.txt", f"--steps={STEPS}",
                "--oneflow=" + TRAINER, cwd=self.dir)
            wait_for("the other job", lambda: os.path.exists(other + "/final.json"))
        self.assertEqual(losses, [row["loss"] for row in read_metrics(other + "/metrics.jsonl")])

    def test_a_job_that_succeeds(self):
        # A launcher around it has not started its processes.
        outer = {"RANK": "3", "WORLD_SIZE": "8", "SLURM_STEP_NODELIST": "n1", "OMPI_COMM_WORLD_SIZE": "2"}
        with unittest.mock.patch.dict(os.environ, outer):
            out, _ = self.submit("--format=json")
        jobs = json.loads(out)["jobs"]
        status = self.wait_until_over()
        self.assertEqual(status["state"], "done")
        self.assertEqual(status["final"], {"state": "done", "code": 0, "why": "attempt 1"})
        self.assertEqual(status["outcome"]["code"], 0)
        self.assertEqual((status["attempt"], status["checkpoint"]), (1, f"step-{STEPS:08}"))
        self.assertEqual(self.read("jobs").split(), jobs)
        with open(self.job + "/job.plan", "rb") as copy, open(self.dir + "/gpt.plan", "rb") as plan:
            self.assertEqual(copy.read(), plan.read())
        text = self.oneflow("status")
        self.assertRegex(text, r"(?m)^state +done$")
        self.assertRegex(text, r"(?m)^checkpoint +step-00000020$")
        logs = self.oneflow("logs")
        self.assertIn("== loop (job/logs/local.log)\noneflow: attempt 1 goes on from checkpoint none\n", logs)
        self.assertIn("== process 0 (job/logs/attempt-1/process-0.log)\nprocess 0 on here\nattempt 1: done\n", logs)
        last = json.loads(self.oneflow("logs", "--process=0", "--lines=1", "--format=json"))
        self.assertEqual([log["text"] for log in last["logs"]], ["attempt 1: done\n"])
        # Observers take no lock and write nothing.
        os.remove(self.job + "/lock")
        self.assertEqual(self.oneflow("cancel"), "nothing runs or waits\n")
        self.assertEqual(self.status()["state"], "done")
        self.assertFalse(os.path.exists(self.job + "/lock"))

    def test_an_attempt_that_fails_is_followed_by_one_that_goes_on(self):
        self.behave(attempt_1={"fail": 7, "code": 1}, attempt_2={"die": 12})
        self.submit()
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertEqual([checkpoint for _, checkpoint in self.attempts()], ["none", "step-00000005", "step-00000010"])
        self.check_metrics()

    def test_code_2_is_final(self):
        self.behave(attempt_1={"fail": 7, "code": 2})
        self.submit()
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["final"]["code"], status["attempt"]), ("failed", 2, 1))
        self.assertEqual(status["outcome"]["sentence"], "as it was told to")

    def test_three_attempts_without_a_newer_checkpoint_end_it(self):
        self.behave(attempt_1={"die": 7}, attempt_2={"die": 7}, attempt_3={"die": 6}, attempt_4={"die": 8})
        self.submit()
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["attempt"]), ("failed", 4))
        self.assertIn("three attempts in a row wrote no newer checkpoint than step-00000005", status["final"]["why"])
        # Whoever submits again has mended what failed.
        self.submit()
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertEqual(self.status()["attempt"], 5)
        self.check_metrics()

    def test_restarts_have_a_bound(self):
        self.behave(attempt_1={"die": 6}, attempt_2={"die": 11}, attempt_3={"die": 16})
        self.submit("--max_restarts=1")
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["attempt"]), ("failed", 2))
        self.assertIn("1 restarts were not enough", status["final"]["why"])

    def test_cancel_leaves_a_checkpoint_from_which_another_submit_goes_on(self):
        self.submit_and_wait()
        status = self.status()
        self.assertEqual((status["state"], status["training"]), ("running", {"attempt": 1, "step": 7}))
        pid = int(status["jobs"][0]["id"])
        self.assertEqual(os.getsid(pid), pid)  # no terminal of ours ends it
        error = self.submit(code=2)[1]
        self.assertIn("belongs to a job that runs", error)
        self.assertIn("oneflow cancel", error)
        told = json.loads(self.oneflow("cancel", "--format=json"))
        self.assertEqual(told, {"cancelled": [str(pid)]})
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["checkpoint"]), ("cancelled", "step-00000007"))
        self.submit()
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.check_metrics()

    def test_cancel_now_leaves_no_process(self):
        self.submit_and_wait()
        group = int(self.status()["jobs"][0]["id"])
        self.oneflow("cancel", "--now")
        self.assertEqual(self.wait_until_over()["state"], "cancelled")
        self.assertEqual(self.list_processes(group), [])

    @staticmethod
    def list_processes(group):
        """Those that run: zombies aside."""
        lines = subprocess.run(["ps", "-eo", "pgid=,stat=,pid="], capture_output=True, text=True, check=True).stdout
        return [pid for pgid, state, pid in map(str.split, lines.splitlines()) if int(pgid) == group and state[0] != "Z"]

    def test_a_loop_that_is_killed_is_stopped_and_goes_on_when_submitted_again(self):
        self.submit_and_wait()
        group = int(self.status()["jobs"][0]["id"])
        os.kill(group, signal.SIGKILL)
        # The trainer lives on and holds the directory.
        self.assertEqual(self.status()["state"], "running")
        self.assertIn("belongs to a job that runs", self.submit(code=2)[1])
        os.killpg(group, signal.SIGKILL)
        self.assertEqual(self.wait_until_over()["state"], "stopped")
        self.submit()
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.check_metrics()

    def test_processes_of_a_loop_that_was_killed_are_cancelled(self):
        self.submit_and_wait()
        os.kill(int(self.status()["jobs"][0]["id"]), signal.SIGKILL)
        self.oneflow("cancel")
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["checkpoint"]), ("cancelled", "step-00000007"))

    def test_two_submits_at_once(self):
        self.behave(attempt_1={"wait": 7})
        started = [subprocess.Popen([ONEFLOW, "submit", "--engine=local", "--job_dir=job", "--plan=gpt.plan",
                                     "--data=text.txt", f"--steps={STEPS}", "--oneflow=" + TRAINER], cwd=self.dir,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        errors = [process.communicate()[1] for process in started]
        self.assertEqual(sorted(process.returncode for process in started), [0, 2, 2, 2], errors)
        self.assertEqual(sum("belongs to a job that runs" in error for error in errors), 3, errors)
        self.wait_for_log(1, "waits at step 7")
        self.assertEqual(len(self.attempts()), 1)

    def test_sigterm_at_the_loop_is_handed_on_and_is_no_cancellation(self):
        self.submit_and_wait()
        os.kill(int(self.status()["jobs"][0]["id"]), signal.SIGTERM)
        status = self.wait_until_over()
        self.assertEqual((status["state"], status["checkpoint"], status["attempt"]), ("stopped", "step-00000007", 1))

    def test_the_script_is_started_a_second_time(self):
        self.submit_and_wait()
        second = subprocess.run(["bash", self.job + "/job.sh"], capture_output=True, text=True, check=False)
        pid = self.status()["jobs"][0]["id"]
        self.assertEqual((second.returncode, second.stdout), (1, f"oneflow: {self.job} belongs to job {pid}, which runs\n"))
        self.assertEqual(len(self.attempts()), 1)
        # Whoever has the number of a loop that was killed is no loop.
        os.killpg(int(pid), signal.SIGKILL)
        self.wait_until_over()
        self.write("owner", f"{os.getpid()}\n")
        self.submit()
        self.assertEqual(self.wait_until_over()["state"], "done")

    def test_a_graph_is_compiled_and_kept(self):
        run("submit", "--engine=local", "--job_dir=job", "--graph=gpt.textproto", "--mesh=data=2", "--batch=4",
            "--data=text.txt", "--steps=2", "--oneflow=" + TRAINER, cwd=self.dir)
        self.assertEqual(self.wait_until_over()["state"], "done")
        self.assertIn("data=2", run("explain", "--plan=job/job.plan", cwd=self.dir)[0])
        self.assertEqual(self.read("graph.textproto"), self.read("../gpt.textproto"))

    def refuse(self, words, *flags, engine="local"):
        error = run("submit", "--engine=" + engine, "--job_dir=job", "--plan=gpt.plan", "--data=text.txt", "--steps=2",
                    *flags, cwd=self.dir, code=2)[1]
        for word in words:
            self.assertIn(word, error)
        self.assertFalse(os.path.exists(self.job))

    def test_refusals(self):
        self.refuse(["--data=", "absent.txt", "cannot be read"], "--data=text.txt,absent.txt")
        self.refuse(["--eval_data=", "cannot be read"], "--eval_data=absent.txt")
        self.refuse(["absent.plan"], "--plan=absent.plan")
        self.refuse(["--steps=-4", "use 1 to"], "--steps=-4")
        self.refuse(["--checkpoint_every=-1", "use 1 or more"], "--checkpoint_every=-1", engine="slurm")
        self.refuse(["--eval_every: acts only with --eval_data or --eval_fraction"], "--eval_every=1")
        self.refuse(["--job_dir=", "a\\b: has a backslash"], "--job_dir=a\\b")
        self.refuse(["--checkpoint_dir", "no such flag"], "--checkpoint_dir=ckpt")
        self.refuse(["--sbatch_option=--array=0-3", "makes several jobs of one"], "--sbatch_option=--array=0-3", engine="slurm")
        self.refuse(["--join_seconds=0", "out of range"], "--join_seconds=0")
        self.refuse(["--silence_seconds=nan", "out of range"], "--silence_seconds=nan")
        self.refuse(["--oneflow=/none", "no program that can be run"], "--oneflow=/none")
        self.refuse(["--oneflow=nonesuch", "no program that can be run"], "--oneflow=nonesuch")
        for flag in ("--partition=p", "--time=5", "--sbatch_option=--account=a", "--max_jobs=2", "--image=i", "--volume_claim=v"):
            self.refuse([flag.split("=")[0] + ": acts on nothing with --engine=local"], flag)
        self.refuse(["--engine=pbs", "slurm, local or kubernetes"], engine="pbs")
        self.refuse(["--image", "is missing"], engine="kubernetes")
        for verb in ["status", "logs", "cancel"]:
            self.assertIn("is no job's directory", self.oneflow(verb, code=2))
            self.assertIn("--job_dir: is missing", run(verb, cwd=self.dir, code=2)[1])

    def test_a_plan_for_gpus(self):
        run("compile", "--graph=gpt.textproto", "--mesh=data=4", "--batch=8", "--device=cuda", "--out=gpu.plan", cwd=self.dir)
        for engine in ["slurm", "local"]:
            self.refuse(["--plan=gpu.plan: is for GPUs, and this oneflow was built without CUDA"], "--plan=gpu.plan", engine=engine)
        script = run("submit", "--engine=slurm", "--nodes=2", "--interface=ib0", "--oneflow=/opt/oneflow", "--job_dir=job",
                     "--plan=gpu.plan", "--data=text.txt", "--dry-run", cwd=self.dir)[0]
        self.assertIn("\n#SBATCH --gres=gpu:2\n", script)
        # Nobody restarts what was built without CUDA.
        self.assertIn("built without CUDA", run("train", "--plan=gpu.plan", "--data=text.txt", cwd=self.dir, code=2)[1])

    def test_logs_that_there_are_not(self):
        self.submit("--processes_per_node=2")
        self.wait_until_over()
        for flag, sentence in [("--process=7", "has no log of process 7 of attempt 1"),
                               ("--attempt=2", "--attempt=2: there is no such attempt; the newest is 1"),
                               ("--attempt=-1", "--attempt=-1: is out of range; use 1 or more"),
                               ("--lines=-1", "--lines: must not be negative"), ("--process=-2", "--process=-2: is out of range")]:
            self.assertIn(sentence, self.oneflow("logs", flag, code=2))
        os.remove(self.job + "/attempts")
        os.remove(self.job + "/logs/local.log")
        self.assertIn("no attempt has begun", self.oneflow("logs", code=2))

    def test_jobs_are_damaged_while_one_runs(self):
        self.submit_and_wait()
        jobs = self.read("jobs")
        self.write("jobs", "x\n")
        for verb in ["status", "cancel"]:
            self.assertRegex(self.oneflow(verb, code=1),
                             "job/jobs: names no process, but one holds job/lock; ")
        self.write("jobs", jobs)

    def test_jobs_that_are_not_here(self):
        self.submit_and_wait()
        record = json.loads(self.read("job.json"))
        for change, sentence in [({"host": "elsewhere"}, "oneflow cancel: the job runs on host elsewhere; call it there"),
                                 ({"engine": "kubernetes"}, "is a job of Kubernetes, which is not asked; use kubectl delete")]:
            self.write("job.json", json.dumps(dict(record, **change)))
            self.assertIn(sentence, self.oneflow("cancel", code=2))
        self.write("job.json", json.dumps(record))
        for words, sentence in [(["--engine=local", "--job_dir=new"], "--data: is missing; "),
                                (["--job_dir=new", "--data=text.txt"], "--engine: is missing; "),
                                (["--engine=local", "--data=text.txt"], "--job_dir: is missing; "),
                                (["--engine=local", "--data=text.txt", "--job_dir=text.txt"], "text.txt/lock: cannot be created: "),
                                (["--engine=local", "--data=text.txt", "--job_dir=text.txt/job"], "text.txt/job: cannot be ")]:
            self.assertIn(sentence, run("submit", "--plan=gpt.plan", *words, cwd=self.dir, code=2)[1])

    def test_half_of_the_keys(self):
        os.makedirs(self.job + "/keys")
        error = self.submit(code=2)[1]
        self.assertIn("job/keys/ca.pem: cannot be read: No such file or directory; make new keys for the job, ", error)
        self.assertFalse(os.path.exists(self.job + "/job.json"))

    def test_a_dry_run_writes_nothing(self):
        for engine in ["local", "slurm"]:
            out, _ = run("submit", "--engine=" + engine, "--job-dir=job", "--plan=gpt.plan", "--data=text.txt", "--steps=2",
                         "--dry-run", cwd=self.dir)
            self.assertTrue(out.startswith("#!/bin/bash\n"))
        self.assertFalse(os.path.exists(self.job))

    def test_a_machine_without_slurm(self):
        done = subprocess.run([ONEFLOW, "submit", "--engine=slurm", "--job_dir=job", "--plan=gpt.plan", "--data=text.txt"],
                              cwd=self.dir, env=dict(os.environ, PATH="/nonexistent"), capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--engine=slurm: sinfo: cannot be run", done.stderr)

    def test_status_shows_who_is_slow(self):
        self.submit()
        self.wait_until_over()
        waits = {f"rank {r}": {"gradients, ranks 0 to 39": 4.25, "tensor, ranks 0 and 1": 1.5} for r in range(40)}
        waits["rank 7"]["gradients, ranks 0 to 39"] = 0.125
        training = {"attempt": 1, "step": 9, "loss": 2.5, "tokens_per_second": 100, "wait_ms": waits,
                    "standstill": "rank 7 on host c is inside the kernel of h.3.fc since 41 s; 39 ranks wait for it"}
        self.write("status.json", json.dumps(training))
        self.assertEqual(self.status()["training"], training)
        text = self.oneflow("status")
        self.assertRegex(text, r"(?m)^  waits least +rank 7: 1\.6 ms a step$")
        self.assertRegex(text, r"(?m)^    rank 0 +5\.8 ms a step: gradients, ranks 0 to 39 4\.2; tensor, ranks 0 and 1 1\.5$")
        self.assertIn("--format=json has all 40 ranks", text)
        self.assertIn("39 ranks wait for it", text)
        for foreign in [3, [1], {"rank 0": 5}, {"rank 0": {"g": "x"}}]:
            self.write("status.json", json.dumps(dict(training, wait_ms=foreign)))
            self.assertIn("39 ranks wait for it", self.oneflow("status"))
        self.write("status.json", json.dumps({"standstill": "a\x1b[2Jb\nc"}))
        self.assertIn("  standstill      a [2Jb c\n", self.oneflow("status"))

    def test_foreign_bytes_in_a_job_directory(self):
        self.submit()
        self.wait_until_over()
        for name, text in [("status.json", "[1]"), ("outcome.json", "{"), ("attempts", "x\n\xff\xfe 1\n9\n"),
                           ("jobs", "-5\n99999999999999999999\nx\n"), ("final.json", '{"state": 3}')]:
            with open(f"{self.job}/{name}", "w", encoding="latin-1") as file:
                file.write(text)
        self.assertEqual(self.status()["state"], "stopped")
        self.assertEqual(self.oneflow("cancel"), "nothing runs or waits\n")
        self.assertNotIn("training", self.status())
        # More levels than a printer's stack takes.
        for name in ["status.json", "outcome.json", "final.json"]:
            self.write(name, '{"a":' + "[" * 1_000_000 + "]" * 1_000_000 + "}")
        self.assertEqual(set(self.status()), {"job_dir", "engine", "state", "jobs", "checkpoint"})
        os.rename(self.job + "/job.json", self.job + "/kept.json")
        self.write("job.json", '{"engine": 5}')
        self.assertIn("job/job.json: --engine=: no such engine", self.oneflow("status", code=2))
        os.rename(self.job + "/kept.json", self.job + "/job.json")


if __name__ == "__main__":
    unittest.main()
