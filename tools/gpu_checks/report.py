"""Results of a part of tools/gpu_check, written as they come: a part that is cut short leaves what it had."""
import json
import os
import time
import traceback


class Part:
    """One part's checks. As a context, it turns what a check did not expect into a failed check.

        with Part("plans", "results") as part:
            part.passed("data=2", seconds=1.5)
            part.skip("tensor=4", "there are 2 GPUs")
    """

    def __init__(self, name, folder):
        self.name = name
        self.checks = []
        self.begin = time.monotonic()
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, name)
        print(f"=== {name}", flush=True)
        self._write()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and isinstance(error, Exception):
            self.fail("the check itself", "".join(traceback.format_exception(kind, error, trace)))
        counts = ", ".join(f"{self.count(status)} {status}" for status in ["passed", "failed", "skipped"])
        print(f"{self.name}: {counts}, {time.monotonic() - self.begin:.0f} s", flush=True)
        return isinstance(error, Exception)

    def count(self, status):
        return sum(check["status"] == status for check in self.checks)

    def passed(self, check, **figures):
        self._add("passed", check, "", figures)

    def fail(self, check, why, **figures):
        self._add("failed", check, why, figures)

    def skip(self, check, why, **figures):
        self._add("skipped", check, why, figures)

    def judge(self, good, check, why, **figures):
        """Passed if good, else failed with `why`."""
        self._add("passed" if good else "failed", check, "" if good else why, figures)

    def _add(self, status, check, why, figures):
        self.checks.append({"check": check, "status": status, "why": why, **figures})
        print(_line(self.checks[-1]), flush=True)
        self._write()

    def _write(self):
        for suffix, text in [(".json", json.dumps({"part": self.name, "checks": self.checks}, indent=1) + "\n"),
                             (".txt", "".join(_line(check) + "\n" for check in self.checks))]:
            with open(self.path + suffix + ".new", "w", encoding="utf-8") as out:
                out.write(text)
            os.replace(self.path + suffix + ".new", self.path + suffix)


def _line(check):
    figures = "  ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
                        for key, value in check.items() if key not in ("check", "status", "why"))
    why = check["why"].strip().replace("\n", "\n    ")
    return f"{check['status']:8} {check['check']:48} {figures}{'  ' if figures and why else ''}{why}".rstrip()
