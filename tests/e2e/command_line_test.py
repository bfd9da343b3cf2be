"""The command line's own texts: help, version, flags by other names, clusters and sizes, and the first lines of plans."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from tests.e2e.cli import ONEFLOW, FolderCase, run

VERBS = ["model", "compile", "search", "explain", "recipe", "verify", "run", "data", "train", "generate", "simulate", "diff", "calibrate", "cluster", "devices",
         "submit", "status", "logs", "cancel", "completion"]
GROUPS = ["model", "parallelism", "schedule", "memory", "optimizer", "sampling", "search", "run", "data and output", "processes", "job", "examples"]
SMALL = ["--layers=4", "--heads=4", "--hidden=32", "--sequence=16", "--vocab=256"]
# Examples that need a model, or a template of chats, that is not here.
NOT_RUN = ("models/gpt2", "--chat")


def print_help(verb, columns, *flags):
    done = subprocess.run([ONEFLOW, verb, *(flags or ["--help"])], capture_output=True, text=True, check=True,
                          env=dict(os.environ, COLUMNS=str(columns)))
    return done.stdout


def flags_in(text):
    return re.findall(r"^  --(\w+)", text, re.MULTILINE)


def list_examples(verb):
    """The lines after "examples", as a shell would read them."""
    text = print_help(verb, 80).partition("\nexamples\n")[2]
    return text.replace("\\\n", "").strip().splitlines()


class HelpTest(unittest.TestCase):
    def test_help_of_each_verb(self):
        for verb in VERBS:
            for columns in (60, 80, 100):
                with self.subTest(verb, columns=columns):
                    text, everything = print_help(verb, columns), print_help(verb, columns, "--help=all")
                    self.assertLessEqual(max(map(len, everything.splitlines())), columns)
                    groups = [line for line in text.splitlines() if line in GROUPS]
                    self.assertEqual(groups, [group for group in GROUPS if group in groups])
                    self.assertEqual(groups[-1], "examples")
                    self.assertLessEqual(set(flags_in(text)), set(flags_in(everything)))
                    self.assertEqual(len(flags_in(everything)), len(set(flags_in(everything))))

    def test_a_verb_takes_what_its_help_has_and_nothing_else(self):
        flags = {verb: set(flags_in(print_help(verb, 100, "--help=all"))) for verb in VERBS}
        for verb in ["verify"]:
            for flag in set.union(*flags.values()):
                error = run(verb, f"--{flag}=", cwd="/", code=2)[1]
                self.assertEqual("is not a flag" in error or "has no such flag" in error, flag not in flags[verb], error)

    def test_forms_of_asking(self):
        self.assertEqual(print_help("help", 100, "train"), print_help("train", 100))
        self.assertEqual(print_help("train", 100, "-h"), print_help("train", 100))
        self.assertIn("--help=all", run("help", cwd="/")[0])
        self.assertIn("did you mean --version?", run("--verison", cwd="/", code=2)[1])
        self.assertIn("--help=all", run("train", "--help=some", cwd="/", code=2)[1])
        self.assertEqual(len(flags_in(print_help("train", 10))), len(flags_in(print_help("train", 100))))

    def test_version(self):
        text = run("--version", cwd="/")[0]
        self.assertRegex(text, r"^oneflow \S+")
        self.assertRegex(text, r"\nbuild +[0-9a-f]{40}, by (gcc|clang) ")
        for words in [r"\nplans +version \d+", r"\ninstruction set +(baseline|avx2|avx512|avx512_bf16)\n", r"Protobuf \d+\.", r"gRPC \d+\.",
                      r"UCX \d+\."]:
            self.assertRegex(text, words)


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        for name in ["text.txt", "book.txt", "a.txt", "b.txt"]:
            with open(f"{self.dir}/{name}", "w", encoding="utf-8") as text:
                text.write("The words to learn from are few, and they come again and again. " * 40)
        os.mkdir(self.dir + "/bin")
        os.symlink(ONEFLOW, self.dir + "/bin/oneflow")

    def shell(self, line):
        done = subprocess.run(line, shell=True, cwd=self.dir, capture_output=True, text=True, check=False,
                              env=dict(os.environ, PATH=self.dir + "/bin:" + os.environ["PATH"]))
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")

    def test_examples_work_as_written(self):
        ran = 0
        for verb in ["model", "compile", "search", "explain", "verify", "diff", "simulate", "train", "generate"]:
            for line in list_examples(verb):
                if not any(words in line for words in NOT_RUN):
                    self.shell(line)
                    ran += 1
            if verb == "model":  # one that trains in seconds
                self.shell("oneflow model gpt " + " ".join(SMALL) + " --out=gpt.textproto")
            if verb == "compile":
                for name in ["a.plan", "b.plan"]:
                    shutil.copy(self.dir + "/gpt.plan", f"{self.dir}/{name}")
        self.shell(list_examples("data")[0])
        self.assertGreater(ran, 15)


class PlanTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", *SMALL, "--out=gpt.textproto", cwd=cls.dir)

    def oneflow(self, *args, code=0):
        return run(*args, cwd=self.dir, code=code, as_written=True)[1 if code else 0]

    def compile(self, *flags, code=0):
        return self.oneflow("compile", "--graph=gpt.textproto", *flags, "--out=gpt.plan", code=code)

    def test_names_of_other_programs(self):
        self.compile("--global-batch-size=16", "--micro-batches", "4", "--lr=1e-3", "--clip-grad=0.5", "--mesh=pipe=2")
        ours = self.oneflow("explain", "--plan=gpt.plan")
        self.compile("--batch=16", "--micro_batches=4", "--learning_rate=1e-3", "--clip=0.5", "--mesh=pipe=2")
        self.assertEqual(ours, self.oneflow("explain", "--plan=gpt.plan"))
        for flag, words in {"--tensor-model-parallel-size=2": "--mesh=tensor=N", "--micro-batch-size=2": "--micro_batches=M",
                            "--schedule=zb": "did you mean zero_bubble?", "--shcedule=1f1b": "did you mean --schedule?",
                            "--keep=3": "it is a flag of train", "--nofuse": "--fuse=false"}.items():
            self.assertIn(words, self.compile(flag, code=2))

    def test_a_flag_given_twice(self):
        for flags in [["--batch=8", "--batch=4"], ["--batch=8", "--batch=8"], ["--global_batch_size=8", "--batch=4"]]:
            self.assertIn("is given twice: --batch=8 stands before it; give it once", self.compile(*flags, code=2))

    def test_whoever_compiles_takes_the_flags_of_compile(self):
        graph = ["--graph=gpt.textproto", "--batch=16", "--mesh=pipe=2", "--micro_batches=4"]
        flags = ["--clip=0", "--warmup_steps=3", "--weight_decay=0"]
        self.compile(*graph[1:], *flags)
        for verb in ("simulate", "explain"):
            self.assertEqual(self.oneflow(verb, *graph, *flags), self.oneflow(verb, "--plan=gpt.plan"))
            for flag in flags:
                self.assertIn(flag.split("=")[0] + ": cannot be given together with --plan", self.oneflow(verb, "--plan=gpt.plan", flag, code=2))
        self.assertNotEqual(self.oneflow("simulate", *graph), self.oneflow("simulate", *graph, "--clip=0", "--schedule=2bw"))

    def test_warnings_of_idle_flags(self):
        def warnings(*flags, graph="gpt"):
            return run("compile", f"--graph={graph}.textproto", "--batch=8", *flags, "--out=x.plan", cwd=self.dir)[1]
        # Devices whose exchanges overlap are GPUs, those of the plan or of the cluster.
        prefetch = ["--mesh=data=2", "--shard=weights", "--prefetch=2", "--bucket_bytes=1"]
        for flags in [["--cluster=a100"], ["--device=cuda"], ["--overlap=true"]]:
            self.assertEqual(warnings(*prefetch, *flags), "")
        for flags in [[], ["--cluster=a100", "--overlap=false"]]:
            self.assertIn("--prefetch=2 acts on nothing in this plan", warnings(*prefetch, *flags))
        # Copies on their way take memory, too.
        for graph, hidden, sequence in [("gpt", 32, 16), ("wide", 64, 32)]:
            run("model", "gpt", *SMALL, f"--hidden={hidden}", f"--sequence={sequence}", f"--out={graph}.textproto", cwd=self.dir)
            flags = ["--mesh=pipe=2", "--batch=16", "--micro_batches=4"]
            saved = {}
            for offload in ("none", "activations", "states"):
                told = "--offload=activations saves no memory in this plan" in warnings(*flags, f"--offload={offload}", graph=graph)
                saved[offload] = json.loads(self.oneflow("explain", "--plan=x.plan", "--format=json"))["headline"]["bytes_a_device"]
                self.assertEqual(told, offload == "activations" and saved[offload] >= saved["none"], (graph, saved))
        self.assertGreater(saved["activations"], saved["none"])

    def test_a_mesh_axis_one_letter_off(self):
        for axis, meant in [("dat", "data"), ("tp", "tensor"), ("pip", "pipe")]:
            done = subprocess.run([ONEFLOW, "compile", "--graph=gpt.textproto", f"--mesh={axis}=2", "--out=axis.plan"], cwd=self.dir,
                                  capture_output=True, text=True, check=True)
            self.assertIn(f"warning: mesh axis {axis}: did you mean {meant}?", done.stderr)

    def test_clusters_by_name(self):
        self.compile("--mesh=pipe=2", "--batch=8", "--micro_batches=4")
        for name, title in [("a100", "A100"), ("b200", "B200"), ("gb200", "GB200"), ("h100", "H100"), ("h200", "H200"),
                            ("mi300x", "MI300X"), ("v100", "V100")]:
            self.assertRegex(self.oneflow("simulate", "--plan=gpt.plan", f"--cluster={name}"), rf"^gpt on {title}")
            self.assertIn(f"on {title}", self.oneflow("explain", "--plan=gpt.plan", f"--cluster={name}").split("\n\n")[0])
        self.assertIn("known are a100, a100-40g, b200, gb200, h100, h100-96g,",
                      self.oneflow("simulate", "--plan=gpt.plan", "--cluster=zzz", code=2))
        head = self.compile("--cluster=h100", "--device=cuda", "--memory=80G").split("\n\n")[0]
        self.assertRegex(head, r"\npredicted: step .* tokens/s, MFU [\d.]+ %, bubble [\d.]+ %, on H100")
        told = json.loads(self.oneflow("explain", "--plan=gpt.plan", "--cluster=h100", "--format=json"))["headline"]
        self.assertEqual(told["mfu"], json.loads(self.oneflow("simulate", "--plan=gpt.plan", "--cluster=h100", "--format=json"))["mfu"])

    def test_clusters_of_two_kinds_of_devices(self):
        self.compile("--batch=8")
        for fields, words in [("device { kind: CUDA }\ndevice { kind: CPU }", ["two.textproto: has two kinds of devices", "a file for each"]),
                              ("device {\n  kind: CUDA\n  kind: CPU\n}", ["two.textproto:3:", "kind is given twice", "leave one"]),
                              ('name: "a" name: "b"', ["two.textproto:1:", "name is given twice"])]:
            with self.subTest(fields):
                self.write("two.textproto", fields)
                error = self.oneflow("simulate", "--plan=gpt.plan", "--cluster=two.textproto", code=2)
                for word in words:
                    self.assertIn(word, error)
                self.assertNotIn("epeated", error)

    def test_what_a_device_offers_and_what_is_kept_of_it(self):
        flags = ("--batch=8", "--device=cuda", "--cluster=a100-40g")
        line = self.compile(*flags).split("\n")[1]
        self.assertRegex(line, r"a GPU of [\d,]+ bytes \(39\.4 GiB\), 3\.0 GiB kept for libraries, [\d.]+ % of the rest$")
        told = json.loads(self.compile(*flags, "--format=json"))["headline"]
        self.assertEqual((told["device_capacity_bytes"], told["device_kept_bytes"]), (42294312960, 3 << 30))
        # Of what is kept nothing goes to a plan, unless it is asked for.
        self.assertRegex(self.compile(*flags, "--memory=4GiB").split("\n")[1], r"of [\d,]+ bytes \(4\.0 GiB\), 3\.0 GiB kept")
        self.assertRegex(self.compile(*flags, "--memory=3GiB", "--reserve=0").split("\n")[1],
                         r"\(3\.0 GiB\), [\d.]+ %; the plan leaves [\d.]+ GiB, and 3\.0 GiB is what libraries take$")
        line = self.compile(*flags, "--memory=3GiB", "--reserve=1GiB").split("\n")[1]
        self.assertIn("1.0 GiB kept", line)
        self.assertEqual(line, self.oneflow("explain", "--plan=gpt.plan").split("\n")[1])
        self.oneflow("compile", "--graph=gpt.textproto", *flags, "--memory=3GiB", "--reserve=512MiB", "--out=other.plan")
        self.assertRegex(self.oneflow("diff", "gpt.plan", "other.plan"), r"capacity, kept for libraries +1\.0 GiB -> 512\.0 MiB \(-50")
        for more, words in [(["--memory=1GiB"], ["--memory=1GiB: leaves nothing to a plan", "3.0 GiB kept", "--reserve=0"]),
                            (["--reserve=40GiB"], ["--reserve=40GiB: leaves nothing to a plan", "39.4 GiB"]),
                            (["--reserve=some"], ["--reserve=some", "is not a size"]),
                            (["--memory=3073MiB"], ["a device has", "3.0 GiB kept for libraries: ", "too many"])]:
            error = self.oneflow("compile", "--graph=gpt.textproto", *flags, *more, "--out=gpt.plan", code=2)
            for word in words:
                self.assertIn(word, error)
        error = self.oneflow("compile", "--graph=gpt.textproto", "--batch=8", "--reserve=1GiB", "--out=gpt.plan", code=2)
        self.assertIn("--reserve=1GiB: acts on nothing: the memory of a device is not known", error)
        self.assertIn("too many", self.oneflow("simulate", "--plan=gpt.plan", "--memory=3073MiB", "--reserve=3GiB", code=2))

    def test_clusters_are_listed_and_written(self):
        self.compile("--batch=8")
        self.assertRegex(self.oneflow("cluster"), r"(?m)^a100-40g +A100-40G nodes of 8 +312 +39\.4 GiB +3\.0 GiB +1\.5\d +node: 8 at .* GB/s; cluster: 25 GB/s$")
        mine = self.oneflow("cluster", "h100-pcie")
        self.write("mine.textproto", mine)
        self.assertIn("# PCIe gen5", mine)
        step = lambda cluster: json.loads(self.oneflow("simulate", "--plan=gpt.plan", f"--cluster={cluster}", "--format=json"))["step_seconds"]
        self.assertEqual(step("mine.textproto"), step("h100-pcie"))
        sheet = {"bf16_tflops": "362", "memory": "48GB", "memory_bandwidth": "864GB", "devices": "4", "link_bandwidth": "32GB",
                 "network_bandwidth": "12.5GB"}
        flags = lambda **other: [f"--{name}={value}" for name, value in {**sheet, **other}.items() if value]
        text = self.oneflow("cluster", *flags())
        for line in ['base: "a100"', "peak_flops_bf16: 3.62e+14", "memory_bandwidth: 8.64e+11", "memory_bytes: 48000000000", "size: 4",
                     "bandwidth: 2.4192e+10  # 3.2e+10 x 0.756", "bandwidth: 1.25e+10"]:
            self.assertIn(line, text)
        self.write("mine.textproto", text)
        self.assertGreater(step("mine.textproto"), 0)
        offered = lambda: json.loads(self.compile("--batch=8", "--device=cuda", "--cluster=mine.textproto", "--format=json"))["headline"]
        for reserve, kept in [((), 3 << 30), (("--reserve=1GiB",), 1 << 30), (("--reserve=0",), 0)]:
            self.write("mine.textproto", self.oneflow("cluster", *flags(), *reserve))
            self.assertEqual((48000000000, kept), (offered()["device_capacity_bytes"], offered()["device_kept_bytes"]))
        for args, words in [(flags(link_bandwidth=None), ["--link_bandwidth: is missing", "six figures: --bf16_tflops, --memory,"]),
                            (flags(bf16_tflops="0"), ["--bf16_tflops=0: is out of range"]),
                            (flags(devices="0"), ["--devices=0: is no number of devices"]),
                            (flags(devices="many"), ["--devices=many: is no number of devices"]),
                            (["--reserve=1GB"], ["--bf16_tflops: is missing", "needs six figures"]),
                            (flags(memory="2GB"), ["reserve_bytes is 3221225472 of memory_bytes 2000000000"]),
                            (flags(memory_bandwidth="fast"), ["--memory_bandwidth=fast", "is not a size"]),
                            (["h100", "a100"], ["oneflow cluster h100 a100: is more than one cluster"]),
                            (["h100", "--memory=48GB"], ["--memory: acts on nothing beside the name h100", "give all six figures and no name"]),
                            (["h100", "--reserve=1GB"], ["--reserve: acts on nothing beside the name h100", "edit the file"]),
                            (["h10"], ['oneflow cluster h10: NAME is "h10"', "did you mean h100?"]),
                            (["./mine.textproto"], ['NAME is "./mine.textproto", which is no known cluster', "known are a100,"]),
                            (["h100", "--format=json"], ["--format=json: acts on nothing"])]:
            error = self.oneflow("cluster", *args, code=2)
            for word in words:
                self.assertIn(word, error)

    def test_first_lines(self):
        text = self.compile("--mesh=pipe=2,data=2", "--batch=16", "--micro_batches=4", "--memory=64M")
        head = text.split("\n\n")[0]
        self.assertRegex(head, r"^gpt: [\d,]+ parameters on 4 devices, mesh pipe=2,data=2\n"
                               r"memory: [\d,]+ bytes \([\d.]+ [KM]iB\) a device of 67,108,864 bytes \(64.0 MiB\), [\d.]+ %\n"
                               r"predicted: step [\d.]+ [mu]s \(no run of this kind was compared\), [\d,]+ tokens/s \([\d,]+ a device\), bubble [\d.]+ %, on a CPU of 100 GFLOP/s and 10 GB/s "
                               r"\(no --cluster\)\nproof: live, memory-safe, type-safe\n"
                               r"axis pipe=2: blocks, 2 a stage\naxis data=2: batch$")
        self.assertEqual(head, self.oneflow("explain", "--plan=gpt.plan", "--memory=64M").split("\n\n")[0])
        told = json.loads(self.oneflow("explain", "--plan=gpt.plan", "--format=json"))["headline"]
        step = json.loads(self.oneflow("simulate", "--plan=gpt.plan", "--format=json"))["step_seconds"]
        self.assertEqual((told["step_seconds"], told["devices"]), (step, 4))
        self.assertAlmostEqual(told["tokens_a_second"], 16 * 16 / step, delta=1)
        self.assertEqual(told["parameters"], int(re.search(r"gpt: ([\d,]+) ", head)[1].replace(",", "")))
        self.assertNotIn("AVX512", self.compile("--device=cuda", "--precision=bf16"))  # what computes is a GPU
        gpu = self.compile("--device=cuda").split("\n\n")[0]
        self.assertIn("predicted: no time of a step: --cluster: is missing", gpu)

    def test_no_single_name_is_starred(self):
        self.compile("--mesh=pipe=2,data=2", "--batch=16", "--micro_batches=4")
        text = self.oneflow("explain", "--plan=gpt.plan")
        self.assertIn("h.1.mlp.add is on stage 0; h.2.ln_1 of stage 1 needs it", text)
        for line in text.splitlines():
            self.assertEqual("*" in line, bool(re.search(r"; \d+ times$", line)), line)


if __name__ == "__main__":
    unittest.main()
