// The subset of shell: what is read, what is named as not read, and that nothing hangs or crashes.
#include "tools/foreign/read/shell.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catch2/catch.hpp"
#include "tools/foreign/read/shell_arithmetic.h"
#include "tools/foreign/read/shell_condition.h"

namespace oneflow::foreign {
namespace {

// The words of the last command.
std::vector<std::string> LastWords(const std::string& text) {
  const Script script = ReadScript(text, "run.sh", {});
  REQUIRE_FALSE(script.commands.empty());
  std::vector<std::string> words;
  for (const Word& word : script.commands.back().words) words.push_back(word.text);
  return words;
}

using Texts = std::vector<std::string>;

TEST_CASE("words, quotes, comments and continued lines") {
  CHECK(LastWords("a 'b c' \"d e\" f\\ g # h\n") == Texts{"a", "b c", "d e", "f g"});
  CHECK(LastWords("a \\\n  b \\\r\n  c\n") == Texts{"a", "b", "c"});
  CHECK(LastWords("a \"\" '' b#c\n") == Texts{"a", "", "", "b#c"});
  CHECK(LastWords("a \"x\\\"y\" '$N' \\$N\n") == Texts{"a", "x\"y", "$N", "$N"});
}

TEST_CASE("variables, defaults and arrays") {
  CHECK(LastWords("X=4; Y=\"a b\"\nrun $X ${X}0 $Y \"$Y\"\n") ==
        Texts{"run", "4", "40", "a", "b", "a b"});
  CHECK(LastWords("run ${N:-8} ${N:-\"1 2\"} ${M-} ${N:=3} $N\n") ==
        Texts{"run", "8", "1", "2", "3", "3"});
  CHECK(LastWords("A=(--x 1 # one\n  \"--y 2\"\n)\nA+=(--z)\nrun ${A[@]} \"${A[@]}\" ${#A[@]}\n") ==
        Texts{"run", "--x", "1", "--y", "2", "--z", "--x", "1", "--y 2", "--z", "4"});
  CHECK(LastWords("O=\"--a 1 \\\n --b 2\"\nO+=\" --c\"\nrun $O\n") ==
        Texts{"run", "--a", "1", "--b", "2", "--c"});
  CHECK(LastWords("E=()\nrun \"${E[@]}\" b\n") == Texts{"run", "b"});
}

TEST_CASE("a word has the line that it is written on") {
  const Script script = ReadScript("A=(\n  --x 1\n  --y 2\n)\nrun ${A[@]}\n", "run.sh", {});
  const std::vector<Word>& words = script.commands[0].words;
  CHECK(words[0].where == "run.sh:5");
  CHECK(words[1].where == "run.sh:2");
  CHECK(words[4].where == "run.sh:3");
}

TEST_CASE("arithmetic") {
  CHECK(LastWords("G=8; N=2\nrun $(( G * N + 2 )) $((G*(N-1)/3%2)) $(( -$G ))\n") ==
        Texts{"run", "18", "0", "-8"});
  const ShellVariables none;
  CHECK(EvaluateArithmetic("1 / 0", none) == std::nullopt);
  CHECK(EvaluateArithmetic("9223372036854775807 + 1", none) == std::nullopt);
  CHECK(EvaluateArithmetic("UNKNOWN + 1", none) == std::nullopt);
  CHECK(EvaluateArithmetic(std::string(5000, '('), none) == std::nullopt);
}

TEST_CASE("conditions on strings and numbers are read") {
  const std::string script =
      "P=fp8; N=4\n"
      "if [[ \"$P\" == \"fp8\" && $N -gt 2 ]]; then X=1; elif [ $N = 4 ]; then X=2; else X=3; fi\n"
      "if [ \"$P\" != fp8 ]; then Y=1\nelse\n  Y=2\nfi\n"
      "case $P in bf16) Z=1 ;; fp8|fp4) Z=2 ;; *) Z=3 ;; esac\n"
      "[ $N -eq 4 ] && W=1 || W=2\n"
      "[[ -z \"$Q\" ]] || V=1\n"
      "run $X $Y $Z $W\n";
  CHECK(LastWords(script) == Texts{"run", "1", "2", "2", "1"});
  CHECK(EvaluateTest({"a", "==", "b", "||", "c"}) == Truth::kTrue);
  CHECK(EvaluateTest({"!", "-z", "x"}) == Truth::kTrue);
  CHECK(EvaluateTest({"-f", "x"}) == Truth::kUnknown);
}

TEST_CASE("what is beyond the subset is named, and acts on nothing") {
  const Script script = ReadScript(
      "N=$(nproc)\nfor i in $(seq 2); do\n  X=$i\ndone\nif [ -f file ]; then X=1; else X=2; fi\n"
      "while read line; do X=3; done < f\nhelp() { X=4; }\nsource env.sh\n"
      "run --n $N --x ${X:-0} --h $HEAD $GONE ${Y%.*}\n",
      "run.sh", {});
  Texts words;
  for (const Word& word : script.commands.back().words) words.push_back(word.text);
  CHECK(words == Texts{"run", "--n", "$(nproc)", "--x", "0", "--h", "$HEAD", "${Y%.*}"});
  const Texts unread = script.unread;
  const auto names = [&](const std::string& note) {
    return std::find(unread.begin(), unread.end(), note) != unread.end();
  };
  CHECK(names("run.sh:1: $(nproc)"));
  CHECK(names("run.sh:2: for i in $(seq 2); do"));
  CHECK(names("run.sh:5: if [ -f file ]; "));
  CHECK(names("run.sh:6: while read line; do X=3; done < f"));
  CHECK(names("run.sh:8: source env.sh"));
  CHECK(names("run.sh:9: $HEAD, which nothing sets"));
  CHECK(names("run.sh:9: ${Y%.*}"));
}

TEST_CASE("functions, loops and arguments") {
  CHECK(LastWords("f() { run --n $1 \"$@\" $#; }\nf 8 'a b'\n") ==
        Texts{"run", "--n", "8", "8", "a b", "2"});
  CHECK(LastWords("function f {\n X=$1\n}\nf 4\nrun $X $1\n") == Texts{"run", "4"});
  CHECK(LastWords("for i in 1 2 3; do A+=\" $i\"; done\nrun $A\n") == Texts{"run", "1", "2", "3"});
  CHECK(LastWords("N=4\nif (( N > 1 && 1 )); then X=1; fi\nif (( N >= 4 )); then Y=2; fi\n"
                  "run ${X:-0} $Y\n") == Texts{"run", "0", "2"});
  const Script script =
      ReadScript("run $1 ${2:-x} ${10} $(( ${1} + 1 ))\n", "run.sh", {}, {}, {"7"});
  CHECK(script.commands[0].words.size() == 4);
  CHECK(script.commands[0].words[3].text == "8");
  // Neither ends by itself.
  ReadScript("f() { f; f; }\nf\n", "run.sh", {});
  std::string loops;
  for (int i = 0; i < 20; ++i) loops += "for a in 1 2 3 4; do ";
  ReadScript(loops + "run", "run.sh", {});
}

TEST_CASE("what is not read stays one word") {
  CHECK(LastWords("H=$(scontrol show hostnames $L | head -n 1)\nbash -c \"run $H:80 b\"\n") ==
        Texts{"run", "$(scontrol...):80", "b"});
}

TEST_CASE("a variable that grows from nothing") {
  CHECK(LastWords("M=\"$M --a\"; M=\"${M} --b\"; N=${N-4}\nrun $M $N\n") ==
        Texts{"run", "--a", "--b", "4"});
}

TEST_CASE("an array within a text") {
  CHECK(LastWords("A=(--x 1 --y)\nC=\"run ${A[@]} z\"\neval $C\n") ==
        Texts{"run", "--x", "1", "--y", "z"});
  CHECK(LastWords("A=(--x 1)\nsbatch <<E\nrun ${A[@]}\nE\n") == Texts{"run", "--x", "1"});
}

TEST_CASE("other scripts: sourced, started and submitted") {
  const ShellFiles files =
      [](const std::string& name) -> std::optional<std::pair<std::string, std::string>> {
    if (name.ends_with("env.sh")) return std::pair("env.sh", "X=3\n");
    if (name == "job.sh") return std::pair("job.sh", "#SBATCH -N 2\nrun $A ${X:-0} ${E:-0}\n");
    return std::nullopt;
  };
  const Script script = ReadScript(
      "source $(dirname $0)/env.sh\nexport E=5\nA=1 sbatch -G 8 job.sh\n", "go.sh", {}, files);
  REQUIRE(script.commands.size() == 1);
  CHECK(script.commands[0].words.size() == 7);  // sbatch -G 8 run 1 0 5
  CHECK(script.commands[0].words[5].text == "0");
  CHECK(script.commands[0].words[6].where == "job.sh:2");
  REQUIRE(script.sbatch.size() == 2);
  CHECK(script.sbatch[1].text == "2");
}

TEST_CASE("eval and bash -c are read again") {
  CHECK(LastWords("C=\"run --a 1\"\neval \"$C\" 2>&1 | cat\n") != Texts{"eval"});
  const Script script =
      ReadScript("C=\"torchrun --n 2 t.py\"\nsrun -N 4 bash -c \"$C --x 1\"\n", "run.sh", {});
  Texts words;
  for (const Word& word : script.commands[0].words) words.push_back(word.text);
  CHECK(words == Texts{"srun", "-N", "4", "torchrun", "--n", "2", "t.py", "--x", "1"});
}

TEST_CASE("a file that a script writes") {
  const Script script = ReadScript(
      "STAGE=2\ncat <<EOF > ds.json\n{\"stage\": $STAGE, \"a\": \"\\$b\"}\nEOF\n"
      "cat > raw.json <<'E'\n{\"x\": \"$STAGE\"}\nE\nrun\n",
      "run.sh", {});
  REQUIRE(script.written.size() == 2);
  CHECK(script.written[0].name == "ds.json");
  CHECK(script.written[0].text == "{\"stage\": 2, \"a\": \"$b\"}\n");
  CHECK(script.written[0].line == 3);
  CHECK(script.written[1].text == "{\"x\": \"$STAGE\"}\n");
  CHECK(script.commands.back().words[0].text == "run");
}

TEST_CASE("no text hangs, crashes or grows without end") {
  const std::string pieces[] = {"${",    "$((", "$(",    "`",        "\"",       "'",
                                "(",     ")",   "[[",    "if ",      "fi\n",     "case x in ",
                                "<<E\n", "A=(", "do ",   ";;",       "}",        "\\",
                                "${A:-", "&&",  "then ", "X=$X$X\n", "eval $X\n"};
  uint64_t state = 7;
  for (int round = 0; round < 3000; ++round) {
    std::string text = "X=ab\n";
    for (int i = 0; i < 40; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      text += pieces[(state >> 33) % std::size(pieces)];
    }
    ReadScript(text, "run.sh", {});
  }
  std::string nested;
  for (int i = 0; i < 20000; ++i) nested += "${A:-";
  ReadScript(nested, "run.sh", {});
  ReadScript(std::string(20000, '('), "run.sh", {});
  std::string doubles = "X=ab\n";
  for (int i = 0; i < 60; ++i) doubles += "X=\"$X$X\"\n";
  CHECK(ReadScript(doubles + "run\n", "run.sh", {}).commands.size() == 1);
}

}  // namespace
}  // namespace oneflow::foreign
