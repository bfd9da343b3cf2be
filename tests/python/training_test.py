"""of.Trainer against `oneflow train`: the same losses, checkpoints and errors; what a loop may do between two steps."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

import oneflow_actors as of
from tests.e2e.cli import run

SMALL = {"layers": 2, "heads": 2, "hidden": 16, "sequence": 8, "vocab": 256}
RUN = {"data": "text.txt", "steps": 12, "seed": 3, "eval_fraction": 0.2, "eval_every": 4, "learning_rate": 0.01}


def flags(values):
    return [f"--{name}={value}" for name, value in values.items()]


class TrainingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        cls.dir = folder.name
        os.chdir(cls.dir)
        Path("text.txt").write_text("The cat sat on the mat, and the dog sat on the log. " * 60, encoding="utf-8")
        cls.plan = of.compile(of.models.gpt(**SMALL), of.Recipe(mesh="pipe=2,data=2", batch=8, micro_batches=2))
        cls.plan.save("gpt.plan")

    def train(self, name, **more):
        """The metrics of `oneflow train`."""
        run("train", "--plan=gpt.plan", *flags({**RUN, **more}), f"--metrics={name}.jsonl", cwd=self.dir)
        return [json.loads(line) for line in Path(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]

    def test_losses_are_those_of_the_command_line(self):
        metrics = self.train("all", checkpoint_dir="cli")
        with of.Trainer(self.plan, checkpoint_dir="python", metrics="python.jsonl", **RUN) as trainer:
            first = trainer.tensor("wte")
            steps = list(trainer)
            last = trainer.tensor("wte")
        self.assertEqual([s.loss for s in steps], [m["loss"] for m in metrics])
        self.assertEqual([s.grad_norm for s in steps], [m["grad_norm"] for m in metrics])
        self.assertEqual([s.eval_loss for s in steps], [m.get("eval_loss") for m in metrics])
        self.assertEqual([s.step for s in steps], list(range(12)))
        lines = Path("python.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line)["loss"] for line in lines], [s.loss for s in steps])
        ours, theirs = of.Checkpoint("python"), of.Checkpoint("cli")
        self.assertEqual((ours.step, list(ours)), (12, list(theirs)))
        for name, weights in theirs.tensors().items():
            np.testing.assert_array_equal(ours[name], weights)
        np.testing.assert_array_equal(ours["wte"], last)
        self.assertEqual(first.shape, (256, 16))
        self.assertTrue((first != last).any())

    def test_ends_and_goes_on(self):
        metrics = self.train("ends")
        losses, notices = [], []
        with of.Trainer(self.plan, checkpoint_dir="ends", on_notice=notices.append, **RUN) as trainer:
            for step in trainer:
                losses.append(step.loss)
                if step.step == 4:
                    weights = trainer.tensor("h.1.mlp.fc.weight")
                    break
        self.assertEqual((trainer.steps_done, of.Checkpoint("ends").step), (5, 5))
        np.testing.assert_array_equal(of.Checkpoint("ends")["h.1.mlp.fc.weight"], weights)
        self.assertTrue(any("the latest checkpoint is ends/" in notice for notice in notices), notices)
        with of.Trainer(self.plan, checkpoint_dir="ends", resume=True, on_notice=notices.append, **RUN) as trainer:
            self.assertEqual(trainer.steps_done, 5)
            losses += [step.loss for step in trainer]
        self.assertEqual(losses, [m["loss"] for m in metrics])

    def test_interrupt_ends_between_two_steps(self):
        steps = []
        with self.assertRaises(KeyboardInterrupt):
            with of.Trainer(self.plan, checkpoint_dir="interrupted", on_notice=lambda _: None, **RUN) as trainer:
                for step in trainer:
                    steps.append(step)
                    if step.step == 2:
                        os.kill(os.getpid(), signal.SIGINT)
        self.assertLess(len(steps), 12)
        self.assertEqual(of.Checkpoint("interrupted").step, len(steps))

    def test_one_that_is_closed(self):
        trainer = of.Trainer(self.plan, **RUN)
        trainer.close()
        self.assertEqual((list(trainer), trainer.steps_done), ([], 0))
        with trainer, self.assertRaisesRegex(of.InputError, "has ended"):
            trainer.tensor("wte")

    def test_threads_that_share_one(self):
        trainer, steps = of.Trainer(self.plan, **{**RUN, "steps": 40}), []

        def train():
            for step in trainer:
                steps.append(step.step)
                trainer.tensor("wte")

        threads = [threading.Thread(target=train) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(steps), list(range(40)))

    def test_an_exit_while_a_daemon_thread_trains(self):
        program = ("import threading, oneflow_actors as of\n"
                   "trainer, began = of.Trainer('gpt.plan', data='text.txt', steps=10**6), threading.Event()\n"
                   "threading.Thread(target=trainer.run, args=(lambda _: began.set(),), daemon=True).start()\n"
                   "began.wait()\n")
        ended = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
                               capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_a_graph_of_python(self):
        graph = of.Graph("bigram", family="bigram")
        graph.message.CopyFrom(of.models.gpt(**SMALL).graph)
        with of.Trainer(graph=graph, batch=4, data="text.txt", steps=1) as trainer:
            self.assertEqual(next(trainer).step, 0)

    def test_a_checkpoint_is_a_mapping(self):
        with of.Trainer(self.plan, checkpoint_dir=b"mapping\xff".decode("utf-8", "surrogateescape"), **RUN) as trainer:
            trainer.run()
        weights = of.Checkpoint("mapping\udcff")
        self.assertTrue("wte" in weights and "none" not in weights)
        self.assertTrue(weights == weights and weights != of.Checkpoint(weights.path))  # pylint: disable=comparison-with-itself

    def test_errors(self):
        for more, sentence in [({"data": "none.txt"}, "none.txt"), ({"steps": -1}, "--steps=-1"), ({"processes": 2}, "a Trainer is one process"),
                               ({"serve": "0"}, "--serve"), ({"batch": 4}, "--batch")]:
            with self.assertRaisesRegex(of.InputError, sentence) as raised:
                of.Trainer(self.plan, **{**RUN, **more})
        self.assertEqual(raised.exception.hint, "leave one of the two out")
        with of.Trainer(self.plan, **RUN) as trainer:
            with self.assertRaisesRegex(of.InputError, "no variable"):
                trainer.tensor("none")
            self.assertIn("wte/m", trainer.names())
        with self.assertRaisesRegex(of.InputError, "has ended"):
            trainer.tensor("wte")
        with self.assertRaises(KeyError):
            of.Checkpoint("cli" if Path("cli").exists() else "ends")["none"]

    def test_threads_go_on_while_a_step_runs(self):
        counted, over = [0], threading.Event()

        def count():
            while not over.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        with contextlib.ExitStack() as stack:
            stack.callback(thread.join)
            stack.callback(over.set)
            with of.Trainer(self.plan, **RUN) as trainer:
                trainer.run()
            plans = [of.compile(of.models.gpt(**SMALL), batch=4) for _ in range(2)]
        self.assertEqual(plans[0], plans[1])
        self.assertGreater(counted[0], 0)


if __name__ == "__main__":
    unittest.main()
