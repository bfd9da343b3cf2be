"""oneflow calibrate: the file it writes is a cluster that compile takes, and every figure is a figure."""
import json
import math
import os
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, run


def numbers(value):
    """All numbers in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


class CalibrateTest(unittest.TestCase):
    def test_measures_and_compile_takes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ONEFLOW, "calibrate", "--seconds=0.1", "--threads=1", "--format=json",
                                   "--out=cluster.textproto"], cwd=folder, capture_output=True, text=True, check=True)
            cluster = json.loads(done.stdout)
            figures = list(numbers(cluster))
            self.assertGreater(len(figures), 60)
            for figure in figures:
                self.assertTrue(math.isfinite(figure) and figure > 0, figure)
            device, level = cluster["device"], cluster["level"][0]
            self.assertEqual(device["kernel_threads"], 1)
            for name in ["peak_flops", "memory_bandwidth", "read_bandwidth", "firing_seconds"]:
                self.assertIn(name, device)
            for name in ["latency", "sleeping_latency", "bandwidth"]:
                self.assertIn(name, level)
            for name in ["to_host", "from_host"]:
                self.assertIn(name, cluster["host_link"])
            kernels = {(k["kernel"], k["dtype"]) for k in device["kernel_time"]}
            for kernel in ["linear", "linear_grad_weight", "attention", "layer_norm", "gelu", "add", "adamw"]:
                self.assertIn((kernel, "F32"), kernels)
            # Progress: one line a measurement, numbered to the end.
            lines = [line for line in done.stderr.splitlines() if "/" in line.split(" ")[0]]
            self.assertTrue(lines[-1].startswith(f"{len(lines)}/{len(lines)} "), done.stderr)

            run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256",
                "--out=gpt.textproto", cwd=folder)
            run("compile", "--graph=gpt.textproto", "--cluster=cluster.textproto", "--batch=4", "--out=gpt.plan",
                cwd=folder)
            self.assertTrue(os.path.exists(os.path.join(folder, "gpt.plan")))

    def test_processes_add_the_links_between_them(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ONEFLOW, "calibrate", "--seconds=0.1", "--threads=1", "--devices=2", "--processes=2", "--format=json",
                                   "--out=cluster.textproto"], cwd=folder, capture_output=True, text=True, check=False)
            if "there is room for 1" in done.stderr:
                self.skipTest("one core")
            self.assertEqual(done.returncode, 0, done.stderr)
            levels = json.loads(done.stdout)["level"]
            self.assertEqual([level["name"] for level in levels], ["process", "host", "network"])
            self.assertEqual([level.get("size") for level in levels], [1, 2, None])
            for level in levels:
                for name in ["latency", "sleeping_latency", "bandwidth"]:
                    self.assertGreater(level[name], 0)
            error = run("calibrate", "--out=c.textproto", "--threads=1", "--devices=2", "--processes=3", cwd=folder, code=2)[1]
            self.assertIn("cannot be divided evenly", error)


if __name__ == "__main__":
    unittest.main()
