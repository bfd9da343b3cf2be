"""The checks find what they are for: each is given a tree with one mistake."""

import pathlib
import tempfile
import unittest

from tests.layering import check_sources


def find_problems(files):
    """The problems of a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            path = pathlib.Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_sources.problems(directory)


def find_include_problems(path, included):
    return find_problems({path: f'#include "{included}"\n'})


class CheckSourcesTest(unittest.TestCase):
    def assert_one(self, found, *parts):
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_good_tree(self):
        self.assertEqual([], find_problems({
            "proto/plan.proto": 'import "proto/graph.proto";\n',
            "oneflow_core/op/op.cc": '#include <vector>\n#include "oneflow_core/graph/graph.h"\n'
                                     '#include "absl/status/status.h"\n',
            "compiler/compile.cc": '#include "oneflow_core/model/gpt.h"\n#include "compiler/compile.h"\n',
            "actor_runtime/exec/runtime.cc": '#include "oneflow_core/plan/message.h"\n',
            "actor_runtime/exec/runtime_test.cc": '#include "tests/helpers.h"\n',
            "tools/oneflow/train/train.cc": '#include "compiler/compile.h"\n'
                                      '#include "actor_runtime/exec/runtime.h"\n',
        }))

    def test_rooms(self):
        for path, included in [
            ("compiler/a.cc", "actor_runtime/b.h"),
            ("actor_runtime/a.cc", "compiler/b.h"),
            ("actor_runtime/kernel/a.cu", "compiler/b.h"),
            ("actor_runtime/a_test.cc", "compiler/b.h"),
            ("oneflow_core/plan/a.h", "compiler/b.h"),
            ("oneflow_core/plan/a.h", "actor_runtime/b.h"),
            ("compiler/a.cc", "tools/oneflow/b.h"),
            ("compiler/a.cc", "tests/helpers.h"),
        ]:
            with self.subTest(path=path, included=included):
                self.assert_one(find_include_problems(path, included), f"{path}:1", included)

    def test_words(self):
        listing = {"tests/layering/words.txt": "# A comment.\nplaces? | buffer | code | oneflow_core/plan\n"
                                               "[Tt]enure | lifetime | text | oneflow_core/plan compiler/memory\n"}
        good = ("// In the place of another; places.\nint places_taken = 0;  // places\n"
                'Fail("two \\" places");\n')
        self.assertEqual([], find_problems({**listing, "oneflow_core/plan/a.cc": good, "compiler/lower/a.cc": "int place;\n"}))
        for line, word in [("int place;", "place"), ("int x = places_ + 1;  // buffers", "places_"), ("// A tenure.", "tenure"),
                           ('Fail("of Tenure");', "Tenure")]:
            with self.subTest(line=line):
                self.assert_one(find_problems({**listing, "oneflow_core/plan/a.cc": "\n" + line + "\n"}),
                                "oneflow_core/plan/a.cc:2", f'"{word}"')
        for folders in ["*", "oneflow_core"]:
            rows = {"tests/layering/words.txt": f"places? | buffer | code | {folders}\n"}
            self.assert_one(find_problems({**rows, "oneflow_core/net/a.cc": "int place;\n"}), '"place"')
        with self.assertRaisesRegex(ValueError, "place: .*neither"):
            find_problems({"tests/layering/words.txt": "place | buffer | names | proto\n"})

    def test_walk(self):
        walk = {"README.md": "A walk:\n1. [tools/a.cc](tools/a.cc): one\n2. [b.h](proto/b.h): two\n   ([c](proto/c.h))\n",
                "tools/a.cc": "// The first.\n// Next: proto/b.h.\nint a;\n", "proto/b.h": "// The last.\n"}
        self.assertEqual([], find_problems(walk))
        late = "// The first.\n#include <vector>\n// Next: proto/b.h.\n"
        self.assert_one(find_problems({**walk, "tools/a.cc": late}), "tools/a.cc:", "proto/b.h")
        self.assert_one(find_problems({name: text for name, text in walk.items() if name != "proto/b.h"}),
                        "README.md: proto/b.h", "not exist")
        self.assert_one(find_problems({"README.md": "1. [one](tools/a.cc)\n", "tools/a.cc": ""}), "README.md: no walk")

    def test_proto_imports(self):
        found = find_problems({"proto/a.proto": 'import "oneflow_core/plan/b.proto";\n'})
        self.assert_one(found, "proto must not include oneflow_core")

    def test_core_folders(self):
        for folder, other in [
            ("base", "tensor"), ("tensor", "graph"), ("graph", "op"), ("op", "model"),
            ("tensor", "plan"), ("plan", "model"), ("graph", "plan"), ("op", "plan"), ("model", "plan"),
        ]:
            with self.subTest(folder=folder, other=other):
                found = find_include_problems(f"oneflow_core/{folder}/a.h", f"oneflow_core/{other}/b.h")
                self.assert_one(found, f"oneflow_core/{folder} must not include oneflow_core/{other}")

    def test_folder_cycles(self):
        include = '#include "compiler/{}/b.h"\n'.format
        tree = {"compiler/lower/a.h": include("schedule"), "compiler/schedule/a.h": include("memory"),
                "compiler/memory/a_test.cc": include("lower"), "compiler/lower/b.h": include("lower")}
        self.assertEqual([], find_problems(tree))
        self.assert_one(find_problems({**tree, "compiler/memory/a.h": include("lower")}),
                        "compiler/lower -> compiler/schedule -> compiler/memory -> compiler/lower")

    def test_code_for_gpus(self):
        for line in ["kernel<<<grid, block>>>(x);", "asm volatile(\"\");", "atomicAdd(sum, x);", "#include <cub/cub.cuh>",
                     "cudaLaunchKernel(f, grid, block, args, 0, stream);", "x = __shfl_xor(x, 1);"]:
            with self.subTest(line=line):
                self.assert_one(find_problems({"actor_runtime/cuda/kernel/a.cu": line + "\n"}), "a.cu:1", line)
        self.assertEqual([], find_problems({
            "actor_runtime/cuda/kernel/a.cu": "x = __shfl_xor_sync(m, x, 1);  // never atomicAdd(sum, x)\n",
            "actor_runtime/cuda/kernel/mma.cuh": "asm volatile(\"\");\n",
            "actor_runtime/cuda/emulated/fiber.cc": "asm volatile(\"\");\n",
        }))

    def test_unknown_core_folder(self):
        self.assert_one(find_problems({"oneflow_core/new/a.h": "\n"}), "is not in CORE_FOLDERS")

    def test_long_files(self):
        text = "\n" * (check_sources.MAX_LINES + 1)
        self.assert_one(find_problems({"compiler/a.cc": text}), "501 lines, more than 500")
        self.assert_one(find_problems({"tests/e2e/a_test.py": text}), "501 lines, more than 500")

    def test_golden_files(self):
        name = "tests/golden/fuse/a.golden"
        line = "×" * check_sources.GOLDEN_COLUMNS + "\n"
        self.assertEqual([], find_problems({name: line * check_sources.GOLDEN_LINES}))
        self.assert_one(find_problems({name: line * (check_sources.GOLDEN_LINES + 1)}), name, "61 lines, more than 60")
        self.assert_one(find_problems({name: "\nx" + line}), f"{name}:2", "121 columns, more than 120")

    def test_types_of_one_name(self):
        header = "namespace oneflow {{\nstruct {} {{\n  int a;\n}};\n}}  // namespace oneflow\n"
        one = {"compiler/a.h": header.format("Port"), "actor_runtime/b.h": header.format("Socket")}
        self.assertEqual([], find_problems({**one, "tools/c.cc": header.format("Port")}))
        self.assert_one(find_problems({**one, "tools/c.h": header.format("Port")}), "tools/c.h: compiler/a.h", "oneflow::Port")
        other = header.format("Port").replace("oneflow", "oneflow::cuda")
        self.assertEqual([], find_problems({**one, "tools/c.h": other}))

    def test_kinds(self):
        row = {"oneflow_core/op/silu.cc": 'OpDef{.kind = "silu", .usage = "x -> y"}\n'}
        naming = {f"compiler/passes/a{i}.cc": 'if (op.kind == "silu") return;\n' for i in range(check_sources.KIND_FILES - 1)}
        self.assertEqual([], find_problems({**row, **naming}))
        more = {"tools/b.cc": 'Add("silu");\n'}
        self.assert_one(find_problems({**row, **naming, **more}), '"silu" is named in 7 files, more than 6', "tools/b.cc")
        silent = {"tools/b.cc": '// as "silu" does\nAdd("silu_grad");\n', "tools/b_test.cc": 'Add("silu");\n',
                  "tests/e2e/b.cc": 'Add("silu");\n'}
        self.assertEqual([], find_problems({**row, **naming, **silent}))
        common = {"oneflow_core/op/input.cc": '.kind = "input"\n', **{f"tools/a{i}.cc": '"input"\n' for i in range(9)}}
        self.assertEqual([], find_problems(common))

    def test_numbers_of_models(self):
        row = {"oneflow_core/recipe/model_rows.cc": '{.name = "window", .value = "N"},\n'}
        reads = "void F(const proto::Model& m) { G(m.window()); }\n"
        family = {"oneflow_core/model/llama.cc": reads, "tools/a_test.cc": reads, "tools/b.cc": "Page(page.window());\n"}
        naming = {f"tools/a{i}.cc": reads for i in range(check_sources.NUMBER_FILES)}
        self.assertEqual([], find_problems({**row, **family, **naming}))
        more = {"training/c.cc": "void F(HuggingFaceConfig& c) { c.model.set_window(4); }\n"}
        self.assert_one(find_problems({**row, **family, **naming, **more}), "the model's window is named in 4 files, more than 3",
                        "training/c.cc")

    def test_primitives(self):
        row, *kernels = check_sources.PRIMITIVE_SOURCES
        files = {row: '    {"gather", "x -> x (S -> B)"},\nreturn kernel == "send";\n',
                 **{kernel: '"gather", "send"\n' for kernel in kernels},
                 **{f"compiler/passes/a{i}.cc": '"gather", "send"\n' for i in range(check_sources.PRIMITIVE_FILES)}}
        self.assertEqual([], find_problems(files))
        silent = {"tools/b.cc": '// as "gather" does\n', "tools/b_test.cc": '"gather"\n'}
        self.assertEqual([], find_problems({**files, **silent}))
        for name in ("gather", "send"):
            found = find_problems({**files, "tools/b.cc": f'if (kind == "{name}") return;\n'})
            self.assert_one(found, f'"{name}" is named in 5 files beside its row, more than 4', "tools/b.cc")

    def test_choices(self):
        rows = {"oneflow_core/recipe/recipe_rows.cc": 'const Row kRows[] = {\n    {.name = "fuse",\n     .value = "BOOL"},\n};\n'}
        texts = ["if (!recipe.fuse()) return;\n", "recipe_->set_fuse(true);\n", 'return args.Given("fuse");\n', 'Warn("--fuse=true");\n',
                 "plan.recipe().has_fuse();\n"]
        naming = {f"compiler/passes/a{i}.cc": text for i, text in enumerate(texts)}
        self.assert_one(find_problems(rows | naming), "the choice fuse is named in 5 files, more than 4", "compiler/passes/a4.cc")
        del naming["compiler/passes/a1.cc"]
        other = {"compiler/a.cc": "lamp.fuse();  // --fuse=true\n", "compiler/a_test.cc": "recipe.set_fuse(true);\n"}
        self.assertEqual([], find_problems(rows | naming | other))

    def test_sleeping_tests(self):
        text = "std::this_thread::sleep_for(1s);\n"
        self.assert_one(find_problems({"compiler/a_test.cc": text}), "compiler/a_test.cc:1")
        self.assert_one(find_problems({"tests/e2e/a.cc": text}), "tests/e2e/a.cc:1")
        self.assertEqual([], find_problems({"actor_runtime/a.cc": text}))
        text = "import time\ntime.sleep(1)\n"
        self.assert_one(find_problems({"tests/e2e/a_test.py": text}), "tests/e2e/a_test.py:2")
        self.assertEqual([], find_problems({"tools/a.py": text}))

    def test_flags_and_prints(self):
        text = "// FLAGS_a\nint b = FLAGS_b;\n"
        self.assert_one(find_problems({"actor_runtime/a.cc": text}), "actor_runtime/a.cc:2")
        self.assert_one(find_problems({"compiler/a.h": "#include <gflags/gflags.h>\n"}), "compiler/a.h:1")
        self.assertEqual([], find_problems({"tools/a.cc": text}))
        text = 'std::fputs("done", stdout);\n'
        self.assert_one(find_problems({"training/trainer/a.cc": text}), "training/trainer/a.cc:1")
        self.assertEqual([], find_problems({"actor_runtime/exec/a.cc": text, "training/trainer/a_test.cc": text}))

    def test_names_of_sources_that_are_compiled_together(self):
        folder = {"compiler/BUILD.bazel": "oneflow_cc_folder(\n"}

        def source(text):
            return "namespace {\n" + text + "}  // namespace\n"

        for text in ("int Count(int a) {\n", "struct Part {\n", "constexpr int kMost = 1;\n", "std::map<int, Part> All(\n",
                     "const char* const kNames[] = {\n", "class Reader : public Base {\n"):
            with self.subTest(text=text):
                self.assert_one(find_problems({**folder, "compiler/a.cc": source(text), "compiler/b.cc": source(text)}), "compiler/b.cc")
                self.assertEqual([], find_problems({"compiler/a.cc": source(text), "compiler/b.cc": source(text)}))
                self.assertEqual([], find_problems({**folder, "compiler/a.cc": source(text), "compiler/b_test.cc": source(text)}))
                self.assertEqual([], find_problems({**folder, "compiler/a.cc": source(text + text), "compiler/b.cc": text}))

        header = {**folder, "oneflow_core/base/a.h": "std::string Text(int a);\n", "compiler/b.cc": source("int Text(double a) {\n")}
        self.assertEqual([], find_problems(header))
        self.assert_one(find_problems({**header, "compiler/a.cc": "  Text(1);\n"}), "compiler/b.cc", "oneflow_core/base/a.h")

    def test_lines_of_rooms(self):
        files = {"compiler/a.cc": "1;\n2;\n", "compiler/a_test.cc": "1;\n2;\n3;\n"}
        self.assertEqual([], find_problems({**files, "tests/layering/lines.txt": "# room\ncompiler 2 3\n"}))
        self.assert_one(find_problems({**files, "tests/layering/lines.txt": "compiler 1 3\n"}), "compiler: 2 lines, more than 1")
        self.assert_one(find_problems({**files, "tests/layering/lines.txt": "compiler 2 2\n"}), "compiler: 3 lines of tests")
        files = {"docs/a.md": "Two words.\n"}
        self.assertEqual([], find_problems({**files, "tests/layering/lines.txt": "docs 2\n"}))
        self.assert_one(find_problems({**files, "tests/layering/lines.txt": "docs 1\n"}), "docs: 2 words, more than 1")

    def test_markers(self):
        self.assert_one(find_problems({"compiler/a.cc": "\n// TODO: more\n"}), "compiler/a.cc:2")


if __name__ == "__main__":
    unittest.main()
