"""Runs a test's module in separate Linux namespaces: processes, mounts, network, host name.

    if __name__ == "__main__":
        namespaces.main(__name__, ["ip"], prepare)        # a test's last lines

The first process of the namespace of processes ends with the test, and the kernel then ends all others, whatever
happened to the test. If namespaces cannot be made, "skipped: why" is printed instead.
"""
import os
import shutil
import signal
import subprocess
import sys
import unittest

INSIDE = "ONEFLOW_TEST_IN_NAMESPACES"
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--uts"]


def missing(programs):
    """Why they cannot be made here; empty if they can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [name for name in ["unshare", "ip", *programs] if shutil.which(name, path=path) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (tools/install_deps cluster)"
    if os.geteuid() != 0:
        return "namespaces need root"
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"no namespaces: {probe.stderr.strip()}"


def main(module, programs, prepare):
    """Runs the tests of a module in namespaces, after prepare() there, or prints why it cannot."""
    if os.environ.get(INSIDE):
        os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        prepare()
        unittest.main(module)
    why = missing(programs)
    if why:
        print(f"skipped: {why}")
        sys.exit(0)
    # Bash reaps whatever becomes its child, and ends with the test.
    done = subprocess.Popen([*UNSHARE, "bash", "-c", '"$@" & wait $!', "bash", sys.executable, *sys.argv],
                            env=dict(os.environ, **{INSIDE: "1"}))
    signal.signal(signal.SIGTERM, lambda *_: done.kill())
    sys.exit(done.wait())
