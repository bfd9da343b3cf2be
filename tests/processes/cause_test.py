"""A disk that is full for one of four processes: whatever the others notice first, all of them report that process.

ONEFLOW_TEST_FULL=1 does it 100 times.
"""
import os
import random
import resource

from tests import namespaces
from tests.processes.case import HERE, ProcessesCase
from tests.e2e.cli import run

SOON = 30  # seconds
TIMES = 100 if os.environ.get("ONEFLOW_TEST_FULL") == "1" else 4
AT_ONE_TIME = 2


class CauseTest(ProcessesCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A plan of which each process writes a part, or some of them do, and wait for the others in exchanges.
        run("compile", "--graph=gpt.textproto", "--batch=16", "--mesh=pipe=2,tensor=2", "--micro_batches=2", "--out=4.plan",
            cwd=cls.root)

    def full_disk(self, time):
        draw = random.Random(time)
        full = time % 4
        job = self.job(f"full disk {time}", 4)
        job.every = draw.randint(1, 5)
        # A limit on the size of files; the signal that comes with it is ignored.
        for index in range(4):
            job.start(index, before=["bash", "-c", 'trap "" XFSZ; exec "$@"', "bash"])
        job.wait_for_steps(draw.randint(1, 40), SOON)
        # Also of metrics, which only grow.
        resource.prlimit(job.processes[full].pid, resource.RLIMIT_FSIZE, (8 << 10, 8 << 10))
        job.wait_until_gone(range(4), SOON)
        told = self.check_told(job, range(4), rf"^host {HERE} \(process {full}, rank {full}\): .*: File too large")
        outcome = job.outcome()
        self.assertEqual((outcome["attempt"], outcome["code"], outcome["host"], outcome["rank"], outcome["sentence"]),
                         (1, 1, HERE, full, told))

    def test_full_disk(self):
        for first in range(0, TIMES, AT_ONE_TIME):
            self.at_once(*((self.full_disk, time) for time in range(first, first + AT_ONE_TIME)))


if __name__ == "__main__":
    namespaces.main(__name__, [], lambda: None)
