"""Runs every command of docs/operations.md: on this host, under torchrun, on a Slurm of the test's own, as pods would."""
import json
import os
import shlex
import subprocess
import sys

from tests.e2e.cli import ONEFLOW, read_metrics, run
from tests.slurm import cluster
from tests.slurm.slurm_case import SlurmCase

PAGE = "docs/operations.md"

# The part of torchrun for processes of one host. Debian's own does not start under Debian's Python 3.11.
TORCHRUN = f"""#!{sys.executable}
import os, socket, subprocess, sys
count = int(next(word for word in sys.argv if word.startswith("--nproc_per_node=")).split("=")[1])
command = [word for word in sys.argv[1:] if not word.startswith(("--no_python", "--nproc_per_node="))]
agent = socket.create_server(("127.0.0.1", 0))  # the agent holds the port as long as it lives
sys.exit(max(child.wait() for child in [
    subprocess.Popen(command, env=dict(os.environ, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=str(count),
                                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(agent.getsockname()[1]),
                                       TORCHELASTIC_RUN_ID="none", TORCHELASTIC_RESTART_COUNT="0"))
    for i in range(count)]))
"""

# The part of mpirun for processes of one host.
MPIRUN = f"""#!{sys.executable}
import os, subprocess, sys
count = int(sys.argv[2])
sys.exit(max(child.wait() for child in [
    subprocess.Popen(sys.argv[3:], env=dict(os.environ, OMPI_COMM_WORLD_RANK=str(i), OMPI_COMM_WORLD_SIZE=str(count)))
    for i in range(count)]))
"""

# No cluster answers; the file is there, and is what it is said to be.
KUBECTL = """#!/bin/bash
[[ $1 == apply || $1 == delete ]] && [[ $2 == -f ]] && grep -q '^kind: JobSet$' "$3"
"""


def sections():
    """{title: [command]}: the lines between ``` of each section."""
    commands, title, inside = {}, "", False
    with open(PAGE, encoding="utf-8") as page:
        for line in page:
            if line.startswith("## "):
                title = line[3:].strip()
            elif line.startswith("```"):
                inside = not inside
            elif inside:
                commands.setdefault(title, []).append(line.strip())
    return commands


class OperationsTest(SlurmCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.makedirs(cls.root + "/bin")
        os.symlink(os.path.realpath(ONEFLOW), cls.root + "/bin/oneflow")
        for name, text in [("kubectl", KUBECTL), ("torchrun", TORCHRUN), ("mpirun", MPIRUN)]:
            with open(f"{cls.root}/bin/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        os.environ["PATH"] = f"{cls.root}/bin:{os.environ['PATH']}"
        run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=40", "--metrics=whole.jsonl", cwd=cls.root)
        cls.whole = [row["loss"] for row in read_metrics(cls.root + "/whole.jsonl")]
        cls.commands = sections()

    def run_section(self, title):
        """Runs its commands, one after the other; returns the output of each."""
        outputs = []
        for command in self.commands[title]:
            words = shlex.split(command)
            if words[:2] == ["oneflow", "logs"]:
                self.check_done(next(word.split("=")[1] for word in words if word.startswith("--job_dir=")))
            done = subprocess.run(command, shell=True, cwd=self.root, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
            outputs.append(done.stdout)
        return outputs

    def check_done(self, job_dir):
        self.dir, self.job = self.root, f"{self.root}/{job_dir}"
        self.assertEqual(self.wait_until_over()["state"], "done", self.all_logs())
        self.assertEqual(self.losses(), self.whole)

    def test_every_section_with_commands_is_run(self):
        self.assertEqual(list(self.commands), ["One host", "torchrun", "Slurm", "Kubernetes"])

    def test_one_host(self):
        outputs = self.run_section("One host")
        self.assertEqual(json.loads(outputs[3])["engine"], "local")

    def test_torchrun(self):
        self.run_section("torchrun")

    def test_slurm(self):
        self.run_section("Slurm")

    def test_kubernetes(self):
        self.run_section("Kubernetes")


if __name__ == "__main__":
    cluster.main(__name__)
