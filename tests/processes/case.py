"""A test case with small plans, jobs of real processes, and networks of hosts; several scenarios run at one time."""
import os
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.cli import read_metrics, run
from tests.processes.hosts import Network
from tests.processes.job import Job, contents, make_model

HERE = os.uname().nodename
BROKE = "its connection broke: it was killed, or exited without a word"


class ProcessesCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = folder.name
        make_model(cls.root)
        for name, flags in {"2": ["--mesh=data=2"], "4": ["--mesh=pipe=2,data=2", "--micro_batches=2"],
                            "8": ["--mesh=pipe=2,data=2,tensor=2", "--micro_batches=2"],
                            "other": ["--mesh=tensor=2"]}.items():
            run("compile", "--graph=gpt.textproto", "--batch=16", *flags, f"--out={name}.plan", cwd=cls.root)

    def job(self, name, processes, network=None, **options):
        job = Job(f"{self.root}/{name}", f"{self.root}/{processes}.plan", processes,
                  network.hosts.values() if network else (), **options)
        self.addCleanup(job.kill)
        return job

    def network(self, number, names="ab"):
        network = Network(number, names)
        self.addCleanup(network.__exit__)
        return network

    def at_once(self, *scenarios):
        """Calls functions with their arguments, all at one time."""
        with ThreadPoolExecutor(len(scenarios)) as pool:
            done = [(f"{function.__name__} {arguments}", pool.submit(function, *arguments))
                    for function, *arguments in scenarios]
        for name, end in done:
            with self.subTest(name):
                end.result()

    def check_told(self, job, indices, sentence, code=1):
        """Each of these processes has printed one sentence, the same, which matches; returns it."""
        told = [job.sentences(i) for i in indices]
        self.assertEqual([job.processes[i].returncode for i in indices], [code] * len(indices), job.errors())
        self.assertEqual(told, [told[0]] * len(indices), job.errors())
        self.assertEqual(len(told[0]), 1, job.errors())
        self.assertRegex(told[0][0], sentence)
        return told[0][0]

    def check_outcome(self, job, host, rank, sentences, code=1):
        outcome = job.outcome()
        self.assertEqual((outcome["attempt"], outcome["code"], outcome["host"], outcome["rank"]), (1, code, host, rank),
                         outcome)
        self.assertIn(outcome["sentence"], sentences)
        # Steps of a millisecond: some that were reported when the loss was seen may not be lines yet, or lines that were not reported.
        self.assertLessEqual(abs(outcome["step"] - job.steps_done()), 3)

    def check_resumed(self, job):
        """The remaining files are the beginning of an undisturbed run, bit by bit."""
        step = job.checkpoints()[-1]
        steps, step_dir = step + 5, f"step-{step + 5:08d}"
        whole = Job(job.dir + "/whole", job.plan, 1, steps=steps)
        for directory, flags in [(job.dir, ["--resume=true"]), (whole.dir, [])]:
            whole.every, whole.checkpoint_dir = steps, job.checkpoint_dir
            run(*whole.arguments(*flags), cwd=directory)
        self.assertEqual([(row["step"], row["loss"]) for row in read_metrics(job.dir + "/metrics.jsonl")],
                         [(row["step"], row["loss"]) for row in read_metrics(whole.dir + "/metrics.jsonl")], job.dir)
        self.assertEqual(contents(f"{job.dir}/{job.checkpoint_dir}/{step_dir}"), contents(f"{whole.dir}/{job.checkpoint_dir}/{step_dir}"))
