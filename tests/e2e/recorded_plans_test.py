"""Every plan that the sample under sanitizers reads is in recorded_plans.gz: it compiles none, so a plan that is missing would
first be missed there."""
import gzip
import os
import struct
import subprocess
import tempfile
import unittest

TESTS = ["boxing_test", "mutation_test", "touched_bytes_test"]


def keys(data):
    """Keys and plans in turn, each after its length (recorded_plans.cc)."""
    texts, at = [], 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        texts.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return set(texts[::2])


class RecordedPlansTest(unittest.TestCase):
    def test_all_are_recorded(self):
        with gzip.open("tests/e2e/recorded_plans.gz") as file:
            recorded = keys(file.read())
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/plans"
            for test in TESTS:
                subprocess.run([f"tests/e2e/{test}"], env={**os.environ, "ONEFLOW_RECORD_PLANS": path}, check=True, stdout=subprocess.DEVNULL)
            with open(path, "rb") as file:
                compiled = keys(file.read())
        self.assertTrue(compiled)
        self.assertEqual(compiled - recorded, set(), "run tests/e2e/record_plans")


if __name__ == "__main__":
    unittest.main()
