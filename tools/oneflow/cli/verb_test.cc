#include "tools/oneflow/cli/verb.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/foreign_names.h"
#include "tools/oneflow/cli/help.h"

namespace oneflow {
namespace {

using Catch::Contains;
using verbs::kAll;

constexpr std::string_view kExamples =
    "oneflow verb --a=1\n"
    "oneflow verb --text=\"two words\" --and=a_long_word_that_fills_the_line --to=the_end_of_it\n";

Verb Some(uint32_t id) { return {id, "does something", kExamples, nullptr}; }

std::string Error(uint32_t id, const std::vector<std::string>& argv) {
  const absl::StatusOr<Arguments> args = ParseArguments(Some(id), argv);
  return args.ok() ? "" : std::string(ToStd(args.status().message()));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The flags at the beginnings of lines of a help.
std::set<std::string> FlagsIn(const std::string& help) {
  std::set<std::string> flags;
  for (const std::string& line : Lines(help)) {
    if (line.starts_with("  --")) flags.insert(line.substr(4, line.find_first_of("= ", 4) - 4));
  }
  return flags;
}

TEST_CASE("help: all flags of the verb and no other, in lines of the width") {
  for (uint32_t id = 1; id < kAll; id <<= 1) {
    for (const int columns : {60, 80, 100}) {
      const std::string help = HelpText(Some(id), /*all=*/true, columns);
      const std::vector<std::string_view> own = FlagsOfVerb(id);
      CHECK(FlagsIn(help) == std::set<std::string>(own.begin(), own.end()));
      for (const std::string& line : Lines(help)) {
        INFO(line);
        CHECK(line.size() <= static_cast<size_t>(columns));
      }
    }
    const std::set<std::string> common = FlagsIn(HelpText(Some(id), false, 80));
    for (const std::string_view flag : FlagsOfVerb(id)) {
      CHECK(common.contains(std::string(flag)) == !FindFlag(id, flag)->rare);
    }
  }
}

TEST_CASE("help: groups stand in their order, each once, and examples last") {
  const std::string help = HelpText(Some(verbs::kTrain), false, 100);
  size_t last = 0;
  for (const char* group : {"\nmodel\n", "\nparallelism\n", "\nschedule\n", "\nmemory\n",
                            "\noptimizer\n", "\nrun\n", "\ndata and output\n", "\nexamples\n"}) {
    INFO(group);
    const size_t at = help.find(group);
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    CHECK(help.find(group, at + 1) == std::string::npos);
    last = at;
  }
  CHECK_THAT(help, Contains("rarer flags: oneflow train --help=all\n"));
  CHECK(HelpText(Some(verbs::kTrain), true, 100).find("rarer") == std::string::npos);
}

TEST_CASE("help: defaults are those of the verb") {
  CHECK(FindFlag(verbs::kTrain, "steps")->default_text == "100");
  CHECK(FindFlag(verbs::kSimulate, "steps")->default_text == "2");
  CHECK(FindFlag(verbs::kTrain, "learning_rate")->default_text == "3e-4");
  CHECK(FindFlag(verbs::kCompile, "format")->value == "text|json");
  CHECK(FindFlag(verbs::kExplain, "format")->value == "text|json|html|memory");
  CHECK(FindFlag(verbs::kModel, "steps") == nullptr);
  CHECK_THAT(HelpText(Some(verbs::kCompile), false, 100),
             Contains("--schedule=NAME") &&
                 Contains("                            pipedream or 2bw. Default: 1f1b.") &&
                 Contains("  --precision=f32|bf16      Type"));
}

TEST_CASE("help: a long example goes on after a backslash, and quotes hold together") {
  const std::string help = HelpText(Some(verbs::kVerify), false, 60);
  CHECK_THAT(help, Contains("  oneflow verb --a=1\n  oneflow verb --text=\"two words\" \\\n"
                            "      --and=a_long_word_that_fills_the_line \\\n"
                            "      --to=the_end_of_it\n"));
}

TEST_CASE("flag table: every sentence is one, and rows of a group stand together") {
  std::set<std::string_view> titles;
  std::string_view title;
  for (const FlagRow& row : FlagTable()) {
    INFO(row.name);
    CHECK(row.sentence.ends_with('.'));
    CHECK((row.verbs & kAll) != 0);
    if (title == GroupTitle(row.group)) continue;
    title = GroupTitle(row.group);
    CHECK(titles.insert(title).second);
  }
}

TEST_CASE("flags of other programs: each alias names a flag, and is none itself") {
  const auto known = [](std::string_view name) {
    return std::any_of(FlagTable().begin(), FlagTable().end(),
                       [&](const FlagRow& row) { return row.name == name; });
  };
  for (const std::string& foreign : ForeignNames()) {
    INFO(foreign);
    CHECK(known(FlagMeantBy(foreign)));
    CHECK_FALSE(known(foreign));
    CHECK(AdviceOn(foreign).empty());
  }
  for (const char* name : {"micro_batch_size", "tensor_model_parallel_size", "zero_stage"}) {
    CHECK(FlagMeantBy(name).empty());
    CHECK_FALSE(AdviceOn(name).empty());
    CHECK_FALSE(known(name));
  }
}

TEST_CASE("arguments: names of other programs and dashes are accepted") {
  const Arguments args =
      ParseArguments(Some(verbs::kTrain), {"--lr=1e-3", "--train-iters", "7", "--save-interval=2",
                                           "--optimizer.beta1=0.8", "--micro-batches=4"})
          .value();
  using Flags = std::vector<std::pair<std::string, std::string>>;
  CHECK(args.flags == Flags{{"learning_rate", "1e-3"},
                            {"steps", "7"},
                            {"checkpoint_every", "2"},
                            {"beta1", "0.8"},
                            {"micro_batches", "4"}});
}

TEST_CASE("arguments: the error for a flag without a single equivalent says what to write") {
  CHECK_THAT(Error(verbs::kCompile, {"--tensor-model-parallel-size=2"}),
             Contains("--mesh=tensor=N"));
  CHECK_THAT(Error(verbs::kCompile, {"--micro-batch-size=2"}), Contains("--micro_batches=M"));
  for (const char* flag : {"--recompute-num-layers=2", "--recompute-method=block"}) {
    CHECK_THAT(Error(verbs::kCompile, {flag}), Contains("--recompute=full:N"));
  }
  CHECK_THAT(Error(verbs::kTrain, {"--bf16"}), Contains("--precision=bf16"));
  CHECK(Error(verbs::kCompile, {"--keep=2"}) ==
        "--keep: `oneflow compile` has no such flag; it is a flag of train, submit; see `oneflow "
        "compile --help`");
  CHECK_THAT(Error(verbs::kVerify, {"--lr=2"}),
             Contains("it may mean --learning_rate, which is a flag of compile, explain, "
                      "train, simulate, diff, submit"));
  CHECK_THAT(Error(verbs::kCompile, {"--nofuse"}), Contains("write --fuse=false"));
  CHECK_THAT(Error(verbs::kCompile, {"--no_fuse"}), Contains("write --fuse=false"));
  CHECK_THAT(Error(verbs::kTrain, {"--learning_rat=1"}), Contains("did you mean --learning_rate?"));
  CHECK_THAT(Error(verbs::kTrain, {"--train_iter=1"}), Contains("did you mean --steps?"));
  CHECK_THAT(Error(verbs::kTrain, {"--qqqqqqqq=1"}),
             Contains("has no such flag; see `oneflow train --help`"));
}

TEST_CASE("arguments: values that are none name the nearest one") {
  for (const char* value : {"zb", "ZB-H1", "zero-bubble", "zerobubble", "zero_bubbel"}) {
    CHECK_THAT(Error(verbs::kCompile, {absl::StrCat("--schedule=", value)}),
               Contains("is not known; did you mean zero_bubble? use 1f1b, gpipe, interleaved, "
                        "zero_bubble, pipedream or 2bw"));
  }
  for (const auto& [flag, meant] :
       std::vector<std::pair<std::string, std::string>>{{"schedule=1F1B", "1f1b"},
                                                        {"schedule=Interleaved1F1B", "interleaved"},
                                                        {"schedule=inter", "interleaved"},
                                                        {"device=gpu", "cuda"},
                                                        {"precision=bfloat16", "bf16"},
                                                        {"precision=bf61", "bf16"},
                                                        {"recompute=ful,gather", "full"}}) {
    const std::string error = Error(verbs::kCompile, {"--" + flag});
    CHECK_THAT(error, Contains("is not known") && Contains("; ") && Contains("use "));
    if (!meant.empty()) CHECK_THAT(error, Contains("did you mean " + meant + "?"));
  }
  for (const char* policy : {"full,gather", "full:2,attention", "full:3/2/1/0,gather"}) {
    CHECK(Error(verbs::kCompile, {absl::StrCat("--recompute=", policy)}).empty());
  }
  CHECK_THAT(Error(verbs::kCompile, {"--recompute=ful:2,attention"}),
             Contains("\"ful:2\" is not known; did you mean full? use none, attention, selective, "
                      "full or gather"));
}

TEST_CASE("arguments: a flag given twice is refused, but for those that may repeat") {
  CHECK(Error(verbs::kCompile, {"--batch=4", "--batch=8"}) ==
        "--batch=8: is given twice: --batch=4 stands before it; give it once");
  CHECK_THAT(Error(verbs::kCompile, {"--batch=4", "--batch=4"}), Contains("is given twice"));
  CHECK_THAT(Error(verbs::kTrain, {"--learning-rate=1", "--lr=2"}),
             Contains("--lr=2: is given twice: --learning_rate=1"));
  CHECK(Error(verbs::kRun, {"--feed=a=a.npy", "--feed=b=b.npy"}).empty());
  CHECK(Error(verbs::kSubmit, {"--sbatch_option=-a", "--sbatch_option=-b"}).empty());
}

}  // namespace
}  // namespace oneflow
