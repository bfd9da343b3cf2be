"""oneflow devices: says what there is, in a build without CUDA why there is nothing."""
import json
import tempfile
import unittest

from tests.e2e.cli import run


class DevicesTest(unittest.TestCase):
    def devices(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            return run("devices", *flags, cwd=folder, code=1)

    def test_a_build_without_cuda_says_so_in_one_sentence(self):
        out, err = self.devices()
        self.assertEqual(out, "")
        self.assertEqual(err, "oneflow: error: no GPU can be used: built without CUDA; build with --config=cuda\n")

    def test_json_has_the_reason_and_empty_lists(self):
        out, _ = self.devices("--format=json")
        report = json.loads(out)
        self.assertEqual(report["gpus"], [])
        self.assertEqual(report["libraries"], [])
        self.assertIn("built without CUDA", report["no_gpu"])

    def test_takes_a_folder_and_no_other_format(self):
        self.devices("--cuda_libs=/nowhere")
        with tempfile.TemporaryDirectory() as folder:
            _, err = run("devices", "--format=dot", cwd=folder, code=2)
        self.assertIn("use text or json", err)


if __name__ == "__main__":
    unittest.main()
