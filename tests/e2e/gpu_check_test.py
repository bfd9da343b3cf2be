"""tools/gpu_check in a bundle whose programs are scripts: what is run, skipped, failed and written."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

NO_GPU = {"gpus": [], "libraries": [], "no_gpu": "no GPU can be used: this machine has no NVIDIA driver; install it"}
ONE_GPU = {"gpus": [{"name": "GPU"}], "no_gpu": "",
           "libraries": [{"name": "cuBLASLt", "missing": ""}, {"name": "NCCL", "missing": "NCCL: not found"}]}
TESTS = "products agree, to the bit\nsums [of rows]"


class Bundle:
    """A folder like the bundle's. `oneflow` prints `devices`; its other verbs are a shell script's."""

    def __init__(self, folder, devices, verbs="exit 2", kernel_test="exit 0"):
        self.folder, self.out = folder, os.path.join(folder, "results")
        os.makedirs(folder + "/bin")
        shutil.copy("tools/gpu_check", folder)
        shutil.copytree("tools/gpu_checks", folder + "/gpu_checks")
        self.program("oneflow", f"""
            if [ "$1" = devices ]; then
              cat <<'JSON'\n{json.dumps(devices)}\nJSON
              exit {1 if devices["no_gpu"] else 0}
            fi
            {verbs}""")
        self.program("kernel_test", f"""
            if [ "$1" = --list-test-names-only ]; then echo "{TESTS}"; exit 2; fi
            {kernel_test}""")
        self.program("numerics_test", "exit 0")

    def program(self, name, script):
        path = os.path.join(self.folder, "bin", name)
        with open(path, "w") as out:
            out.write("#!/bin/sh\n" + script + "\n")
        os.chmod(path, 0o755)

    def check(self, *parts, code=0, flags=()):
        """Runs parts; returns {part: {check: (status, why)}} as the files say."""
        done = subprocess.run([self.folder + "/gpu_check", "--out=" + self.out, *flags, *parts], capture_output=True, text=True,
                              env=dict(os.environ, PATH="/usr/bin:/bin"), check=False)
        assert done.returncode == code, done.stdout + done.stderr
        found = {}
        for part in parts:
            with open(f"{self.out}/{part}.json") as file:
                report = json.load(file)
            found[part] = {check["check"]: (check["status"], check["why"]) for check in report["checks"]}
            with open(f"{self.out}/{part}.txt") as file:
                assert len(file.read().splitlines()) >= len(report["checks"])
        return found


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_without_a_gpu_every_part_is_skipped_with_the_reason(self):
        parts = ["conformance", "numerics", "plans", "memory", "sanitizer", "nccl", "bench"]
        for part, checks in Bundle(self.folder, NO_GPU).check(*parts).items():
            self.assertEqual(checks, {"all": ("skipped", NO_GPU["no_gpu"])}, part)

    def test_conformance_runs_each_test_by_its_name(self):
        script = f'echo "$1" >> {self.folder}/asked'
        found = Bundle(self.folder, ONE_GPU, kernel_test=script).check("conformance")
        self.assertEqual(found["conformance"], {name: ("passed", "") for name in TESTS.splitlines()})
        with open(self.folder + "/asked") as file:
            self.assertEqual(file.read().splitlines(), ["products agree\\, to the bit", "sums \\[of rows\\]"])

    def test_a_kernel_that_fails_is_a_failure_with_what_it_said(self):
        script = 'case "$1" in sums*) echo "row 3 differs"; exit 1;; esac'
        found = Bundle(self.folder, ONE_GPU, kernel_test=script).check("conformance", code=1)
        self.assertEqual(found["conformance"]["products agree, to the bit"], ("passed", ""))
        self.assertEqual(found["conformance"]["sums [of rows]"], ("failed", "row 3 differs\n"))

    def test_a_verb_that_refuses_the_device_is_a_skipped_part(self):
        verbs = 'if [ "$1" = compile ]; then echo "oneflow: error: --device: no such flag" >&2; exit 2; fi; exit 0'
        found = Bundle(self.folder, ONE_GPU, verbs).check("numerics", "plans", "bench")
        for checks in found.values():
            self.assertEqual(checks["all"],
                             ("skipped", "oneflow compile --device=cuda: oneflow: error: --device: no such flag"))

    def test_what_is_missing_is_skipped_and_the_rest_runs(self):
        found = Bundle(self.folder, ONE_GPU, "exit 0").check("nccl", "plans")
        self.assertEqual(found["nccl"], {"all": ("skipped", "NCCL: not found")})
        self.assertEqual(found["plans"]["one device, 1f1b: train"], ("passed", ""))
        self.assertEqual(found["plans"]["pipe=2,data=2,tensor=2, zero_bubble: train"], ("passed", ""))

    def test_losses_on_a_gpu_that_are_far_from_the_cpus_fail(self):
        verbs = """
            loss=2.5
            for flag in "$@"; do
              case "$flag" in
                --metrics=*) metrics=${flag#--metrics=};;
                --device=cuda) loss=2.6;;
              esac
            done
            if [ "$1" = train ]; then echo "{\\"step\\": 0, \\"loss\\": $loss}" > "$metrics"; fi"""
        found = Bundle(self.folder, ONE_GPU, verbs).check("numerics", code=1)["numerics"]
        self.assertEqual(found["f32: losses of 20 steps, GPU beside CPU"], ("failed", "more than 0.001 apart"))
        self.assertEqual(found["f32: a second run has the same bits"], ("passed", ""))
        self.assertEqual(found["GPT-2 beside PyTorch's stored references"], ("passed", ""))

    def test_several_gpus_run_in_one_process_and_in_many_and_a_lost_one_ends_all(self):
        devices = dict(ONE_GPU, gpus=[{"name": "GPU"}] * 4, libraries=[{"name": "NCCL", "missing": ""}])
        verbs = f"""
            echo "$@" >> {self.folder}/asked
            for flag in "$@"; do
              case "$flag" in --metrics=*) metrics=${{flag#--metrics=}};; esac
            done
            if [ "$1" = train ]; then echo '{{"step": 0, "loss": 2.5}}' > "$metrics"; fi
            case "$*" in *--steps=1000000*) sleep 100 & wait $!; exit CODE;; esac"""
        lost = "data=2, 2 processes: one that is killed ends the other in 5 s"
        for code, verdict in [(1, ("passed", "")), (0, ("failed", "exit code 0"))]:
            bundle = Bundle(tempfile.mkdtemp(dir=self.folder), devices, verbs.replace("CODE", str(code)))
            found = bundle.check("nccl", code=1 - code)["nccl"]
            self.assertEqual(found.pop(lost), verdict)
            self.assertEqual(set(found.values()), {("passed", "")})
            self.assertEqual(len(found), 21)  # three meshes of two GPUs in two ways, five of four in three
        with open(self.folder + "/asked", encoding="utf-8") as file:
            asked = file.read()
        for line in ["--mesh=data=4 --processes=1", "--mesh=data=4 --processes=2", "--mesh=pipe=2,data=2 --processes=4"]:
            self.assertIn(line, asked)

    def test_the_benchmark_holds_six_plans_on_the_measured_gpu_against_their_simulation(self):
        verbs = """
            for flag in "$@"; do
              case "$flag" in --metrics=*) metrics=${flag#--metrics=};; esac
            done
            case "$1" in
              simulate) echo '{"step_seconds": 0.11}';;
              train)
                echo "step 1/2 loss 2 100 tokens/s"
                if [ -n "$metrics" ]; then
                  for s in 9 9 9 9 SECONDS SECONDS SECONDS; do echo "{\\"step_seconds\\": $s}"; done > "$metrics"
                fi;;
            esac"""
        mean = "simulated against measured, six plans"
        for seconds, verdict in [("0.1", ("passed", "")), ("0.09", ("failed", "more than 15% off"))]:
            bundle = Bundle(tempfile.mkdtemp(dir=self.folder), ONE_GPU, verbs.replace("SECONDS", seconds))
            found = bundle.check("bench", code=0 if verdict[0] == "passed" else 1, flags=["--torch_python=false"])["bench"]
            self.assertEqual(found["kernels"], ("passed", ""))
            self.assertEqual(found[mean], verdict)
            plans = [check for check in found if check.startswith("simulated gpt2")]
            self.assertEqual(len(plans), 6)
            with open(bundle.out + "/bench.json", encoding="utf-8") as file:
                checks = {check["check"]: check for check in json.load(file)["checks"]}
            self.assertAlmostEqual(checks[plans[0]]["measured_seconds"], float(seconds))
            self.assertAlmostEqual(checks[mean]["off"], 0.11 / float(seconds) - 1)
        verbs = verbs.replace("simulate)", 'calibrate) echo "no clock" >&2; exit 1;; simulate)')
        found = Bundle(tempfile.mkdtemp(dir=self.folder), ONE_GPU, verbs).check("bench", code=1,
                                                                                         flags=["--torch_python=false"])["bench"]
        self.assertEqual(found["kernels"], ("failed", "no clock"))
        self.assertEqual(found[mean], ("skipped", "the GPU could not be measured"))

    def test_the_benchmark_trains_1_5b_and_torch_compile_beside_it(self):
        verbs = 'if [ "$1" = train ]; then echo "step 1/2 loss 2 8192 tokens/s"; fi; if [ "$1" = calibrate ]; then exit 1; fi'
        torch = """
            if [ "$1" = -c ]; then WHY; fi
            echo "$@" >> torch_asked
            cat >> torch_asked
            echo 9 9 9 0.5 0.5 0.5"""
        rows = ["gpt2-124m, bf16, batch 8, one GPU", "gpt2-124m, f32, batch 8, one GPU", "gpt2-1.5b, bf16, batch 8, one GPU"]
        for why in ["", "ModuleNotFoundError: No module named 'torch'"]:
            bundle = Bundle(tempfile.mkdtemp(dir=self.folder), ONE_GPU, verbs)
            bundle.program("python", torch.replace("WHY", f'echo "{why}" >&2; exit 1' if why else "exit 0"))
            flags = ["--torch_python=" + bundle.folder + "/bin/python"]
            found = bundle.check("bench", code=1, flags=flags)["bench"]  # the GPU is not measured
            for row in rows:
                self.assertEqual(found[row], ("passed", ""))
                self.assertEqual(found[row + ": torch.compile"],
                                 ("skipped", "no PyTorch beside it (--torch_python): " + why) if why else ("passed", ""))
            if why:
                continue
            with open(bundle.out + "/bench.json", encoding="utf-8") as file:
                checks = {check["check"]: check for check in json.load(file)["checks"]}
            self.assertEqual(checks[rows[2] + ": torch.compile"]["oneflow_to_torch"], 8192 / (8 * 1024 / 0.5))
            with open(os.path.join(bundle.out, "work", "torch_asked"), encoding="utf-8") as file:
                asked = file.read()
            self.assertIn("gpu_checks/torch_gpt2.py --layers=48 --heads=25 --hidden=1600 --sequence=1024 --vocab=50257 --batch=8 "
                          "--threads=1 --precision=bf16 --compile --device=cuda\nsteps 30\n", asked)

    def test_outside_of_a_bundle_it_says_so(self):
        bundle = Bundle(self.folder, ONE_GPU)
        os.remove(bundle.folder + "/bin/oneflow")
        done = subprocess.run([bundle.folder + "/gpu_check", "--out=" + bundle.out], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, f"gpu_check: {bundle.folder}/bin/oneflow is not there: run it in the archive that "
                         "tools/bundle makes\n")

    def test_a_program_that_is_not_there_fails_its_part_in_a_sentence(self):
        bundle = Bundle(self.folder, ONE_GPU, 'if [ "$1" = train ]; then exit 1; fi')
        os.remove(bundle.folder + "/bin/numerics_test")
        status, why = bundle.check("numerics", code=1)["numerics"]["GPT-2 beside PyTorch's stored references"]
        self.assertEqual(status, "failed")
        self.assertEqual(why, f"{bundle.folder}/bin/numerics_test cannot be run: No such file or directory")

    def test_a_folder_of_libraries_is_the_loaders_first(self):
        script = f'echo "$LD_LIBRARY_PATH" > {self.folder}/paths'
        Bundle(self.folder, ONE_GPU, kernel_test=script).check("conformance", flags=["--cuda_libs=/opt/libs"])
        with open(self.folder + "/paths") as file:
            self.assertEqual(file.read().split(":")[0].strip(), "/opt/libs")

    def test_a_part_that_does_not_exist_is_refused(self):
        bundle = Bundle(self.folder, ONE_GPU)
        done = subprocess.run([bundle.folder + "/gpu_check", "speed"], capture_output=True, text=True, cwd=self.folder,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no part speed", done.stderr)


if __name__ == "__main__":
    unittest.main()
