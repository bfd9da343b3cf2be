"""Calls of the engine: errors are the command line's, word for word; Ctrl-C, threads, notices; what is loaded into the process."""
import os
import signal
import threading
import unittest
import warnings

import oneflow_actors as of

from tests.e2e.cli import FolderCase, run

SMALL = {"layers": 2, "heads": 2, "hidden": 16, "sequence": 8, "vocab": 256}


def count_threads():
    return len(os.listdir("/proc/self/task"))


class CallsTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = of.models.gpt(**SMALL)
        cls.graph = f"{cls.dir}/gpt.textproto"
        cls.model.save(cls.graph)
        cls.write("torn.plan", b"\x89oneflow\x05")
        cls.write("ds.json", '{"train_batch_size": 8, "zero_optimization": {"stage": 9}}')

    def test_errors_are_those_of_the_command_line(self):
        graph, torn, foreign = f"--graph={self.graph}", f"{self.dir}/torn.plan", f"{self.dir}/ds.json"
        for ours, theirs in [
                (lambda: of.compile(self.graph, batch=0), ["compile", graph, "--batch=0"]),
                (lambda: of.compile(self.graph, mesh={"data": 0}), ["compile", graph, "--mesh=data=0"]),
                (lambda: of.compile(self.graph, schedule="zb"), ["compile", graph, "--schedule=zb"]),
                (lambda: of.compile("gpt5-9t"), ["compile", "--graph=gpt5-9t"]),
                (lambda: of.compile(self.graph, cluster="h101"), ["compile", graph, "--cluster=h101"]),
                (lambda: of.compile(self.graph, batch=4, memory=1000), ["compile", graph, "--batch=4", "--memory=1000"]),
                (lambda: of.compile(self.graph, bath=4), ["compile", graph, "--bath=4"]),
                (lambda: of.Recipe(recompute="ful"), ["recipe", "--recompute=ful"]),
                (lambda: of.Recipe(learning_rate=-1), ["recipe", "--learning_rate=-1"]),
                (lambda: of.Recipe.load(self.graph), ["recipe", f"--recipe={self.graph}"]),
                (lambda: of.models.llama(experts=8, experts_per_token=9),
                 ["model", "llama", "--experts=8", "--experts_per_token=9", "--out=x.textproto"]),
                (lambda: of.Model.from_hf(f"{self.dir}/absent"), ["model", f"--from={self.dir}/absent", "--out=x.textproto"]),
                (lambda: of.Plan.load(torn), ["explain", f"--plan={torn}"]),
                (lambda: of.verify(torn), ["verify", f"--plan={torn}"]),
                (lambda: of.search(self.graph, devices=2), ["search", graph, "--devices=2"]),
                (lambda: of.fit(self.graph, devices="2x", cluster="h100"), ["fit", self.graph, "--devices=2x", "--cluster=h100"]),
                (lambda: of.read_foreign(foreign), ["fit", foreign]),
                (lambda: of.Plan.load("/\udcff.plan"), ["explain", "--plan=/\udcff.plan"]),
                (lambda: of.simulate(self.graph, cluster="nowhere"), ["simulate", graph, "--cluster=nowhere"]),
                (lambda: of.run(self.graph, {}), ["run", graph, "--fetch=logits=x.npy"]),
                (lambda: of.cluster("h101"), ["cluster", "h101"]),
                (lambda: of.data(text="absent.txt", out=f"{self.dir}/d"), ["data", "--text=absent.txt", f"--out={self.dir}/d"]),
                (lambda: of.import_model("absent", f"{self.dir}/i"), ["import", "--from=absent", f"--out={self.dir}/i"]),
                (lambda: of.export("absent", f"{self.dir}/e"), ["export", "--checkpoint=absent", f"--out={self.dir}/e"]),
                (lambda: of.evaluate("absent", "a.txt"), ["eval", "--checkpoint=absent", "--data=a.txt"]),
                (lambda: of.generate("absent", "The "), ["generate", "--checkpoint=absent", "--prompt=The "])]:
            with self.subTest(theirs):
                with self.assertRaises(of.InputError) as raised:
                    ours()
                told = run(*theirs, cwd=self.dir, code=2)[1]
                self.assertIn(f"oneflow: error: {raised.exception}\n", told)
                self.assertIn(raised.exception.hint, str(raised.exception))
        self.assertTrue(issubclass(of.InputError, ValueError) and of.LimitError.exit_code == 3)

    def test_a_limit_that_is_passed(self):
        lock = f"{self.dir}/plan.lock"
        of.compile(self.model, batch=4, cluster="h100", lock=lock)
        flags = {"graph": self.graph, "batch": 8, "cluster": "h100", "lock": lock, "fail_above": "bytes:1%"}
        with self.assertRaises(of.LimitError) as raised:
            of.diff(**flags)
        told = run("diff", *(f"--{name}={value}" for name, value in flags.items()), cwd=self.dir, code=3)[1]
        self.assertIn(str(raised.exception), told)

    def test_notices(self):
        with self.assertWarnsRegex(of.Warning, "^--shard=weights") as warned:
            of.compile(self.model, batch=4, shard="weights")
        self.assertEqual(warned.filename, __file__)
        heard = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            of.compile(self.model, batch=4, shard="weights", on_notice=heard.append)
        self.assertRegex(heard[0], "^warning: --shard=weights")
        with self.assertLogs("oneflow_actors", "INFO") as logged:
            of.compile(self.model, of.Recipe(batch=4), batch=8)
        self.assertIn("--batch=8 in place of 4", logged.output[0])

    def test_ctrl_c_ends_a_search(self):
        before, heard = count_threads(), []

        def interrupt(sentence):
            heard.append(sentence)
            os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            of.search(self.model, devices=64, batch=64, cluster="h100", budget_seconds=600, on_progress=interrupt)
        self.assertEqual(len(heard), 1)
        self.assertLessEqual(count_threads(), before)
        self.assertEqual(of.compile(self.model, batch=4).devices, 1)

    def test_two_threads(self):
        plans = {}

        def work(batch):
            for _ in range(3):
                plans[batch] = of.compile(self.model, of.Recipe(batch=batch, mesh="data=2"))

        threads = [threading.Thread(target=work, args=(batch,)) for batch in (4, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for batch, plan in plans.items():
            self.assertEqual(plan, of.compile(self.model, batch=batch, mesh="data=2"))

    def test_an_exception_of_a_callback_ends_a_search_for_which_ctrl_c_does_not_wait(self):
        began, waits, over = threading.Event(), threading.Event(), threading.Event()

        def told(sentence):
            began.set()
            waits.wait()
            os.kill(os.getpid(), signal.SIGINT)
            over.wait()
            raise RuntimeError(sentence)

        def search():
            with self.assertRaisesRegex(RuntimeError, "plan groups"):
                of.search(self.model, devices=64, batch=64, cluster="h100", budget_seconds=600, on_progress=told)

        searches = threading.Thread(target=search)
        searches.start()
        began.wait()
        with self.assertRaises(KeyboardInterrupt):
            waits.set()
            of.compile(self.model, batch=4)
        self.assertTrue(searches.is_alive())
        over.set()
        searches.join()

    def test_an_exit_of_a_fork_leaves_files(self):
        plan = of.compile(self.model, batch=4)
        child = os.fork()
        if child == 0:
            plan._scratch = None  # as when the child ends
            os._exit(0)
        os.waitpid(child, 0)
        self.assertTrue(os.path.exists(plan.path))

    def test_neither_ucx_nor_grpc_is_loaded(self):
        of.compile(self.model, batch=4)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            libraries = {os.path.basename(line.split()[-1]) for line in maps if ".so" in line}
        self.assertTrue([name for name in libraries if name.startswith("_engine")])
        self.assertEqual([name for name in libraries if name.startswith(("libuc", "libgrpc", "libgpr"))], [])

    def test_files_go_with_their_owners(self):
        plan = of.compile(self.model, batch=4)
        path = plan.path
        plan.save(f"{self.dir}/kept.plan")
        self.assertTrue(os.path.exists(path))
        del plan
        self.assertFalse(os.path.exists(path))
        self.assertEqual(of.Plan.load(f"{self.dir}/kept.plan").verify(), "live, memory-safe, type-safe")


if __name__ == "__main__":
    unittest.main()
