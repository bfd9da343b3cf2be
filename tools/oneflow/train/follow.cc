// oneflow follow: sends the file of --metrics to a tracker, by a script in Python that takes the
// place of this process: it has the user's environment, terminal and signals.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/verb.h"
#include "training/data/python_script.h"

namespace oneflow {
namespace {

constexpr char kFollowScript[] =
#include "tools/oneflow/train/follow.inc"
    ;

absl::Status RunFollow(const Arguments& args) {
  for (const auto& [flag, example] :
       {std::pair("metrics", "metrics.jsonl"), std::pair("to", "stdout")}) {
    if (!args.First(flag).empty()) continue;
    return InputError(absl::StrCat("--", flag), "is missing",
                      absl::StrCat("write --", flag, "=", example));
  }
  std::vector<std::string> words = {DefaultPython(), "-X", "utf8", "-c", kFollowScript};
  for (const auto& [flag, value] : args.flags) {
    if (flag != "once") {
      words.push_back(absl::StrCat("--", flag, "=", value));
    } else if (value == "true") {
      words.emplace_back("--once");
    }
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // Not the working folder, in which wandb makes a folder `wandb`.
  setenv("PYTHONSAFEPATH", "1", /*overwrite=*/1);
  execvp(words[0].c_str(), pointers.data());
  if (errno == ENOENT) {
    return InputError("oneflow follow", "needs " + words[0] + ", which is not on PATH",
                      "install it: apt-get install python3");
  }
  return absl::UnavailableError(
      absl::StrCat("oneflow follow: ", words[0], " cannot be run (", strerror(errno), ")"));
}

}  // namespace

Verb FollowVerb() {
  return {verbs::kFollow, "send the metrics of a training to a tracker, while it runs or later",
          "oneflow follow --metrics=metrics.jsonl --to=stdout --once\n"
          "oneflow follow --metrics=metrics.jsonl --to=wandb --project=gpt\n",
          RunFollow};
}

}  // namespace oneflow
