"""Compiles and simulates plans for tools/bench overlap: the firings of a step by stream, and altered clusters."""
import collections
import json
import os
import re
import subprocess

Firing = collections.namedtuple("Firing", "begin end name kind")  # kind: forward, backward, update, exchange or other


def split_levels(text):
    """The text of a cluster file before its levels, and each level."""
    head, *levels = re.split(r"(?=^level \{)", text, flags=re.M)
    return head, levels


class Folder:
    def __init__(self, oneflow, folder):
        self.oneflow, self.folder = oneflow, folder

    def call(self, *args):
        return subprocess.run([self.oneflow, *args], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def simulate(self, cluster):
        """The JSON of a simulation, and the firings of stage 0 in one step by stream."""
        summary = self.summarize(cluster)
        self.call("simulate", "--plan=gpt.plan", "--cluster=" + cluster, "--steps=1", "--trace=trace.json")
        with open(os.path.join(self.folder, "trace.json")) as trace:
            events = json.load(trace)["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] % 1000000 == 0}
        streams = {name: [] for name in names.values()}
        for e in events:
            if e["ph"] == "X" and e["pid"] % 1000000 == 0:
                streams[names[e["tid"]]].append(Firing(e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"], e["cat"]))
        return summary, streams

    def summarize(self, cluster):
        return json.loads(self.call("simulate", "--plan=gpt.plan", "--cluster=" + cluster, "--format=json"))

    def alter(self, cluster, change, first_level=0):
        """A cluster file whose levels from `first_level` on are changed by a function of their text."""
        with open(cluster) as file:
            head, levels = split_levels(file.read())
        path = os.path.join(self.folder, "altered.textproto")
        with open(path, "w") as file:
            file.write(head + "".join(change(text) if i >= first_level else text for i, text in enumerate(levels)))
        return path


def slow_down(factor):
    """A change of levels: links that are slower by this factor."""
    return lambda text: re.sub(r"\bbandwidth: (\S+)", lambda match: f"bandwidth: {float(match[1]) / factor}", text)


def free_links(text):
    """A change of levels: exchanges on these links take no time."""
    return re.sub(r"_(start|step): \S+", r"_\1: 0", re.sub(r"\bbandwidth: \S+", "bandwidth: 1e24", text))
