"""Every command of the README, docs/cli.md, docs/models.md and docs/walkthrough.md works in an empty folder and prints
what the page shows."""
import os
import re
import tempfile
import unittest

from tests.e2e import documents
from tests.e2e.cli import run

EXAMPLES = os.path.abspath("examples")


class DocumentsTest(unittest.TestCase):
    def test_the_readme(self):
        self.assertGreater(documents.check("README.md", EXAMPLES), 3)

    def test_the_command_line(self):
        self.assertGreater(documents.check("docs/cli.md", EXAMPLES), 20)

    def test_the_models(self):
        self.assertGreater(documents.check("docs/models.md", EXAMPLES), 4)

    def test_the_table_of_presets(self):
        with open("docs/models.md", encoding="utf-8") as page:
            rows = re.findall(r"^\| `([\w.-]+)` \| ([\d,]+) \| ([\d,| ]+) \|$", page.read(), re.MULTILINE)
        self.assertGreater(len(rows), 20)
        with tempfile.TemporaryDirectory() as folder:
            for preset, parameters, numbers in rows:
                printed = run("model", "llama", "--preset=" + preset, "--out=x", cwd=folder)[0]
                layers, hidden, inner, heads, groups, _, sequence, vocab, *mixture = numbers.replace(",", "").split(" | ")
                end = "\n"
                if mixture:
                    experts, choices, active = mixture
                    end = f", {choices} of {experts} experts: {active} parameters for a token\n"
                with self.subTest(preset):
                    self.assertIn(f": {parameters.replace(',', '')} parameters, ", printed)
                    self.assertIn(f"layers {layers}, heads {heads} in {groups} groups, hidden {hidden}, inner {inner}, "
                                  f"sequence {sequence}, vocabulary {vocab}{end}", printed)

    def test_the_walkthrough(self):
        self.assertGreater(documents.check("docs/walkthrough.md", EXAMPLES), 8)


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

    def test_an_update(self):
        path = self.page("a\n```\n$ echo new\nold\n$ echo more\n```\nb\n")
        documents.update(path, EXAMPLES)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "a\n```\n$ echo new\nnew\n$ echo more\nmore\n```\nb\n")


if __name__ == "__main__":
    unittest.main()
