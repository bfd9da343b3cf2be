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

    def __init__(self, name):
        self.name, self.address, self.ports = name, None, {}  # the first device's; {device: its port at the bridge}
        self.namespace = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", "sleep", "infinity"])
        wait_for(f"host {name}", lambda: os.readlink(f"/proc/{self.namespace.pid}/exe").endswith("sleep"))
        self.enter = ["nsenter", f"--target={self.namespace.pid}", "--net", "--uts", "--ipc", "--mount", "--"]
        # The devices of a host are those that its /sys shows.
        for words in [["mount", "-t", "sysfs", "sysfs", "/sys"], ["hostname", name], ["ip", "link", "set", "lo", "up"]]:
            command(*self.enter, *words)

    def attach(self, device, bridge, address, port):
        command("ip", "link", "add", device, "netns", str(self.namespace.pid), "type", "veth", "peer", "name", port)
        command("ip", "link", "set", port, "master", bridge, "up")
        for words in [["ip", "link", "set", device, "up"], ["ip", "addr", "add", address + "/24", "dev", device]]:
            command(*self.enter, *words)
        self.ports[device] = port
        self.address = self.address or address

    def unplug(self):
        """The link has no carrier any more."""
        command("ip", "link", "set", self.ports["e0"], "down")

    def drop(self, device="e0"):
        """Packets vanish, from now on; the link looks as it did."""
        command("bridge", "link", "set", "dev", self.ports[device], "state", "0")

    def part(self, other):
        """Packets between the two vanish; they reach all others."""
        for host in [self, other]:
            command("bridge", "link", "set", "dev", host.ports["e0"], "isolated", "on")


class Network:
    """A separate bridge with a host for each name. The number, from 0 to 255, distinguishes concurrent networks."""

    def __init__(self, number, names):
        self.hosts = {}
        try:
            for name in names:
                self.hosts[name] = Host(name)
            self.add("e0", number)
        except BaseException:
            self.__exit__()
            raise

    def add(self, device, number):
        """Gives all hosts a device, on another bridge."""
        bridge = f"bridge{number}"
        command("ip", "link", "add", bridge, "type", "bridge")
        command("ip", "link", "set", bridge, "up")
        for i, host in enumerate(self.hosts.values(), 1):
            host.attach(device, bridge, f"10.77.{number}.{i}", f"port{number}.{i}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            host.namespace.kill()
            host.namespace.wait()
