"""The files that `submit` writes: scripts that shellcheck passes, the loop with a simulated Slurm, commands of pods."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from tests.e2e.cli import run
from tests.slurm.job_case import TRAINER, JobCase, make_plan, write_commands


def missing():
    if shutil.which("shellcheck") is None:
        return "not installed: shellcheck (tools/install_deps cluster)"
    try:
        import yaml  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        return "not installed: python3-yaml (tools/install_deps cluster)"
    return ""


class ScriptTest(JobCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name + "/größe 50% it's $HOME"
        self.job = self.dir + "/job"
        os.mkdir(self.dir)
        make_plan(self.dir, "data=4", 8)

    def submit(self, engine, *flags, code=0):
        return self.oneflow("submit", "--engine=" + engine, "--plan=gpt.plan", "--data=text.txt", "--steps=4",
                            "--checkpoint_every=2", *flags, code=code)

    def test_shellcheck(self):
        for engine in ["slurm", "local"]:
            script = self.submit(engine, "--dry_run").replace("$HOME", "")  # of the folder's name: quoted on purpose
            done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""))

    # The script beside a Slurm that is played: its commands are shell functions in the folder bin.

    def play(self, squeue="echo 3 N/A", srun="exit 0", final="", cancel=False, owner="", patience=1800, environment=None,
             commands=None):
        """Runs the script of a job of two nodes as Slurm's job 12, with 13 behind it. Returns (exit code, output)."""
        script = self.submit("slurm", "--nodes=2", "--oneflow=/opt/oneflow", "--trust_network=10.0.0.0/8", "--dry-run")
        script = script.replace("\npatience=1800\n", f"\npatience={patience}\n")
        shutil.rmtree(self.job, ignore_errors=True)
        os.makedirs(self.job + "/logs")
        self.write_commands(**{"squeue": squeue, "srun": srun, "scancel": 'echo scancel "$@" >>$job/scancelled',
                               "sleep": "echo >>$job/slept", **(commands or {})})
        for name, text in [("job.sh", script), ("attempts", "- submitted now\n"), ("jobs", "11\n12\n13\n"), ("scancelled", ""),
                           *([("final.json", final)] if final else []), *([("cancel", "")] if cancel else []),
                           *([("owner", owner)] if owner else []), ("slept", "")]:
            self.write(name, text)
        done = subprocess.run(["bash", self.job + "/job.sh"], capture_output=True, text=True, check=False, env=dict(
            os.environ, PATH=f"{self.dir}/bin:{os.environ['PATH']}", SLURM_JOB_ID="12", SLURM_CPUS_ON_NODE="8",
            **(environment or {})))
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def write_commands(self, **scripts):
        """Programs in the folder bin, in which $job is the job's directory."""
        write_commands(self.dir + "/bin", **{name: f"job={shlex.quote(self.job)}\n" + text.replace("$job", '"$job"')
                                             for name, text in scripts.items()})

    OUTCOME = """echo '{"attempt":'"$ONEFLOW_ATTEMPT"',"code":%d,"sentence":"not \\"attempt\\":9,\\"code\\":0"}' >$job/outcome.json; """

    # All processes have met.
    JOIN = """echo '{"attempt":'"$ONEFLOW_ATTEMPT"'}' >$job/status.json; """

    def test_the_command_of_an_attempt(self):
        code, out = self.play(srun='printf "%s\\n" "$@" >$job/srun; pwd >$job/pwd; ' + self.OUTCOME % 0)
        self.assertEqual((code, out), (0, "oneflow: attempt 1 goes on from checkpoint none\noneflow: done: attempt 1\n"))
        self.assertEqual(self.read("pwd"), self.dir + "\n")  # in which it was submitted
        words = self.read("srun").split("\n")
        for word in ["--no-kill", "--kill-on-bad-exit=1", "--overlap", "--export=ALL", "--nodes=2", "--ntasks=2", "--cpus-per-task=8",
                     "--output=" + self.job.replace("%", "%%") + "/logs/attempt-1/process-%t.log", "/opt/oneflow", "--resume=auto"]:
            self.assertIn(word, words)
        self.assertEqual(self.read("scancelled"), "scancel --quiet --state=PENDING 13\n")

    def test_the_outcome_counts_and_not_what_srun_says(self):
        for srun, code, state in [(self.OUTCOME % 0 + "exit 143", 0, "done"), (self.OUTCOME % 2 + "exit 143", 2, "failed"),
                                  (self.OUTCOME % 2 + "exit 0", 2, "failed"), ("exit 2", 2, "failed"), ("exit 0", 0, "done")]:
            with self.subTest(srun):
                self.assertEqual(self.play(srun=srun)[0], code)
                self.assertIn(f'"state": "{state}"', self.read("final.json"))

    def test_the_outcome_of_an_older_attempt_does_not_count(self):
        code, out = self.play(srun=f'[[ -e $job/outcome.json ]] || {{ {self.OUTCOME % 0} sed -i s/:1,/:7,/ $job/outcome.json; }}; {self.JOIN} exit 143')
        self.assertEqual(code, 1)
        self.assertIn("attempt 1 ended early (exit code 143)", out)
        self.assertIn("three attempts in a row wrote no newer checkpoint than none", out)

    def test_a_job_whose_outcome_is_final_does_nothing(self):
        code, out = self.play(final='{"state": "failed"}', srun="touch $job/ran")
        self.assertEqual((code, out), (0, 'oneflow: nothing is left to do: {"state": "failed"}\n'))
        self.assertFalse(os.path.exists(self.job + "/ran"))

    def test_a_job_that_was_cancelled_begins_nothing(self):
        code, _ = self.play(cancel=True, srun="touch $job/ran")
        self.assertEqual(code, 1)
        self.assertIn('"state": "cancelled"', self.read("final.json"))
        self.assertFalse(os.path.exists(self.job + "/ran"))

    def test_a_process_that_begins_after_the_cancellation_ends(self):
        srun = 'while [[ $1 != bash ]]; do shift; done; touch $job/cancel; "$@"; code=$?; echo $code >$job/code; exit $code'
        self.play(srun=srun)
        self.assertEqual(self.read("code"), "1\n")
        self.assertIn('"state": "cancelled"', self.read("final.json"))

    def test_too_few_nodes_leave_it_to_the_successor(self):
        code, out = self.play(squeue="echo 1 N/A", srun="touch $job/ran")
        self.assertEqual((code, out), (1, "oneflow: 1 of 2 nodes are left\n"))
        self.assertFalse(os.path.exists(self.job + "/final.json"))

    def test_no_attempt_is_begun_when_the_time_is_over(self):
        soon = 'echo 3 "$(date --date="3 minutes" +%FT%T)"'
        code, out = self.play(squeue=soon, srun="exit 143")
        self.assertEqual(code, 1)
        self.assertEqual(out.count("goes on from checkpoint"), 1)  # the first is begun in any time
        self.assertIn("the job's time is over", out)
        self.assertFalse(os.path.exists(self.job + "/final.json"))
        late = 'echo 3 "$(date --date="5 minutes" +%FT%T)"'
        self.assertEqual(self.play(squeue=late, srun=self.JOIN + "exit 143")[1].count("goes on from checkpoint"), 3)

    # Runs `then` at the launch of this number and later; before, as if Slurm's controller were being restarted.
    def launch(self, number, then):
        return f"[[ $ONEFLOW_ATTEMPT -ge {number} ]] || exit 1; {then}"

    def test_launches_in_which_nobody_joins_are_no_fruitless_attempts(self):
        code, out = self.play(srun=self.launch(8, self.OUTCOME % 0))
        self.assertEqual(code, 0, out)
        pauses = [int(line.split()[-2]) for line in out.splitlines() if "no process has joined" in line]
        self.assertEqual(pauses, [2, 4, 8, 16, 32, 60, 60])
        self.assertEqual(self.read("slept").count("\n"), sum(pauses))
        self.assertEqual(self.read("attempts").count("- unjoined"), 7)

    def test_attempts_that_were_joined_count_whatever_lies_between(self):
        odd = "(( ONEFLOW_ATTEMPT % 2 == 0 )) || exit 1; " + self.JOIN + "exit 1"
        code, out = self.play(srun=odd)
        self.assertEqual(code, 1)
        self.assertIn("three attempts in a row wrote no newer checkpoint than none", out)
        self.assertEqual(out.count("goes on from checkpoint"), 6)
        self.assertEqual(out.count("the next launch is in 2 s"), 3)  # each time anew

    def test_a_job_in_which_nobody_ever_joins_leaves_its_nodes(self):
        code, out = self.play(srun="exit 1", patience=0)
        self.assertEqual(code, 1)
        self.assertTrue(out.endswith("oneflow: no process has joined for 0 s\n"), out)
        self.assertFalse(os.path.exists(self.job + "/final.json"))

    def test_a_job_waits_for_its_controller(self):
        code, out = self.play(squeue="exit 1", srun=self.launch(9, self.OUTCOME % 0), patience=0)
        self.assertEqual(code, 0, out)

    def test_a_job_that_its_controller_has_forgotten_leaves(self):
        code, out = self.play(squeue="echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", srun="exit 1")
        self.assertEqual(code, 1)
        self.assertTrue(out.endswith("oneflow: Slurm has forgotten this job\n"), out)
        self.assertFalse(os.path.exists(self.job + "/final.json"))

    def test_the_directory_is_one_jobs_at_a_time(self):
        def squeue(answer):
            return f"if [[ $* == *--jobs=9* ]]; then {answer}; else echo 3 N/A; fi"
        code, out = self.play(owner="9\n", squeue=squeue("echo RUNNING"), srun="touch $job/ran")
        self.assertEqual((code, out), (1, f"oneflow: {self.job} belongs to job 9, which runs\n"))
        self.assertFalse(os.path.exists(self.job + "/ran"))
        gone = "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"
        late = "[[ $(wc -l <$job/slept) -ge 10 ]] || exit 1; echo NODE_FAIL"
        for answer, slept in [("echo NODE_FAIL", 0), ("echo PENDING", 0), ("echo COMPLETING", 0), (gone, 0), (late, 10)]:
            code, out = self.play(owner="9\n", squeue=squeue(answer), srun=self.OUTCOME % 0)
            self.assertEqual((code, self.read("owner")), (0, "12\n"), out)
            self.assertEqual(self.read("slept").count("\n"), slept)

    def ends_job(self, nodes, squeue="echo some", scontrol=""):
        """True if the task that watches the script's node n1 ends the job when Slurm says it has these nodes."""
        self.play(
            squeue=f"if [[ $* == *%N* ]]; then {squeue}; else echo 3 N/A; fi",
            # The task looks three times; the processes end when it has ended.
            srun='if [[ $* == *--relative=1* ]]; then while [[ $1 != bash ]]; do shift; done; "$@"; touch $job/watched; '
                 f"else until [[ -e $job/watched ]]; do /bin/sleep 0.02; done; {self.OUTCOME % 0} fi",
            environment={"SLURM_JOB_NUM_NODES": "3", "SLURMD_NODENAME": "n1"},
            commands={"scontrol": scontrol or f"[[ $* == 'show hostnames some' ]] && printf '%s\\n' {nodes}",
                      "sleep": "echo >>$job/looks; (($(wc -l <$job/looks) <= 3))"})
        self.assertEqual(self.read("looks").count("\n"), 4)
        return "scancel --quiet 12\n" in self.read("scancelled")

    def test_a_job_whose_script_is_lost_with_its_node_is_ended(self):
        self.assertFalse(self.ends_job("n1 n2 n3"))
        self.assertTrue(self.ends_job("n2 n3"))
        self.assertTrue(self.ends_job("n10 n2"))
        self.assertFalse(self.ends_job("n2", squeue="exit 1"))
        self.assertFalse(self.ends_job("n2", squeue="echo"))
        self.assertFalse(self.ends_job("n2", scontrol="exit 1"))

    def test_a_controller_that_does_not_answer_does_not_end_the_job(self):
        self.assertEqual(self.play(squeue="exit 1", srun=self.OUTCOME % 0)[0], 0)

    def test_a_script_that_is_told_to_stop_begins_no_other_attempt(self):
        code, out = self.play(srun="kill -TERM $PPID; exit 143")
        self.assertEqual(code, 1)
        self.assertTrue(out.endswith("oneflow: told to stop\n"), out)
        self.assertFalse(os.path.exists(self.job + "/final.json"))

    def with_commands(self, **scripts):
        """Slurm's commands are these; all nodes have room."""
        self.write_commands(**{"sinfo": "echo '4|64000'", "squeue": "", **scripts})
        return unittest.mock.patch.dict(os.environ, PATH=f"{self.dir}/bin:{os.environ['PATH']}")

    def test_what_sbatch_says_is_passed_on(self):
        os.mkdir(self.job)
        for name in ["final.json", "cancel", "jobs"]:
            self.write(name, "7\n")
        for sbatch, code, words in [("echo 'no such account' >&2; exit 255", 2, "255: no such account; correct the flag"),
                                    ("echo 'no such account'; exit 1", 2, "1: no such account; correct the flag"),
                                    ("exit 1", 2, "failed with exit code 1; correct the flag"),
                                    ("echo usage", 2, "` prints no answer: usage; correct the flag"), ("echo tested >&2", 2, "tested; correct the flag"),
                                    ("echo 'Unable to contact slurm controller' >&2; exit 1", 1, "1: Unable to contact slurm controller"),
                                    ("", 2, "` prints no answer; correct the flag"), ("kill -KILL $$", 1, "exit code 137"),
                                    ("[[ $* != *afternotok:12* ]] && echo 12", 2, "failed with exit code 1; correct")]:
            with self.subTest(sbatch), self.with_commands(sbatch=sbatch, scancel='echo "$@" >$job/scancelled'):
                self.assertIn("`sbatch --parsable ", error := self.submit("slurm", "--max_jobs=2", code=code))
                self.assertIn(words, error)
                # The end of the job before is not lost, and nothing of this one stays.
                self.assertEqual([self.read(name) for name in ["final.json", "cancel", "jobs"]], ["7\n"] * 3)
                self.assertEqual({"job.sh", "job.json", "job.plan", "attempts"} & set(os.listdir(self.job)), set())
        self.assertEqual(self.read("scancelled"), "12\n")

    def test_status_and_cancel_without_the_controller(self):
        with self.with_commands(sbatch="echo 12", squeue="echo 'no controller' >&2; exit 1"):
            self.submit("slurm")
            text = self.oneflow("status")
            self.assertRegex(text, r"\Astate +unknown\nslurm +does not answer; .*`squeue .*`? failed with exit code 1: no controller\n")
            self.assertNotIn("last_status", text)
            self.assertIn("Slurm does not answer: no further attempt begins; call again to end this one", self.oneflow("cancel", code=1))
            self.assertTrue(os.path.exists(self.job + "/cancel"))
            self.write("final.json", '{"state": "done"}')
            self.assertRegex(self.oneflow("status"), r"\Astate +done\n")

    def test_only_jobs_that_still_wait_keep_cancel_from_succeeding(self):
        # squeue's answers, one after the other, the last of them again and again; scancel fails over jobs that do not wait.
        for states, code in [(["RUNNING", "COMPLETED"], 0), (["COMPLETING"], 0), (["PENDING", "RUNNING"], 0),
                             (["PENDING", "PENDING", "PENDING", "COMPLETING"], 0), (["PENDING"], 1)]:
            squeue = f'echo >>$job/looks; states=({" ".join(states)}); i=$(wc -l <$job/looks); echo "12|${{states[i-1]:-{states[-1]}}}|1|n1"'
            shutil.rmtree(self.job, ignore_errors=True)
            with self.subTest(states), self.with_commands(sbatch="echo 12"):
                self.submit("slurm")
                self.write_commands(squeue=squeue, scancel='echo "$@" >>$job/scancelled; exit 1')
                told = self.oneflow("cancel", code=code)
                self.assertIn("cancelled: 12" if code == 0 else "`scancel --quiet --state=PENDING 12` failed with exit code 1", told)
                self.assertIn("--quiet --signal=TERM 12\n", self.read("scancelled"))

    # Kubernetes.

    def manifest(self, *flags):
        import yaml  # pylint: disable=import-outside-toplevel
        out = self.submit("kubernetes", "--image=example/oneflow:1", "--volume_claim=scratch",
                          "--trust_network=10.0.0.0/8", *flags)
        self.assertEqual(shlex.split(out), ["start", "it", "with:", "kubectl", "apply", "-f", self.job + "/jobset.yaml"])
        return yaml.safe_load(self.read("jobset.yaml"))

    def pod(self, manifest, index, restart=0):
        """The process of a pod: its command with the environment that Kubernetes gives it."""
        container = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
        environment = {"PATH": f"{self.dir}/bin:{os.environ['PATH']}", "JOB_COMPLETION_INDEX": str(index)}
        for variable in container["env"]:
            path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            if path:
                self.assertEqual(path, "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']")
            environment[variable["name"]] = str(restart) if path else variable["value"]

        def expand(word):  # $(NAME), and $$ for $
            return re.sub(r"\$\$|\$\((\w+)\)", lambda m: "$" if m[0] == "$$" else environment.get(m[1], m[0]), word)
        return subprocess.Popen([expand(word) for word in container["command"] + container["args"]], env=environment,
                                cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_the_commands_of_pods(self):
        self.write_commands(oneflow=f'[[ -e text.txt ]] && exec {sys.executable} {TRAINER} "$@" --process_index="$JOB_COMPLETION_INDEX"')
        manifest = self.manifest("--nodes=2", "--processes_per_node=2")
        spec = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]
        self.assertEqual((spec["completions"], spec["parallelism"], spec["completionMode"]), (4, 4, "Indexed"))
        pods = [self.pod(manifest, index) for index in range(4)]
        outputs = [pod.communicate(timeout=60)[0] for pod in pods]
        self.assertEqual([pod.returncode for pod in pods], [0] * 4, outputs)
        self.assertIn("attempt 1: done", outputs[0])
        self.assertEqual(len(self.losses()), 4)
        again = self.pod(manifest, 0, restart=3)
        self.assertIn("attempt 4: done", again.communicate(timeout=60)[0])
        # Attempts of a manifest that is written later have greater numbers.
        self.assertIn("attempt 5: done", self.pod(self.manifest(), 0).communicate(timeout=60)[0])

    def test_status_and_cancel_of_kubernetes(self):
        self.manifest()
        self.assertRegex(self.oneflow("status"), r"(?m)^state +unknown$")
        self.assertIn("kubectl delete -f", self.oneflow("cancel", code=2))

    def test_words_of_kubernetes_are_its_own_to_check(self):
        manifest = self.manifest("--image=A \"B\": #", "--volume_claim=V'\\")
        pod = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        self.assertEqual(pod["containers"][0]["image"], "A \"B\": #")
        self.assertEqual(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "V'\\")


if __name__ == "__main__":
    why = missing()
    if why:
        print("skipped:", why)
    else:
        unittest.main()
