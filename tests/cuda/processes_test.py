"""Plans of GPUs over processes, a GPU a rank, on the emulated GPU: NCCL's ids go through the coordinator, and its twin
meets in a folder."""
import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest

from tests.e2e import cli

cli.ONEFLOW = os.path.abspath("tools/oneflow/oneflow_emulated")
MODEL = ["--layers=2", "--heads=2", "--hidden=8", "--sequence=4", "--vocab=256"]
SECONDS = 60


def contents(folder):
    """{path: bytes} of a folder of checkpoints, but for the lock."""
    files = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name != "lock":
                path = os.path.join(where, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, folder)] = file.read()
    return files


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as file:
            file.write("to be or not to be, that is the question. " * 40)
        cli.run("model", "gpt", *MODEL, "--out=gpt.textproto", cwd=self.dir)

    def compile(self, *flags):
        cli.run("compile", "--graph=gpt.textproto", "--device=cuda", "--batch=4", *flags, "--out=gpt.plan", cwd=self.dir)

    def start(self, processes, *flags, meets=True):
        """`train` in so many processes; the first of them."""
        environment = dict(os.environ, GLOG_logtostderr="1")
        if meets and processes > 1:
            environment["ONEFLOW_EMULATED_NCCL"] = tempfile.mkdtemp(dir=self.dir)
        return subprocess.Popen([cli.ONEFLOW, "train", "--plan=gpt.plan", "--data=text.txt", f"--processes={processes}",
                                 *flags], cwd=self.dir, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, errors="replace")

    def train(self, processes, name, *flags, code=0):
        """(losses, bytes of checkpoints, what it said on stderr)."""
        started = self.start(processes, f"--metrics={name}.jsonl", f"--checkpoint_dir={name}", *flags)
        _, error = started.communicate(timeout=SECONDS)
        self.assertEqual(started.returncode, code, error)
        return ([line["loss"] for line in cli.read_metrics(f"{self.dir}/{name}.jsonl")], contents(f"{self.dir}/{name}"),
                error)

    def test_the_bits_of_one_process(self):
        for flags, processes in [(["--mesh=data=2"], 2), (["--mesh=pipe=2,data=2", "--micro_batches=2"], 2),
                                 (["--mesh=data=2,tensor=2"], 4)]:
            with self.subTest(flags=flags, processes=processes):
                self.compile(*flags)
                one = self.train(1, f"{flags[0]} one", "--steps=2")
                many = self.train(processes, f"{flags[0]} many", "--steps=2")
                self.assertEqual(len(one[0]), 2)
                self.assertEqual(one[:2], many[:2])
        # From many to one: each process has written its part, and reads what it needs.
        whole = self.train(1, "whole", "--steps=3")
        again = self.train(1, f"{flags[0]} many", "--steps=3", "--resume=true")
        self.assertEqual(whole[0], again[0])

    def test_a_signal_ends_all_after_the_same_step(self):
        self.compile("--mesh=pipe=2", "--micro_batches=2")
        started = self.start(2, "--steps=1000000", "--checkpoint_dir=ckpt")
        self.addCleanup(started.kill)
        self.assertTrue(any("step " in line for line in started.stdout))
        os.kill(started.pid, signal.SIGTERM)
        _, error = started.communicate(timeout=SECONDS)
        self.assertEqual(started.returncode, 1, error)
        step = int(re.search(r"the latest checkpoint is ckpt/step-0*(\d+)", error)[1])
        # Both have written their parts of it, and what goes on from there is what was not interrupted.
        again, _, _ = self.train(1, "ckpt", f"--steps={step + 1}", "--resume=true")
        whole, _, _ = self.train(1, "whole", f"--steps={step + 1}")
        self.assertEqual(again[-1], whole[-1])

    def test_what_is_refused(self):
        self.compile("--mesh=data=2")
        started = self.start(2, "--steps=1", "--logical_devices")
        _, error = started.communicate(timeout=SECONDS)
        self.assertEqual(started.returncode, 2)
        self.assertEqual(error.count("--logical_devices: shares GPUs among the ranks of one process alone"), 1, error)

    def test_a_process_that_is_killed_ends_all(self):
        self.compile("--mesh=data=2")
        started = self.start(2, "--steps=1000000", "--stall_seconds=0")
        self.addCleanup(started.kill)
        self.assertTrue(any("step " in line for line in started.stdout))  # reads as far as the first step
        with open(f"/proc/{started.pid}/task/{started.pid}/children", encoding="utf-8") as file:
            child, = map(int, file.read().split())
        os.kill(child, signal.SIGKILL)
        _, error = started.communicate(timeout=SECONDS)
        self.assertEqual(started.returncode, 1)
        # Its connection says so: nobody waits until it has not been heard of for long.
        broke = r"oneflow: error: .*process 1, rank 1\): its connection broke: it was killed"
        self.assertEqual(len(re.findall(broke, error)), 1, error)

    def test_a_process_that_others_wait_for_in_nccl_and_that_fails(self):
        # The first one waits in NCCL for ever: there is no folder to meet in. The second one has no plan, and no room
        # for the one that it gets.
        self.compile("--mesh=data=2")
        os.mkdir(self.dir + "/there")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started = []
        for index, (folder, flags) in enumerate([(self.dir, []), (self.dir + "/there", ["--memory=1KiB"])]):
            command = [cli.ONEFLOW, "train", "--plan=gpt.plan", f"--data={self.dir}/text.txt", "--steps=1",
                       "--processes=2", f"--process_index={index}", f"--coordinator=127.0.0.1:{port}", *flags]
            started.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                            text=True, errors="replace",
                                            env=dict(os.environ, GLOG_logtostderr="1", ONEFLOW_JOB_TOKEN="t")))
            self.addCleanup(started[-1].kill)
        errors = [process.communicate(timeout=SECONDS)[1] for process in started]
        self.assertEqual([process.returncode for process in started], [2, 2], errors)
        for error in errors:
            self.assertEqual(len(re.findall(r"oneflow: error: .*\(process 1\): gpt\.plan: memory of stage 0", error)), 1,
                             errors)


if __name__ == "__main__":
    unittest.main()
