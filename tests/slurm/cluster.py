"""A Slurm of Debian's packages with nodes n1, n2, ... on this machine, for one test.

    if __name__ == "__main__":
        cluster.main(__name__)        # a test's last lines: everything in it runs in separate namespaces

    with cluster.Slurm(folder, nodes=4) as slurm:
        slurm.run("sbatch", "job.sh")
        slurm.set_down("n2")

Invariants:
1. The test runs in separate namespaces (tests/namespaces.py), which end with it and with whatever it has started.
2. Daemons listen in that network alone. Node I has the address 127.0.0.I there, by which its name resolves.
3. The first process reaps what daemons leave behind, so that nothing waits for a zombie.
"""
import contextlib
import os
import pathlib
import signal
import subprocess

from tests import namespaces
from tests.slurm.waiting import wait_for

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch"]

CONFIGURATION = """\
ClusterName=test
SlurmctldHost=controller(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/completed
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
EnforcePartLimits=ALL
MessageTimeout=4
SlurmctldTimeout=30
SlurmdTimeout=5
KillWait=2
MinJobAge=300
InactiveLimit=0
Waittime=0
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
PropagateResourceLimits=NONE
MailProg=/bin/true
"""


def main(module):
    """Runs the tests of a module in separate namespaces, or prints why it cannot."""
    namespaces.main(module, PROGRAMS, prepare_namespaces)


def prepare_namespaces():
    names = "127.0.0.1 localhost controller\n" + "".join(f"127.0.0.{i} n{i}\n" for i in range(1, 10))
    hosts = os.path.join(os.environ["TEST_TMPDIR"], "hosts")
    with open(hosts, "w", encoding="utf-8") as file:
        file.write(names)
    for command in [["ip", "link", "add", "bridge0", "type", "bridge"],
                    # Daemons refuse a machine that has but a loopback interface.
                    ["ip", "addr", "add", "10.77.0.1/24", "dev", "bridge0"], ["ip", "link", "set", "bridge0", "up"],
                    ["hostname", "controller"], ["mount", "--bind", hosts, "/etc/hosts"]]:
        subprocess.run(command, check=True)


def read_proc(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()


def list_processes(variable):
    """Pids of all that have NAME=VALUE in their environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if variable.encode() in read_proc(pid, "environ").split(b"\0"):
                yield int(pid)


class Slurm:
    """The cluster. Its folder holds configuration, logs, spools. Ends with `with`."""

    def __init__(self, folder, nodes=4, max_minutes=10, memory_mib=2000):
        self.folder, self.nodes, self.daemons = os.path.abspath(folder), [f"n{i}" for i in range(1, nodes + 1)], {}
        for name in ["munge", "state", "log", *("spool-" + node for node in self.nodes)]:
            os.makedirs(f"{self.folder}/{name}", mode=0o711)
        self.configuration = f"{self.folder}/slurm.conf"
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(folder=self.folder))
            for i, node in enumerate(self.nodes, 1):
                file.write(f"NodeName={node} NodeHostname=controller NodeAddr=127.0.0.{i} Port={17000 + i} CPUs=2 "
                           f"RealMemory={memory_mib} State=UNKNOWN\n")
            file.write(f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime={max_minutes} State=UP "
                       "OverSubscribe=YES:4\n")
        os.environ["SLURM_CONF"] = self.configuration

    def __enter__(self):
        munge = f"{self.folder}/munge"
        with open(munge + "/key", "wb") as key:
            os.chmod(key.name, 0o600)
            key.write(os.urandom(128))
        self.start("munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={munge}/key",
                   f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        wait_for("munge's socket", lambda: os.path.exists(munge + "/socket"))
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        wait_for("idle nodes", lambda: self.states() == {node: "idle" for node in self.nodes})
        return self

    def __exit__(self, *_):
        for daemon in self.daemons.values():
            daemon.kill()
        for daemon in self.daemons.values():
            daemon.wait()

    def start(self, name, *args, key=None):
        with open(f"{self.folder}/log/{key or name}.out", "ab") as out:
            self.daemons[key or name] = subprocess.Popen([name, *args], stdin=subprocess.DEVNULL, stdout=out,
                                                         stderr=out)

    def start_controller(self):
        self.start("slurmctld", "-D")

    def stop_controller(self):
        """As `systemctl stop` does: it saves its state."""
        self.daemons["slurmctld"].terminate()
        self.daemons["slurmctld"].wait()

    def start_node(self, node):
        self.start("slurmd", "-D", "-N", node, key=node)

    def kill_node(self, node, tasks=False):
        """SIGKILL to the node's daemon; with `tasks` to all that it has started, too, the nearest to a host that dies."""
        started = self.list_processes(node) if tasks else []
        self.daemons[node].kill()
        self.daemons[node].wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def list_processes(node):
        """Pids of what runs in steps on a node, each step's own daemon before its tasks."""
        stepds, tasks = [], []
        for pid in list_processes(f"SLURMD_NODENAME={node}"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                parent = read_proc(pid, "stat").rpartition(b")")[2].split()[1].decode()
                if read_proc(parent, "cmdline").startswith(b"slurmstepd"):
                    stepds.append(int(parent))
                tasks.append(pid)
        return stepds + tasks

    @staticmethod
    def run(*command, code=0):
        """Output of a command; asserts its exit code."""
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def states(self):
        """State by node."""
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %t").split("\n")
        return dict(line.split() for line in lines if line)

    def set_down(self, node):
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def jobs(self):
        """State by job id, of all jobs that Slurm remembers."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%i %T").split("\n")
        return dict(line.split() for line in lines if line)
