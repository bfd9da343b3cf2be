"""Joining of processes that a launcher has started: the facts that must be equal, and a plan that process 0 alone has."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from tests.e2e import cli
from tests.slurm.waiting import wait_for

MODEL = ["--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256"]
SECONDS = 60


class JoinTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here, self.there = folder.name + "/here", folder.name + "/there"  # of process 0, of process 1
        for path in (self.here, self.there):
            os.mkdir(path)
            with open(path + "/text.txt", "w") as text:
                text.write("".join(f"line {i}: the cat sat on mat {i % 7}.\n" for i in range(100)))
        cli.run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=self.here)
        self.compile(self.here, "--mesh=data=2")

    def compile(self, folder, *flags):
        cli.run("compile", "--graph=" + self.here + "/gpt.textproto", "--batch=4", *flags, "--out=gpt.plan", cwd=folder)

    def start(self, first=(), second=(), token="t", before=()):
        """Two processes of one run, each with its own flags and folder."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started = []
        for index, (folder, flags) in enumerate([(self.here, first), (self.there, second)]):
            words = ["train", "--plan=gpt.plan", "--data=text.txt", "--steps=3", "--processes=2",
                     f"--process_index={index}", f"--coordinator=127.0.0.1:{port}", *flags]
            command = [*before, cli.ONEFLOW, *cli.replaced(words)]
            started.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            text=True, errors="replace",
                                            env=dict(os.environ, GLOG_logtostderr="1", ONEFLOW_JOB_TOKEN=token,
                                                     HOME=self.here)))
            self.addCleanup(started[-1].kill)
        return started

    def train(self, first=(), second=(), code=0):
        """The same to their ends; [(stdout, stderr)]."""
        started = self.start(first, second)
        said = [process.communicate(timeout=SECONDS) for process in started]
        self.assertEqual([process.returncode for process in started], [code, code], said)
        return said

    def metrics(self, name):
        return [line["loss"] for line in cli.read_metrics(f"{self.here}/{name}")]

    def test_a_plan_that_process_0_alone_has(self):
        cli.run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=3", "--metrics=one.jsonl", cwd=self.here)
        self.train(["--metrics=two.jsonl"])
        self.assertEqual(self.metrics("two.jsonl"), self.metrics("one.jsonl"))
        self.assertEqual(os.listdir(self.there), ["text.txt"])
        # An error in one process alone ends both.
        for _, error in self.train(second=["--memory=1KiB"], code=2):
            self.assertEqual(error.count("oneflow: error: "), 1, error)
            self.assertRegex(error, r"\(process 1\): gpt\.plan: memory of stage 0: needs ")

    def test_a_launcher_that_gives_no_token(self):
        steps = ["--steps=1000000", f"--plan={self.here}/gpt.plan"]
        started = self.start(steps, steps, token="")
        self.assertTrue(any("step " in line for line in started[0].stdout))  # reads as far as the first step
        made = os.stat(self.here + "/.oneflow/" + os.listdir(self.here + "/.oneflow")[0])
        self.assertEqual(made.st_mode & 0o777, 0o600)
        # Another user, who has another home, says that a later attempt has begun.
        coordinator = next(word for word in started[1].args if word.startswith("--coordinator="))
        for token in ("", "guess"):
            _, error = self.stranger(coordinator, token)
            self.assertIn("refuses it; give all processes of the job the same token", error)
        self.assertEqual([process.poll() for process in started], [None, None])
        started[1].send_signal(signal.SIGTERM)
        for process in started:
            _, error = process.communicate(timeout=SECONDS)
            self.assertIn("interrupted", error)

    def test_data_that_is_truncated_meanwhile(self):
        shutil.copy(self.here + "/gpt.plan", self.there)
        started = self.start(["--steps=1000000"], ["--steps=1000000"])
        self.assertTrue(any("step " in line for line in started[0].stdout))  # reads as far as the first step
        os.truncate(self.there + "/text.txt", 100)
        for process in started:
            _, error = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 2, error)
            self.assertRegex(error, r"oneflow: error: host \S+ \(process 1, rank 1\): .*text\.txt: ends at byte \d+, and had \d+ "
                                    "when it was opened: it was truncated; make it again, and leave it alone while it is in "
                                    "use\n$")

    def test_strangers_who_say_nothing(self):
        shutil.copy(self.here + "/gpt.plan", self.there)
        flags = ["--steps=1000000", f"--checkpoint_dir={self.here}/ckpt", "--checkpoint_every=10", "--keep=1"]
        # The soft limit would not do for the processes themselves; the hard one, not for all strangers.
        before = ["bash", "-c", 'ulimit -S -n 16; ulimit -H -n 160; exec "$@"', "bash"]
        started = self.start(flags, flags, before=before)
        self.assertTrue(any("step " in line for line in started[0].stdout))  # reads as far as the first step
        coordinator = next(word for word in started[1].args if word.startswith("--coordinator="))
        address = ("127.0.0.1", int(coordinator.rpartition(":")[2]))
        for process in started:  # what they print must not make them wait
            threading.Thread(target=process.stdout.read, daemon=True).start()
        strangers = [socket.create_connection(address) for _ in range(400)]
        committed = self.checkpoint()
        wait_for("two more checkpoints", lambda: self.checkpoint() >= committed + 20, SECONDS)
        self.assertEqual([process.poll() for process in started], [None, None])
        self.assertLess(len(os.listdir(f"/proc/{started[0].pid}/fd")), 120)
        started[1].send_signal(signal.SIGTERM)
        for process in started:
            process.wait(timeout=SECONDS)
            self.assertIn("interrupted", process.stderr.read())
        for stranger in strangers:
            stranger.close()

    def checkpoint(self):
        """The step of the newest one."""
        steps = [name.removeprefix("step-") for name in os.listdir(self.here + "/ckpt") if name.startswith("step-")]
        return max((int(step) for step in steps if step.isdigit()), default=0)

    def stranger(self, coordinator, token):
        command = [cli.ONEFLOW, "train", f"--plan={self.here}/gpt.plan", "--data=text.txt", "--steps=1000000", "--processes=2",
                   "--process_index=1", coordinator]
        environment = dict(os.environ, HOME=self.there, ONEFLOW_JOB_TOKEN=token, ONEFLOW_ATTEMPT="7")
        done = subprocess.run(command, cwd=self.there, capture_output=True, text=True, env=environment, timeout=SECONDS,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stdout, done.stderr

    def launch(self, *flags, folder="", **variables):
        """One process, in process 0's folder, with variables of a launcher."""
        words = ["train", f"--plan={self.here}/gpt.plan", "--data=text.txt", "--steps=3", *flags]
        process = subprocess.Popen([cli.ONEFLOW, *cli.replaced(words)], cwd=folder or self.here, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   env=dict(os.environ, GLOG_logtostderr="1", HOME=self.here, **variables))
        self.addCleanup(process.kill)
        return process

    def check_ends(self, process, code, sentence=""):
        out, error = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, code, error)
        self.assertRegex(error, sentence)
        return out

    def test_another_job_at_the_address_changes_nothing(self):
        self.compile(self.there, "--mesh=tensor=2")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = probe.getsockname()
        endless = ["--steps=1000000", "--processes=2", f"--coordinator=127.0.0.1:{address[1]}", "--checkpoint_dir=a"]

        def strangers_end():
            others = [([], {"folder": self.there}, "folder .*/there/a, process 0 on host .* has .*/here/a"),
                      (["--checkpoint_dir=b"], {}, "folder .*/here/b, process 0 on host .* has .*/here/a"),
                      (["--seed=2"], {}, "--seed 2, process 0 on host .* has 1"),
                      ([f"--plan={self.there}/gpt.plan"], {}, "plan [0-9a-f]{32}, process 0 on host .* has [0-9a-f]{32}")]
            started = [(sentence, self.launch(*endless, "--process_index=1", "--join_seconds=5", *flags, ONEFLOW_ATTEMPT="1", **options))
                       for flags, options, sentence in others]
            for sentence, process in started:
                self.check_ends(process, 1, "another job is there: " + sentence)

        first = self.launch(*endless, "--process_index=0")
        wait_for("process 0", lambda: socket.socket().connect_ex(address) == 0, SECONDS)
        strangers_end()  # while it gathers
        second = self.launch(*endless, "--process_index=1")
        self.assertTrue(any("step " in line for line in first.stdout))  # reads as far as the first step
        threading.Thread(target=first.stdout.read, daemon=True).start()
        strangers_end()
        self.assertEqual([first.poll(), second.poll()], [None, None])
        # A later attempt of this very job ends it.
        self.launch(*endless, "--process_index=1", ONEFLOW_ATTEMPT="1")
        for process in (first, second):
            process.wait(SECONDS)
            self.assertIn("attempt 0 is over", process.stderr.read())

    def test_neighbours_of_torchrun(self):
        """Two jobs whose agents hold neighbouring ports, at one time; what they leave."""
        while True:
            one = socket.create_server(("127.0.0.1", 0))
            try:
                other = socket.create_server(("127.0.0.1", one.getsockname()[1] + 1))
                break
            except OSError:
                one.close()
        jobs = []
        with one, other:
            for agent in (one, other):
                variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agent.getsockname()[1]),
                             "TORCHELASTIC_RUN_ID": f"run-{agent.fileno()}"}
                jobs += [self.launch(RANK=str(rank), **variables) for rank in range(2)]
            self.assertEqual([len(self.check_ends(job, 0).splitlines()) > 3 for job in jobs], [True, False] * 2)
        self.assertEqual(os.listdir(self.here + "/.oneflow"), [])

    def test_launchers_around_it(self):
        alone = [{"WORLD_SIZE": "1", "RANK": "0"}, {"SLURM_STEP_NODELIST": "n1", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}]
        started = [self.launch("--processes=2", **variables) for variables in alone]
        for process in started:
            self.assertIn("step 3/3", self.check_ends(process, 0))
        mpi = [self.launch(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2") for rank in range(2)]
        for process in mpi:
            self.check_ends(process, 2, "--coordinator: is not given, and mpirun says none; give --coordinator=HOST:PORT")

    def test_processes_that_cannot_reach_each_other(self):
        shutil.copy(self.here + "/gpt.plan", self.there)
        os.environ["UCX_TLS"] = "self"  # which reaches no other process
        self.addCleanup(os.environ.pop, "UCX_TLS")
        for _, error in self.train(code=2):
            self.assertRegex(error, r"\(process \d, rank \d\): --interface, --trust_network: network device lo leads to no "
                             r"process \d; name a network ")

    def test_flags_that_do_not_fit_together(self):
        for flags, sentence in [
            (["--processes=-1"], "--processes=-1: is out of range; use 1 or more"),
            (["--processes=2", "--process_index=-5"], "--process_index=-5: is out of range; use 0 or more"),
            (["--process_index=0"], "--process_index: does not say of how many; give --processes, too"),
            (["--processes=2", "--process_index=2", "--coordinator=h:1"], "--process_index: 2 is not below --processes=2; "),
            (["--processes=2", "--process_index=1"], "--coordinator: is not given; give --coordinator=HOST:PORT "),
            (["--processes=2", "--coordinator=h:1"], "--coordinator: is given, but not which process this is; "),
            (["--processes=2", "--process_index=1", "--coordinator=127.0.0.1"], '--coordinator: "127.0.0.1" is no address; give '),
            (["--processes=2", "--process_index=1", "--coordinator=h:1"], "--interface: is not given, and the coordinator at h:1 "),
            (["--processes=3"], "2 devices cannot be divided evenly among so many processes; use a number that divides"),
            (["--processes=2", "--logical_devices"], "--logical_devices: shares GPUs among the ranks of one process alone; "),
            (["--job_dir=absent"], "--job_dir=absent: is no folder that can be written to; make it, "),
            (["--job_dir=text.txt", "--processes=2"], "--job_dir=text.txt: is no folder that can be written to; make it, "),
            (["--make_job_keys=absent/keys"], "absent/keys: cannot be created: No such file or directory; name a folder "),
            (["--make_job_keys=text.txt"], "text.txt/ca.pem: cannot be created: Not a directory; name a folder "),
            (["--make_job_keys="], "--make_job_keys=: is empty; "),
        ]:
            with self.subTest(flags):
                _, error = cli.run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=3", *flags, cwd=self.here, code=2)
                self.assertIn("oneflow: error: ", error)
                self.assertIn(sentence, error)
        self.assertEqual(sorted(os.listdir(self.here)), ["gpt.plan", "gpt.textproto", "text.txt"])

    def test_they_divide_the_cores_that_both_may_use(self):
        started = self.start(["--steps=1000000"], ["--steps=1000000"])
        self.assertTrue(any("step " in line for line in started[0].stdout))  # reads as far as the first step
        cores = os.sched_getaffinity(0)
        shares = [os.sched_getaffinity(process.pid) for process in started]
        started[1].send_signal(signal.SIGTERM)
        for process in started:
            process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 1)
        self.assertEqual(shares[0] | shares[1], cores)
        self.assertEqual(shares[0] & shares[1], set() if len(cores) > 1 else cores)

    def test_differences_are_named_on_both_sides(self):
        shutil.copy(self.here + "/gpt.plan", self.there)
        self.train()  # the same in a separate folder
        cases = [
            (["--steps=4"], [], "--steps 3, process 0 on host {} has 4"),
            ([], ["--seed=2"], "--seed 2, process 0 on host {} has 1"),
            (["--checkpoint_dir=ckpt"], [], "--checkpoint_dir none, process 0 on host {} has ckpt"),
            ([], ["--clip=0"], "--clip 0, process 0 on host {} has none"),
            ([], ["--instruction_set=baseline"], "for all) baseline, process 0 on host {} has avx"),
        ]
        with open(self.there + "/other.txt", "w") as other:
            other.write("x" * 1000)
        cases.append(([], ["--data=other.txt"], "--data 1 file, 1000 bytes, "))
        cases.append(([], ["--data=text.txt,other.txt"], "--data 2 files, "))
        for first, second, sentence in cases:
            with self.subTest(sentence):
                for _, error in self.train(first, second, code=2):
                    # Once on each side, and nothing else.
                    self.assertEqual(error.count("oneflow: error: "), 1, error)
                    self.assertIn("(process 1, rank 1): ", error)
                    self.assertIn(sentence.format(socket.gethostname()), error)
        # Lowered for both, nothing differs.
        self.train(["--instruction_set=baseline"], ["--instruction_set=baseline"])

        self.compile(self.there, "--mesh=tensor=2")
        for _, error in self.train(code=2):
            self.assertRegex(error, r"\(process 1, rank 1\): plan [0-9a-f]{32}, process 0 on host .* has [0-9a-f]{32}; ")


if __name__ == "__main__":
    unittest.main()
