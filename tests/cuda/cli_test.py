"""The command line on the emulated GPU: what is compiled with --device=cuda trains, generates and goes on elsewhere."""
import json
import os
import subprocess
import tempfile
import unittest

from tests.e2e.cli import read_metrics, run

EMULATED = os.path.abspath("tools/oneflow/oneflow_emulated")


def on_gpu(*args, cwd, code=0):
    """Runs `oneflow args` on the emulated GPU; (stdout, stderr)."""
    done = subprocess.run([EMULATED, *args], cwd=cwd, capture_output=True, text=True, check=False,
                          env=dict(os.environ, GLOG_logtostderr="1"))
    assert done.returncode == code, f"oneflow {args}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def losses(path):
    return [line["loss"] for line in read_metrics(path) if "loss" in line]


class CudaCliTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        with open(self.dir + "/text.txt", "w", encoding="utf-8") as text:
            text.write("the cat sat on the mat. " * 200)
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256",
            "--out=g.textproto", cwd=self.dir)

    def compile(self, name, *flags):
        return run("compile", "--graph=g.textproto", "--batch=8", "--micro_batches=2", f"--out={name}.plan", *flags,
                   cwd=self.dir)

    def train(self, name, *flags, program=run, steps=4):
        program("train", f"--plan={name}.plan", "--data=text.txt", f"--steps={steps}", f"--metrics={name}.jsonl",
                "--learning_rate=1e-2", *flags, cwd=self.dir)
        return losses(f"{self.dir}/{name}.jsonl")

    def check_close(self, a, b, most):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.assertLess(abs(x - y), most, f"{a} for {b}")

    def test_losses_are_those_of_the_cpu_on_one_gpu_and_shared_ones(self):
        for mesh in ["", "pipe=2,data=2"]:
            self.compile("cpu", "--mesh=" + mesh)
            self.compile("gpu", "--mesh=" + mesh, "--device=cuda")
            on_cpu = self.train("cpu")
            shared = self.train("gpu", "--logical_devices", program=on_gpu)
            self.check_close(shared, on_cpu, 1e-4)
            self.check_close(self.train("gpu", program=on_gpu), on_cpu, 1e-4)  # over NCCL
            self.check_close(self.train("gpu", "--logical_devices", program=on_gpu), shared, 1e-30)

    def test_a_checkpoint_of_the_cpu_goes_on_on_a_gpu_and_back(self):
        self.compile("cpu")
        self.compile("gpu", "--device=cuda", "--mesh=tensor=2")
        on_cpu = self.train("cpu", steps=6)
        self.train("cpu", "--checkpoint_dir=ckpt", steps=2)
        self.train("gpu", "--checkpoint_dir=ckpt", "--resume=true", program=on_gpu, steps=4)
        self.train("cpu", "--checkpoint_dir=ckpt", "--resume=true", steps=6)
        steps = {}
        for name in ["cpu", "gpu"]:
            for line in read_metrics(f"{self.dir}/{name}.jsonl"):
                if "loss" in line:
                    steps[line["step"]] = line["loss"]
        self.check_close([steps[s] for s in sorted(steps)][-4:], on_cpu[2:], 1e-4)

    def test_generate(self):
        self.compile("cpu")
        self.train("cpu", "--checkpoint_dir=ckpt", steps=20)
        flags = ["generate", "--checkpoint=ckpt", "--prompt=the", "--tokens=8", "--temperature=0", "--format=json"]
        cpu = json.loads(run(*flags, cwd=self.dir)[0])
        gpu = json.loads(on_gpu(*flags, "--device=cuda", cwd=self.dir)[0])
        self.assertEqual(gpu["tokens"], cpu["tokens"])

    def test_flags_of_gpus_are_refused_for_plans_of_cpus(self):
        self.compile("cpu")
        for flag in ["--logical_devices", "--synchronous", "--cuda_libs=."]:
            _, err = on_gpu("train", "--plan=cpu.plan", "--data=text.txt", "--steps=1", flag, cwd=self.dir, code=2)
            self.assertIn(flag.split("=")[0] + ": is of GPUs, and these devices are CPUs", err)
            self.assertIn("compile with --device=cuda, or leave the flag out", err)

    def test_what_is_refused(self):
        self.compile("gpu", "--device=cuda")
        _, err = run("train", "--plan=gpu.plan", "--data=text.txt", "--steps=1", cwd=self.dir, code=2)
        self.assertIn("without CUDA", err)
        self.assertEqual(err.strip().count("\n"), 0, err)
        _, err = run("compile", "--graph=g.textproto", "--device=tpu", "--out=x.plan", cwd=self.dir, code=2)
        self.assertIn("use cpu or cuda", err)
        self.compile("nine", "--device=cuda", "--mesh=data=8,tensor=2", "--batch=16", "--micro_batches=1")
        _, err = on_gpu("train", "--plan=nine.plan", "--data=text.txt", "--steps=1", cwd=self.dir, code=1)
        self.assertIn("for 16 GPUs, this machine has 8", err)
        with open(self.dir + "/wide.textproto", "w", encoding="utf-8") as graph:
            graph.write('op { name: "x" kind: "input" shape { dim { size: 4 } } dtype: F64 }\n'
                        'op { name: "y" kind: "gelu" input: "x" }\noutput: "y"\n')
        _, err = run("compile", "--graph=wide.textproto", "--device=cuda", "--out=x.plan", cwd=self.dir, code=2)
        self.assertIn("f64", err)
        self.assertIn("op x", err)


if __name__ == "__main__":
    unittest.main()
