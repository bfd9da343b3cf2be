"""Every command of the README and of the pages in docs/ works in an empty folder and prints what the page shows."""
import glob
import os
import re
import tempfile
import unittest

from tests.e2e import documents
from tests.e2e.cli import run

EXAMPLES = os.path.abspath("examples")
PAGES = ["README.md", *sorted(glob.glob("docs/*.md"))]
# tests/slurm:operations_test and :fine_tuning_test have what these pages need.
RUN_ELSEWHERE = ["docs/operations.md", "docs/fine_tuning.md"]


class DocumentsTest(unittest.TestCase):
    def test_every_page(self):
        commands = {}
        for page in PAGES:
            with self.subTest(page):
                self.assertEqual(documents.find_strangers(page), [])
                commands[page] = 0 if page in RUN_ELSEWHERE else documents.check(page, EXAMPLES)
        self.assertGreater(commands["docs/cli.md"], 20)
        self.assertGreater(sum(map(bool, commands.values())), 12)

    def test_the_table_of_presets(self):
        with open("docs/models.md", encoding="utf-8") as page:
            rows = re.findall(r"^\| `([\w.-]+)` \| ([\d,]+) \| ([\d,| ]+) \|$", page.read(), re.MULTILINE)
        self.assertGreater(len(rows), 20)
        with tempfile.TemporaryDirectory() as folder:
            for preset, parameters, numbers in rows:
                printed = run("model", "--from=" + preset, "--out=x", cwd=folder)[0]
                layers, hidden, inner, heads, groups, _, sequence, vocab, *mixture = numbers.replace(",", "").split(" | ")
                end = "\n"
                if mixture:
                    experts, choices, active = mixture
                    end = f", {choices} of {experts} experts: {active} parameters for a token\n"
                with self.subTest(preset):
                    self.assertIn(f": {parameters.replace(',', '')} parameters, ", printed)
                    self.assertIn(f"layers {layers}, heads {heads} in {groups} groups, hidden {hidden}, inner {inner}, "
                                  f"sequence {sequence}, vocabulary {vocab}{end}", printed)


class HarnessTest(unittest.TestCase):
    """A page that is wrong is found to be."""

    def page(self, text):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        path = temporary.name + "/page.md"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_command_that_fails(self):
        with self.assertRaisesRegex(AssertionError, "exit code 2"):
            documents.check(self.page("```\noneflow verify --plan=none\n```\n"), EXAMPLES)

    def test_an_output_that_differs(self):
        good = "text\n```\n$ echo one; \\\n    echo two  # a comment\none\ntwo\n```\n"
        self.assertEqual(documents.check(self.page(good), EXAMPLES), 1)
        with self.assertRaisesRegex(AssertionError, "the page shows"):
            documents.check(self.page(good.replace("two\n```", "three\n```")), EXAMPLES)

    def test_what_is_left_out(self):
        left_out = "```\n$ seq 5\n1\n...\n4\n5\n$ echo one, two\none, ...\n```\n"
        self.assertEqual(documents.check(self.page(left_out), EXAMPLES), 2)
        with self.assertRaisesRegex(AssertionError, "the page shows"):
            documents.check(self.page(left_out.replace("4", "3")), EXAMPLES)

    def test_what_fit_finds_in_its_time(self):
        page = "```\n$ echo oneflow fit >/dev/null; printf 'GPUs 4\\n\\n3 s: x\\nbetter 1: step 2 s\\n'\nGPUs 4\nbetter 1: step 9 s\n    a\n```\n"
        self.assertEqual(documents.check(self.page(page), EXAMPLES), 1)
        with self.assertRaisesRegex(AssertionError, "the page shows"):
            documents.check(self.page(page.replace("\nGPUs 4\n", "\nGPUs 8\n")), EXAMPLES)

    def test_a_command_that_is_not_run(self):
        page = self.page("```\noneflow train --plan=none --data=none  # not run: needs a GPU\n```\n")
        self.assertEqual(documents.check(page, EXAMPLES), 0)
        self.assertEqual(documents.find_strangers(page), [])

    def test_words_that_are_no_verb_and_no_flag(self):
        page = self.page("`oneflow trian --data=x` and `oneflow verify --plan=x --data=y`\n"
                         "```\nsrun oneflow data --txt=x  # not run: --none of it\n```\n```\n"
                         "oneflow model gpt --out=x && oneflow status --job-dir=x --steps=1\n```\n")
        self.assertEqual([word for word, _ in documents.find_strangers(page)], ["steps", "trian", "data"])

    def test_an_update(self):
        path = self.page("a\n```\n$ echo new\nold\n$ echo more\n```\nb\n")
        documents.update(path, EXAMPLES)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "a\n```\n$ echo new\nnew\n$ echo more\nmore\n```\nb\n")


if __name__ == "__main__":
    unittest.main()
