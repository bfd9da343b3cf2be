"""`oneflow completion`: what bash offers, asked as bash asks; the tables against the help; the same tables for zsh."""
import re
import subprocess
import unittest

from tests.e2e.cli import FolderCase, run

# Sets what bash would, with the words parted at COMP_WORDBREAKS, and prints what the function answers.
ASK = r"""
source completion.bash
compopt() { :; }
while IFS= read -r COMP_LINE; do
  COMP_POINT=${#COMP_LINE}
  mapfile -t COMP_WORDS < <(sed -E 's/[=:]+/ & /g; s/ +/\n/g' <<<"$COMP_LINE")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _oneflow
  echo "${COMPREPLY[*]}"
done
"""


class CompletionTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("completion.bash", run("completion", "bash", cwd=cls.dir)[0])
        cls.write("text.txt", "")
        cls.write("h-mine.textproto", "")
        subprocess.run(["mkdir", "texts"], cwd=cls.dir, check=True)

    def ask(self, *lines):
        done = subprocess.run(["bash", "-uc", ASK], cwd=self.dir, input="".join(line + "\n" for line in lines), capture_output=True,
                              text=True, check=True)
        self.assertEqual("", done.stderr)
        return [answer.split() for answer in done.stdout.splitlines()]

    def test_what_bash_offers(self):
        cases = {
            "oneflow comp": {"compile", "completion"},
            "oneflow --v": {"--version"},
            "oneflow compile --sch": {"--schedule="},
            "oneflow compile --fus": {"--fuse"},
            "oneflow compile --schedule=": {"1f1b", "gpipe", "interleaved", "zero_bubble", "pipedream", "2bw"},
            "oneflow compile --schedule z": {"zero_bubble"},
            "oneflow compile --micro-batches 2 --keep-axis": set(),
            "oneflow compile --recompute=selective,g": {"selective,gather"},
            "oneflow compile --cluster=h": {"h100", "h100-96g", "h100-pcie", "h20", "h200", "h-mine.textproto"},
            "oneflow compile --graph=llama3.1-8": {"llama3.1-8b"},
            "oneflow compile --graph=t": {"text.txt", "texts", "tiny", "tinyllama-1.1b"},
            "oneflow compile --fuse=": {"true", "false"},
            "oneflow train --data=text.txt:2,tex": {"2,text.txt", "2,texts"},
            "oneflow train --checkpoint_dir=te": {"texts"},
            "oneflow run --feed=x=tex": {"text.txt", "texts"},
            "oneflow explain --format=": {"text", "json", "html", "memory"},
            "oneflow simulate --format=": {"text", "json"},
            "oneflow cluster a100": {"a100", "a100-40g"},
            "oneflow model l": {"llama"},
            "oneflow fit te": {"text.txt", "texts"},
            "oneflow completion ": {"bash", "zsh"},
            "oneflow nosuch --x": set(),
        }
        for (line, wanted), found in zip(cases.items(), self.ask(*cases)):
            with self.subTest(line):
                self.assertEqual(wanted, set(found))

    def test_flags_are_those_of_the_help(self):
        verbs = self.ask("oneflow ")[0]
        verbs = [verb for verb in verbs if not verb.startswith("--")]
        self.assertEqual(set(verbs), set(re.findall(r"^  ([a-z]\w*) ", run("--help", cwd=self.dir)[0], re.MULTILINE)))
        for verb, offered in zip(verbs, self.ask(*(f"oneflow {verb} --" for verb in verbs))):
            with self.subTest(verb):
                flags = re.findall(r"^  (--\w+)(=?)", run(verb, "--help=all", cwd=self.dir)[0], re.MULTILINE)
                self.assertEqual({"--help"} | {name for name, _ in flags}, {flag.rstrip("=") for flag in offered})

    def test_zsh_has_the_same_tables(self):
        bash = run("completion", "bash", cwd=self.dir)[0].partition("\n# Completes")[0]
        zsh = run("completion", "zsh", cwd=self.dir)[0]
        self.assertTrue(zsh.startswith("#compdef oneflow\n" + bash))
        self.assertIn("[.cluster]='Cluster that costs and times are for: a name of `oneflow cluster`, as h100, or a file'\n", zsh)

    def test_no_such_shell(self):
        for shells in [["fish"], [], ["bash", "zsh"]]:
            error = run("completion", *shells, cwd=self.dir, code=2)[1]
            self.assertIn(" ".join(["oneflow: error: oneflow completion", *shells]) + ": ", error)
            self.assertIn("write one: oneflow completion bash, or zsh", error)


if __name__ == "__main__":
    unittest.main()
