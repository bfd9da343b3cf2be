"""Data links that die alone, while the control plane lives: the attempt ends in time, and its sentence names both ends.

Times are real here.
"""
import re
import signal

from tests import namespaces
from tests.processes.case import ProcessesCase

SECONDS = 10


class DataLinkTest(ProcessesCase):
    def check_ends(self, job, a, b):
        """All end in time, with one sentence: one of the two no longer hears the other."""
        seconds = job.wait_until_gone(range(job.count), SECONDS)
        print(f"{job.dir}: ended after {seconds:.1f} s", flush=True)
        names = [rf"host {job.host(p).name} \(process {p}, rank {p}\)" for p in (a, b)]
        ends = "|".join(f"{other}, as {one} reports: it has not heard {other} on the data network for "
                        for one, other in [names, names[::-1]])
        sentence = self.check_told(job, range(job.count), f"^({ends})")
        silent = int(re.search(r"process (\d)", sentence)[1])
        self.check_outcome(job, job.host(silent).name, silent, [sentence])
        self.check_resumed(job)

    def two_networks(self, name, network, number):
        """The network of tensors loses a host, that of control does not; then the job is to stop."""
        network.add("e1", number)
        job = self.job(name, 2, network)
        job.network_flags = ["--interface=e1"]
        job.start_all().wait_for_steps(30)
        network.hosts["b"].drop("e1")
        job.processes[0].send_signal(signal.SIGTERM)
        self.check_ends(job, 0, 1)

    def partial(self, name, network, a, b):
        """Two hosts of four, neither of them that of process 0, lose each other."""
        job = self.job(name, 4, network).start_all("--stall_seconds=1")
        job.wait_for_steps(30)
        network.hosts["abcd"[a]].part(network.hosts["abcd"[b]])
        self.check_ends(job, a, b)
        self.assertRegex(job.stderr(0), "the job stands still: .* do not arrive")

    def test_a_dead_data_link_ends_the_attempt(self):
        self.at_once((self.two_networks, "two networks", self.network(0), 1),
                     (self.partial, "partial", self.network(2, "abcd"), 2, 3))


if __name__ == "__main__":
    namespaces.main(__name__, ["bridge"], lambda: None)
