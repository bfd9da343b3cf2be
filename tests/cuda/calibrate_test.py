"""oneflow calibrate --device=cuda on the emulated GPU: the file's form, who takes it, and what is refused.

The clock of the emulated GPU is none, so no figure is looked at but for being one.
"""
import json
import math
import os
import subprocess
import tempfile
import unittest

from tests.e2e.cli import run

EMULATED = os.path.abspath("tools/oneflow/oneflow_emulated")
QUICK = ["calibrate", "--device=cuda", "--seconds=0.1"]
KERNELS = ["linear", "linear+gelu", "linear_grad_input", "linear_grad_input+gelu_grad", "linear_grad_weight", "add", "gelu",
           "gelu_grad", "layer_norm", "layer_norm_grad_input", "layer_norm_grad_weight", "linear_grad_bias",
           "attention", "attention_grad", "packed_attention", "packed_attention_grad", "row_stats", "cross_entropy_grad"]


def on_gpu(*args, cwd, code=0):
    done = subprocess.run([EMULATED, *args], cwd=cwd, capture_output=True, text=True, check=False,
                          env=dict(os.environ, GLOG_logtostderr="1"))
    assert done.returncode == code, f"oneflow {args}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


class CalibrateGpusTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name

    def check_device(self, device):
        for name in ["peak_flops", "peak_flops_bf16", "memory_bandwidth", "read_bandwidth", "firing_seconds"]:
            self.assertTrue(math.isfinite(device[name]) and device[name] > 0, name)
        self.assertEqual(device["kind"], "CUDA")
        self.assertEqual(int(device["memory_bytes"]), 1 << 30)
        timed = {(k["kernel"], k["dtype"]) for k in device["kernel_time"]}
        for kernel in KERNELS:
            for dtype in ["F32", "BF16"]:
                self.assertIn((kernel, dtype), timed)
        for kernel in ["adamw", "sum_squares", "slice", "cast", "embedding", "linear+add"]:
            self.assertIn((kernel, "F32"), timed)
        for kernel in ["copy_in", "copy_out"]:
            self.assertIn((kernel, "U8"), timed)
        for kernel in device["kernel_time"]:
            self.assertTrue(math.isfinite(kernel["seconds"]) and kernel["seconds"] > 0, kernel)
            self.assertGreater(kernel["bytes"], 0, kernel)

    def test_one_gpu(self):
        out, err = on_gpu(*QUICK, "--devices=1", "--format=json", "--out=gpu.textproto", cwd=self.dir)
        cluster = json.loads(out)
        self.check_device(cluster["device"])
        for name in ["to_host", "from_host", "latency"]:
            self.assertTrue(math.isfinite(cluster["host_link"][name]) and cluster["host_link"][name] > 0, name)
        self.assertNotIn("level", cluster)
        with open(self.dir + "/gpu.textproto", encoding="utf-8") as file:
            text = file.read()
        self.assertIn("# The link between GPUs was not measured: there is one GPU.", text)
        self.assertIn("# host_link: of one GPU that copies alone.", text)
        lines = err.splitlines()
        self.assertEqual([line.split(" ")[0] for line in lines], [f"{i + 1}/{len(lines)}" for i in range(len(lines))])

        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=g.textproto",
            cwd=self.dir)
        compiled = ["--graph=g.textproto", "--device=cuda", "--batch=4"]
        run("compile", *compiled, "--cluster=gpu.textproto", "--out=gpt.plan", cwd=self.dir)
        simulated = json.loads(run("simulate", "--plan=gpt.plan", "--cluster=gpu.textproto", "--format=json", cwd=self.dir)[0])
        self.assertGreater(simulated["step_seconds"], 0)
        self.assertEqual(simulated["cluster"], "Emulated GPU")
        self.assertEqual(simulated, json.loads(run("simulate", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0]))
        # Not timed as a CPU.
        run("compile", *compiled, "--out=gpt.plan", cwd=self.dir)
        _, err = run("simulate", "--plan=gpt.plan", cwd=self.dir, code=2)
        self.assertIn("--cluster: is missing: the plan is for GPUs", err)
        _, err = run("explain", "--plan=gpt.plan", "--format=html", cwd=self.dir, code=2)
        self.assertIn("oneflow calibrate --device=cuda", err)
        run("compile", *compiled, "--micro_batches=2", "--out=other.plan", cwd=self.dir)
        self.assertIn("unknown for GPUs without --cluster", run("diff", "gpt.plan", "other.plan", cwd=self.dir)[0])
        self.assertIn("simulated on Emulated GPU",
                      run("diff", "gpt.plan", "other.plan", "--cluster=gpu.textproto", cwd=self.dir)[0])

    def test_the_link_between_two_gpus(self):
        out, _ = on_gpu(*QUICK, "--devices=2", "--out=gpus.textproto", cwd=self.dir)
        self.assertIn("between 2 GPUs: ", out)
        with open(self.dir + "/gpus.textproto", encoding="utf-8") as file:
            text = file.read()
        self.assertIn('name: "2 x Emulated GPU"', text)
        self.assertNotIn("not measured", text)
        level = text[text.index("level {"):]
        for field in ["size: 2", "latency: ", "bandwidth: "]:
            self.assertIn(field, level)

    def test_what_is_refused(self):
        _, err = run("calibrate", "--device=cuda", "--out=gpu.textproto", cwd=self.dir, code=2)
        self.assertIn("without CUDA", err)
        self.assertEqual(err.strip().count("\n"), 0, err)
        self.assertEqual(os.listdir(self.dir), [])
        for flags, why in [(["--devices=9"], "it has 1 to 8 GPUs"), (["--threads=2"], "--threads"),
                           (["--out=absent/gpu.textproto"], "absent/gpu.textproto")]:
            _, err = on_gpu(*QUICK, "--out=gpu.textproto", *flags, cwd=self.dir, code=2)
            self.assertIn(why, err)
        _, err = run("calibrate", "--device=tpu", "--out=gpu.textproto", cwd=self.dir, code=2)
        self.assertIn("use cpu or cuda", err)
        _, err = run("calibrate", "--cuda_libs=.", "--out=gpu.textproto", cwd=self.dir, code=2)
        self.assertIn("--cuda_libs: is of GPUs", err)
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main()
