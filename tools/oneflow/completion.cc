// oneflow completion: tables of verbs, flags and values as both bash and zsh read them, and the
// function that looks them up, completion.bash or completion.zsh.
//
//   typeset -gA _oneflow_flags=([compile]='--batch= --fuse ...')       `=`: a value follows
//   typeset -gA _oneflow_values=([.cluster]='file:a100 h100 ...')      KIND:WORDS, of all verbs
//                               [explain.format]=':text json html'     what differs for a verb
//                               [fit.]='file:llama3.1-8b ...')         words that belong to no flag
//   typeset -gA _oneflow_sentences=([.cluster]='Cluster that costs and times are for' ...)
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/recipe/words.h"
#include "tools/oneflow/cli/flag_value.h"
#include "tools/oneflow/cli/known_clusters.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/verbs.h"

namespace oneflow {
namespace {

constexpr std::string_view kBash =
#include "tools/oneflow/completion_bash.inc"
    ;
constexpr std::string_view kZsh =
#include "tools/oneflow/completion_zsh.inc"
    ;

// By "verb.flag"; by ".flag" what holds for the first verb that takes it, and all that are alike.
using Entries = std::map<std::string, std::string>;

void Put(Entries* entries, std::string_view verb, std::string_view flag, const std::string& text) {
  const std::string name(flag);
  if (entries->emplace("." + name, text).first->second != text) {
    (*entries)[std::string(verb) + "." + name] = text;
  }
}

std::string PresetNames() {
  std::string names;
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) absl::StrAppend(&names, preset.name, " ");
  }
  return names;
}

// What a shell offers for a value, "KIND:WORDS": "file:" for FILE, ":f32 bf16" for f32|bf16.
std::string ValueText(std::string_view flag, std::string_view value) {
  const auto has = [&](std::string_view word) { return value.find(word) != value.npos; };
  if (value.empty() || value == "BOOL") return ":true false";
  const std::vector<std::string> choices = ListChoices(value);
  if (!choices.empty()) return ":" + absl::StrJoin(choices, " ");
  if (flag == "preset") return ":" + PresetNames();
  if (flag == "cluster") return "file:" + absl::StrJoin(KnownClusters(), " ");
  if (has("MODEL") || has("NAME|") || has("|NAME")) return "file:" + PresetNames();
  if (has("FILE") || has(".plan")) return "file:";
  return has("FOLDER") ? "folder:" : ":";
}

// The first sentence, without the brackets that zsh would read.
std::string FirstSentence(std::string_view text) {
  std::string first(text.substr(0, text.find(". ")));
  if (first.ends_with('.')) first.pop_back();
  return absl::StrReplaceAll(first, {{"[", "("}, {"]", ")"}});
}

std::string TableOfShell(const std::string& name, const Entries& entries) {
  std::string text = "typeset -gA _oneflow_" + name + "=(\n";
  for (const auto& [key, value] : entries) {
    absl::StrAppend(&text, "[", key, "]='", absl::StrReplaceAll(value, {{"'", "'\\''"}}), "'\n");
  }
  return text + ")\n";
}

std::string CompletionText(bool zsh) {
  Entries summaries, flags, values, sentences;
  for (const Verb& verb : Verbs()) {
    const std::string name(verb.name());
    summaries[name] = std::string(verb.summary);
    for (const std::string_view flag : FlagsOfVerb(verb.id)) {
      const FlagRow& row = *FindFlag(verb.id, flag);
      absl::StrAppend(&flags[name], "--", ToAbsl(flag), MayStandAlone(row) ? " " : "= ");
      Put(&values, name, flag, ValueText(flag, row.value));
      Put(&sentences, name, flag, FirstSentence(row.sentence));
    }
    flags[name] += "--help";
    if (verb.words == "NAME") {
      values[name + "."] = ":" + absl::StrJoin(KnownClusters(), " ");
    } else if (!verb.words.empty()) {
      values[name + "."] = ValueText("", verb.words);
    }
  }
  return absl::StrCat(zsh ? "#compdef oneflow\n" : "", TableOfShell("verbs", summaries),
                      TableOfShell("flags", flags), TableOfShell("values", values),
                      zsh ? TableOfShell("sentences", sentences) : "", ToAbsl(zsh ? kZsh : kBash));
}

absl::Status Complete(const Arguments& args) {
  const std::string shells = absl::StrJoin(args.positional, " ");
  if (shells == "bash" || shells == "zsh") return Print(CompletionText(shells == "zsh"));
  return InputError("oneflow completion" + (shells.empty() ? "" : " " + shells),
                    shells.empty() ? "no shell" : "no such shell",
                    "write one: oneflow completion bash, or zsh");
}

}  // namespace

Verb CompletionVerb() {
  return {verbs::kCompletion, "complete verbs, flags and values in a shell",
          "oneflow completion bash > ~/.local/share/bash-completion/completions/oneflow\n"
          "oneflow completion zsh > ~/.zfunc/_oneflow\n",
          Complete, /*words=*/"bash|zsh"};
}

}  // namespace oneflow
