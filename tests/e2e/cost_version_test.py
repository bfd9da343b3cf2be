"""kCostVersion (planning/simulate/cost_version.h) is raised with every change of costs: the steps of recorded plans, on the clusters
that they were compiled for, are those that cost_plans/steps.txt has for the version.

A plan that this release refuses to read is recorded anew, and the last line of steps.txt gets its step under the same version:
    oneflow model gpt --layers=2 --heads=16 --hidden=2048 --sequence=2048 --vocab=32000 --out=gpt.textproto
    oneflow model llama --layers=2 --heads=8 --hidden=1024 --sequence=1024 --vocab=32000 --experts=8 --out=moe.textproto
    oneflow compile FLAGS --out=NAME.plan; gzip -9 --no-name NAME.plan    # NAME and FLAGS: PLANS below
"""
import gzip
import json
import pathlib
import unittest

from tests.e2e.cli import FolderCase, run

FOLDER = pathlib.Path("tests/e2e/cost_plans")
PLANS = {
    "gpu": "--graph=gpt.textproto --mesh=pipe=2,data=2,tensor=2 --batch=16 --micro_batches=4 --device=cuda --cluster=h100 --precision=bf16 "
           "--shard=weights",
    "host": "--graph=gpt.textproto --batch=16 --micro_batches=4 --device=cuda --cluster=a100 --offload=states,activations:1 --loss_pieces=2",
    "cpu": "--graph=gpt.textproto --mesh=data=2 --batch=8 --micro_batches=2 --threads=4",
    "experts": "--graph=moe.textproto --mesh=expert=2 --batch=8 --device=cuda --cluster=h100 --precision=bf16 --recompute=full",
}


class CostVersionTest(FolderCase):
    def test_steps_are_those_of_the_version(self):
        lines = [line.split() for line in (FOLDER / "steps.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        versions = [int(line[0]) for line in lines]
        self.assertEqual(versions, list(range(1, len(lines) + 1)))
        steps = []
        for name in PLANS:
            self.write(f"{name}.plan", gzip.decompress((FOLDER / f"{name}.plan.gz").read_bytes()))
            simulated = json.loads(run("simulate", f"--plan={name}.plan", "--format=json", cwd=self.dir)[0])
            steps.append(f"{simulated['step_seconds']:.6g}")
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=self.dir)
        run("compile", "--graph=gpt.textproto", "--threads=1", "--lock=plan.lock", cwd=self.dir)
        version = json.loads(self.read("plan.lock"))["costs"]["version"]
        told = f"costs changed: raise kCostVersion, and add a line to {FOLDER}/steps.txt: {version + 1} {' '.join(steps)}"
        self.assertEqual(version, versions[-1], "steps.txt has a line for each version")
        for was, now in zip(lines[-1][1:], steps, strict=True):
            self.assertAlmostEqual(float(was) / float(now), 1, delta=2e-5, msg=told)


if __name__ == "__main__":
    unittest.main()
