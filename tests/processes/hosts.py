"""Hosts for tests of real processes: network namespaces, each with a name and an address, on a bridge that can be cut.

    with Network(0, ["a", "b"]) as network:
        process = subprocess.Popen([*network.hosts["a"].enter, "ping", network.hosts["b"].address])
        network.hosts["b"].unplug()

The module runs in separate namespaces (tests/namespaces.py), which end the hosts with it.
"""
import os
import subprocess

from tests.slurm.waiting import wait_for


def command(*words):
    subprocess.run(words, check=True, capture_output=True)


class Host:
    """`enter`: the beginning of a command that runs there, with the same pid, in the root folder."""

    def __init__(self, name, bridge, address, port):
        self.name, self.address, self.port = name, address, port
        self.namespace = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", "sleep", "infinity"])
        wait_for(f"host {name}", lambda: os.readlink(f"/proc/{self.namespace.pid}/exe").endswith("sleep"))
        self.enter = ["nsenter", f"--target={self.namespace.pid}", "--net", "--uts", "--ipc", "--mount", "--"]
        command("ip", "link", "add", "e0", "netns", str(self.namespace.pid), "type", "veth", "peer", "name", port)
        command("ip", "link", "set", port, "master", bridge, "up")
        # The devices of a host are those that its /sys shows.
        for words in [["mount", "-t", "sysfs", "sysfs", "/sys"], ["hostname", name], ["ip", "link", "set", "lo", "up"],
                      ["ip", "link", "set", "e0", "up"], ["ip", "addr", "add", address + "/24", "dev", "e0"]]:
            command(*self.enter, *words)

    def unplug(self):
        """The link has no carrier any more."""
        command("ip", "link", "set", self.port, "down")

    def drop(self):
        """Packets vanish, from now on; the link looks as it did."""
        command("bridge", "link", "set", "dev", self.port, "state", "0")


class Network:
    """A separate bridge with a host for each name. The number, from 0 to 255, distinguishes concurrent networks."""

    def __init__(self, number, names):
        bridge = f"bridge{number}"
        command("ip", "link", "add", bridge, "type", "bridge")
        command("ip", "link", "set", bridge, "up")
        self.hosts = {name: Host(name, bridge, f"10.77.{number}.{i}", f"port{number}.{i}")
                      for i, name in enumerate(names, 1)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            host.namespace.kill()
            host.namespace.wait()
