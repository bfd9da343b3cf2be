"""Starts that cannot succeed, processes killed at any moment, full disks: one sentence, no process left, no hang."""
import os
import signal
import socket
import subprocess
import threading

from tests import namespaces
from tests.e2e.cli import ONEFLOW, read_metrics
from tests.processes.case import BROKE, HERE, ProcessesCase
from tests.slurm.waiting import wait_for

SOON = 60  # seconds, on a busy machine
FULL = os.environ.get("ONEFLOW_TEST_FULL") == "1"


def empty_shared_memory():
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)


class StartTest(ProcessesCase):
    def differs(self):
        """join_test has all that may not differ."""
        job = self.job("differs", 2)
        job.start(0)
        job.start(1, "--seed=5")
        job.wait_until_gone(range(2), SOON)
        told = self.check_told(job, range(2), rf"^host {HERE} \(process 1, rank 1\): --seed 5, process 0 on host {HERE} has 1; "
                               "start all processes with the same build, files and flags$", code=2)
        self.assertEqual(job.outcome(), {"attempt": 1, "code": 2, "step": 0, "host": HERE, "rank": 1, "sentence": told})

    def fails_before_it_joins(self, fails):
        job = self.job(f"no data {fails}", 2)
        for index in (1 - fails, fails):
            job.start(index, *(["--data=absent.txt"] if index == fails else []))
        if fails == 0:
            job.processes.reverse()
        job.wait_until_gone(range(2), SOON)
        told = self.check_told(job, range(2), rf"^host {HERE} \(process {fails}\): absent.txt: no such file", code=2)
        self.assertEqual((job.outcome()["code"], job.outcome()["sentence"]), (2, told))

    def one_port_is_taken(self):
        job = self.job("port", 2)
        host, port = job.coordinator.split(":")
        with socket.create_server((host, int(port))):
            job.start(0)
            job.wait_until_gone([0], 10 + SOON)  # it waits for an older attempt to let go of it
        self.check_told(job, [0], f"--coordinator: cannot listen at {job.coordinator}", code=2)

    def test_refused(self):
        self.at_once((self.differs,), (self.fails_before_it_joins, 0), (self.fails_before_it_joins, 1),
                     *([(self.one_port_is_taken,)] if FULL else []))

    def test_strangers_change_nothing(self):
        job = self.job("strangers", 2).start_all()
        job.wait_for_steps(1)
        stranger = job.start(1, environment={"ONEFLOW_JOB_TOKEN": "another"})
        late = job.start(1, environment={"ONEFLOW_ATTEMPT": "0"})
        twin = job.start(1)
        self.assertEqual([process.wait(SOON) for process in (stranger, late, twin)], [2, 1, 2])
        for sentence in ["refuses it; give all processes of the job the same token", "is of attempt 0; attempt 1 is under way",
                         "there is a process 1 already"]:
            self.assertIn(sentence, job.stderr(1))
        del job.processes[2:]
        job.wait_for_steps(job.steps_done() + 1)
        self.assertFalse(os.path.exists(job.dir + "/outcome.json"))
        job.processes[1].send_signal(signal.SIGTERM)
        job.wait_until_gone(range(2), SOON)
        self.assertEqual(job.outcome()["attempt"], 1)
        self.check_resumed(job)

    def killed_after(self, lost, seconds):
        """A process that is killed before it has joined can be started again; later the other one ends."""
        job = self.job(f"killed {lost} after {seconds}", 2).start_all()
        threading.Event().wait(seconds)
        job.processes[lost].kill()
        other = 1 - lost
        wait_for("the end, or whom it waits for", lambda: job.processes[other].poll() is not None or "waits for" in job.stderr(other), SOON)
        if job.processes[other].poll() is None:
            self.assertEqual([line for line in job.sentences(other) if "waits for" not in line], [])
            job.processes[lost].wait()
            job.processes[lost] = job.start(lost)
            del job.processes[2:]
            job.wait_for_steps(1)
            return
        self.check_told(job, [other], rf"^host {HERE} \(process {lost}, rank {lost}\): {BROKE}$")

    def killed_child_after(self, lost, seconds):
        """One of processes that process 0 has started, or process 0 itself."""
        job = self.job(f"child {lost} killed after {seconds}", 4).start_children()
        pids = wait_for("children", lambda: len(found := job.pids()) == 4 and found)
        threading.Event().wait(seconds)
        os.kill(pids[lost], signal.SIGKILL)
        wait_for(f"the end of all of {job.dir}", lambda: job.processes[0].poll() is not None and not job.pids(), SOON)
        # One of them reports it. If process 0 is gone, each has noticed it in its own way.
        sentence, = job.sentences(0)
        for told in (sentence, job.outcome()["sentence"]):
            self.assertRegex(told, rf"^host {HERE} \(process {lost}(, rank {lost})?\)(: {BROKE}| was )")

    def test_killed_while_they_start(self):
        memory = os.stat("/dev/shm").st_mtime_ns
        self.at_once(*((self.killed_after, lost, seconds) for lost in (0, 1) for seconds in (0.05, 0.4, 0.8)))
        self.at_once(*((self.killed_child_after, lost, seconds) for lost in (0, 3) for seconds in (0, 0.1, 0.4)))
        # Whenever they are killed, nothing stays in a folder in which nothing is made.
        self.assertEqual(os.stat("/dev/shm").st_mtime_ns, memory)

    def test_no_segments(self):
        """Where System V's shared memory is used up exchanges go over the network device; the bits are the same."""
        losses = []
        for most, said in [(4096, ""), (1, r"oneflow: warning: UCX gets no memory \(System V's shared memory: kernel.shmmni is 1, "
                                           r".*\): .*; exchanges go over lo\n")]:
            job = self.job(f"{most} segments", 2, steps=5)
            done = subprocess.run(["unshare", "--ipc", "bash", "-c", f'echo {most} >/proc/sys/kernel/shmmni && exec "$@"', "bash",
                                   ONEFLOW, *job.arguments("--processes=2")], cwd=job.dir, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, f"^{said}$")
            losses.append([row["loss"] for row in read_metrics(job.dir + "/metrics.jsonl")])
        self.assertEqual(*losses)

    def full_disk(self):
        job = self.job("full disk", 2)
        os.makedirs(job.dir + "/checkpoints")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", job.dir + "/checkpoints"], check=True)
        self.addCleanup(subprocess.run, ["umount", job.dir + "/checkpoints"], check=True)
        job.start_all().wait_until_gone(range(2), 4 * SOON)
        told = self.check_told(job, range(2), rf"^host {HERE} \(process \d, rank \d\): .*: No space left on device; make room$")
        self.check_outcome(job, HERE, int(told.split("rank ")[1][0]), [told])
        job.checkpoint_dir = "elsewhere"  # what is there is read
        subprocess.run(["cp", "-r", job.dir + "/checkpoints", job.dir + "/elsewhere"], check=True)
        self.check_resumed(job)

    def full_disk_of_one(self):
        job = self.job("full disk of one", 2)
        job.plan = self.root + "/other.plan"  # of which each process has a part
        job.environment["UCX_TLS"] = "tcp,self"  # the limit is one of shared memory, too
        job.start(0)
        job.start(1, before=["bash", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "bash"])
        job.wait_until_gone(range(2), 4 * SOON)
        told = self.check_told(job, range(2), rf"^host {HERE} \(process 1, rank 1\): .*rank-00001.bin: cannot be written: File "
                               "too large")
        self.check_outcome(job, HERE, 1, [told])
        self.assertEqual(job.checkpoints(), [])

    def test_full_disk(self):
        self.at_once((self.full_disk,), (self.full_disk_of_one,))

    def test_a_folder_of_checkpoints_that_is_not_shared(self):
        job = self.job("not shared", 2, self.network(1))
        os.mkdir(job.dir + "/there")
        flags = [f"--job_dir={job.dir}"]
        job.start(0, *flags)
        job.start(1, *flags, before=["env", f"--chdir={job.dir}/there"])
        job.wait_until_gone(range(2), SOON)
        self.check_told(job, range(2), r"^host b \(process 1(, rank 1)?\): checkpoints: is not on this host, and process 0 has made "
                        "it on its own; give a folder of a file system that all hosts share$", code=2)

    def meets(self, name, lines, address, **variables):
        """Two processes train where /etc/hosts has these lines and a launcher names this address."""
        job = self.job("name " + name, 2, steps=2)
        with open(job.dir + "/hosts", "w", encoding="utf-8") as hosts:
            hosts.write("127.0.0.1 localhost\n" + lines)
        enter = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', job.dir + "/hosts"]
        for rank in range(2):
            environment = dict(job.environment, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=address, MASTER_PORT="29500", **variables)
            with open(f"{job.dir}/stderr-{rank}", "ab") as stderr:
                job.processes.append(subprocess.Popen([*enter, ONEFLOW, *job.arguments()], cwd=job.dir, stdout=subprocess.DEVNULL,
                                                      stderr=stderr, env=environment))
        job.wait_until_gone(range(2), 4 * SOON)
        self.assertEqual([process.returncode for process in job.processes], [0, 0], job.errors())

    def test_names_of_loopback(self):
        subprocess.run(["ip", "addr", "add", "10.8.7.6/32", "dev", "lo"], check=True)
        debian, run = "127.0.1.1 node7\n", {"TORCHELASTIC_RUN_ID": "x"}
        for arguments, variables in [(("debian", debian, "node7"), run), (("ipv6", "::1 localhost6\n", "localhost6"), {}),
                                     (("address", "", "127.3.2.1"), {}),
                                     (("one host", "10.9.8.7 node8\n", "node8"), dict(run, LOCAL_WORLD_SIZE="2")),
                                     (("unknown", "", "10.9.8.7"), {"LOCAL_WORLD_SIZE": "2"}),
                                     (("own address", "10.8.7.6 node9\n", "node9"), {})]:
            with self.subTest(arguments):
                self.meets(*arguments, **variables)

    @staticmethod
    def listening(*enter):
        """Addresses of TCP."""
        lines = subprocess.run([*enter, "ss", "--no-header", "--listening", "--tcp", "--numeric"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return [line.split()[3].replace("[::ffff:127.0.0.1]", "127.0.0.1") for line in lines]

    @classmethod
    def listening_hosts(cls, *enter):
        """The same, without ports."""
        return {address.rpartition(":")[0].strip("[]").removeprefix("::ffff:") for address in cls.listening(*enter)}

    def test_networks(self):
        network = self.network(0)
        here, there = network.hosts.values()
        devices = r"there are lo \(127.0.0.1\), e0 \(10.77.0.\d\)"
        for flags, sentence in {
                (): f"--interface: is not given, and the coordinator at {here.address}:\\d+ is beyond loopback; name the network",
                ("--interface=lo",): "--interface, --trust_network: lead to loopback, and the coordinator",
                ("--interface=eth7",): f"--interface=eth7: no network device of this name is up on this host; {devices}",
                ("--trust_network=10.99.0.0/16",): "--trust_network=10.99.0.0/16: no network device of this host has an address "
                                                   f"in it; {devices}",
                ("--trust_network=10.77.0/24",): '--trust_network: "10.77.0/24" is not a network as'}.items():
            with self.subTest(flags):
                job = self.job("network " + " ".join(flags).replace("/", "-"), 2, network)
                job.network_flags = list(flags)
                job.start_all().wait_until_gone(range(2), SOON)
                self.assertEqual([process.returncode for process in job.processes], [2, 2])
                for index in range(2):
                    self.assertRegex(job.sentences(index)[0], sentence)
                self.assertIn(job.outcome()["sentence"], job.sentences(0) + job.sentences(1))
        job = self.job("trusted", 2, network)
        job.network_flags = ["--trust_network=10.77.0.0/16"]
        job.start_all().wait_for_steps(1)
        self.assertEqual(self.listening_hosts(*here.enter), {here.address})
        self.assertEqual(self.listening_hosts(*there.enter), {there.address})
        job = self.job("loopback", 2)
        job.start_all().wait_for_steps(1)
        self.assertEqual(self.listening(), [job.coordinator])  # and none for data


if __name__ == "__main__":
    namespaces.main(__name__, ["bridge", "ss"], empty_shared_memory)
