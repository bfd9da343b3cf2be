#include "tools/oneflow/job/engine_syntax.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

// A number of digits alone, below 10^9.
std::optional<int64_t> Digits(const std::string& text) {
  int64_t value = 0;
  const bool digits = !text.empty() && text.size() < 10 &&
                      std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// Seconds of the parts of a time, each of `units` seconds; nothing if one is no number.
std::optional<int64_t> Sum(const std::vector<std::string>& parts,
                           const std::vector<int64_t>& units) {
  int64_t sum = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<int64_t> value = Digits(parts[i]);
    if (!value) return std::nullopt;
    sum += *value * units[i];
  }
  return sum;
}

std::optional<int64_t> CountSeconds(const std::string& text) {
  const size_t dash = text.find('-');
  const std::vector<std::string> parts =
      absl::StrSplit(dash == text.npos ? text : text.substr(dash + 1), ':');
  if (parts.size() > 3) return std::nullopt;
  if (dash == text.npos) {
    return parts.size() == 3 ? Sum(parts, {3600, 60, 1}) : Sum(parts, {60, 1});
  }
  const std::optional<int64_t> days = Digits(text.substr(0, dash));
  const std::optional<int64_t> rest = Sum(parts, {3600, 60, 1});
  if (!days || !rest) return std::nullopt;
  return *days * 24 * 3600 + *rest;
}

struct Refused {
  std::string_view name;
  char letter;  // its short form; 0: it has none
  std::string_view why, hint;
};

constexpr std::string_view kHasFlag = "has a flag of submit", kOfLoop = "is the job's script's own",
                           kNoJob = "submits no job", kOneFolder = "makes several jobs of one";
constexpr std::array<Refused, 28> kRefused = {{
    {"array", 'a', kOneFolder, "submit each with its own --job_dir"},
    {"wrap", 0, "replaces the job's script", "leave it out"},
    {"wait", 'W', "waits for the job's end", "wait by `oneflow status`"},
    {"test-only", 0, kNoJob, "use --dry_run"},
    {"help", 'h', kNoJob, "leave it out"},
    {"usage", 0, kNoJob, "leave it out"},
    {"version", 'V', kNoJob, "leave it out"},
    {"requeue", 0, "starts the script again, which restarts itself", "use --max_jobs"},
    {"no-kill", 'k', kOfLoop, "leave it out"},
    {"kill-on-invalid-dep", 0, kOfLoop, "leave it out"},
    {"signal", 0, kHasFlag, "use --signal_seconds"},
    {"output", 'o', "hides the script's log from `oneflow logs`", "leave it out"},
    {"error", 'e', "hides the script's log from `oneflow logs`", "leave it out"},
    {"open-mode", 0, kOfLoop, "leave it out"},
    {"export", 0, "hides the environment from the processes", "leave it out"},
    {"export-file", 0, "hides the environment from the processes", "leave it out"},
    {"clusters", 'M', "starts a job that `oneflow status` does not find",
     "submit it on that cluster"},
    {"nodes", 'N', kHasFlag, "use --nodes and --spare_nodes"},
    {"ntasks", 'n', kHasFlag, "use --nodes and --processes_per_node"},
    {"ntasks-per-node", 0, kHasFlag, "use --processes_per_node"},
    {"ntasks-per-gpu", 0, kHasFlag, "use --processes_per_node"},
    {"ntasks-per-socket", 0, kHasFlag, "use --processes_per_node"},
    {"ntasks-per-core", 0, kHasFlag, "use --processes_per_node"},
    {"cpus-per-task", 'c', kHasFlag, "use --cpus_per_process"},
    {"time", 't', kHasFlag, "use --time"},
    {"time-min", 0, "may leave the job less time than its script thinks", "use --time"},
    {"partition", 'p', kHasFlag, "use --partition"},
    {"parsable", 0, kOfLoop, "leave it out"},
}};

// Short options of sbatch without a value: another may follow in the same word.
constexpr std::string_view kWithoutValue = "HkOQsvhVW";

const Refused* FindLong(std::string_view name) {
  const Refused* found = nullptr;
  for (const Refused& refused : kRefused) {
    if (refused.name == name) return &refused;
    // sbatch, too, takes the beginning of a name for it.
    if (!name.empty() && refused.name.starts_with(name) && found == nullptr) found = &refused;
  }
  return found;
}

const Refused* FindShort(std::string_view letters) {
  for (const char letter : letters) {
    for (const Refused& refused : kRefused) {
      if (refused.letter == letter) return &refused;
    }
    if (kWithoutValue.find(letter) == kWithoutValue.npos) break;
  }
  return nullptr;
}

// The options of a directive, without their dashes: (long, name).
std::vector<std::pair<bool, std::string>> OptionsIn(const std::string& text) {
  std::vector<std::pair<bool, std::string>> options;
  for (const SbatchOption& option : SplitSbatchOptions(text)) {
    const std::string& head = option.head;
    const bool is_long = head.starts_with("--");
    options.emplace_back(is_long, is_long ? head.substr(2, head.find('=') - 2) : head.substr(1));
  }
  return options;
}

// Counts the characters from the beginning that `is` holds for.
template <typename Is>
size_t Prefix(std::string_view text, Is is) {
  return std::find_if_not(text.begin(), text.end(), is) - text.begin();
}

bool IsLowerOrDigit(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }
bool IsAlnum(char c) { return absl::ascii_isalnum(c); }

// Letters and digits, and between them one separator: ".", "_", "__" or dashes.
bool IsPathComponent(std::string_view text) {
  for (;;) {
    const size_t word = Prefix(text, IsLowerOrDigit);
    if (word == 0) return false;
    text.remove_prefix(word);
    if (text.empty()) return true;
    const size_t between = Prefix(text, [](char c) { return !IsLowerOrDigit(c); });
    const std::string_view separator = text.substr(0, between);
    const bool dashes = separator.find_first_not_of('-') == separator.npos;
    if (!dashes && separator != "." && separator != "_" && separator != "__") return false;
    text.remove_prefix(between);
  }
}

// "registry.example.com:5000", "localhost", "10.0.0.1".
bool IsDomain(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon != text.npos) {
    const std::optional<int64_t> port = Digits(std::string(text.substr(colon + 1)));
    if (!port || *port > 65535) return false;
    text = text.substr(0, colon);
  }
  const std::vector<std::string> labels = absl::StrSplit(ToAbsl(text), '.');
  return std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
    return !label.empty() && IsAlnum(label.front()) && IsAlnum(label.back()) &&
           std::all_of(label.begin(), label.end(), [](char c) { return IsAlnum(c) || c == '-'; });
  });
}

bool IsTag(std::string_view text) {
  return !text.empty() && text.size() <= 128 && (IsAlnum(text[0]) || text[0] == '_') &&
         Prefix(text, [](char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '-'; }) ==
             text.size();
}

// "sha256:" and its hex digits.
bool IsDigest(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || !IsPathComponent(text.substr(0, colon))) return false;
  const std::string_view hex = text.substr(colon + 1);
  const bool is_long = text.starts_with("sha256:") ? hex.size() == 64 : hex.size() >= 32;
  return is_long && Prefix(hex, absl::ascii_isxdigit) == hex.size();
}

bool IsImage(std::string_view name) {
  const size_t at = name.find('@');
  if (at != name.npos && !IsDigest(name.substr(at + 1))) return false;
  name = name.substr(0, at);
  const size_t slash = name.find('/');
  const std::string_view first = slash == name.npos ? "" : name.substr(0, slash);
  const bool has_domain = first.find_first_of(".:") != first.npos || first == "localhost" ||
                          std::any_of(first.begin(), first.end(), absl::ascii_isupper);
  if (has_domain) {
    if (!IsDomain(first)) return false;
    name = name.substr(slash + 1);
  }
  const size_t colon = name.find(':');
  if (colon != name.npos && !IsTag(name.substr(colon + 1))) return false;
  name = name.substr(0, colon);
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(name), '/');
  return name.size() <= 255 && std::all_of(parts.begin(), parts.end(), IsPathComponent);
}

bool IsDnsName(const std::string& name) {
  const std::vector<std::string> labels = absl::StrSplit(name, '.');
  return name.size() <= 253 &&
         std::all_of(labels.begin(), labels.end(), [](const std::string& label) {
           return !label.empty() && label.size() <= 63 && label.front() != '-' &&
                  label.back() != '-' && std::all_of(label.begin(), label.end(), [](char c) {
                    return IsLowerOrDigit(c) || c == '-';
                  });
         });
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> ParseSlurmTime(std::string_view flag,
                                                      const std::string& text) {
  const std::string upper = absl::AsciiStrToUpper(text);
  if (upper == "UNLIMITED" || upper == "INFINITE") return std::optional<int64_t>();
  const std::optional<int64_t> seconds = CountSeconds(text);
  if (!seconds) {
    return InputError(absl::StrCat("--", ToAbsl(flag), "=", text), "is no time of Slurm's",
                      "write minutes (90), hours:minutes:seconds (12:00:00) or days-hours (1-12)");
  }
  if (*seconds == 0) return std::optional<int64_t>();
  return seconds;
}

std::vector<SbatchOption> SplitSbatchOptions(const std::string& text) {
  constexpr char kBlanks[] = " \t";
  std::vector<SbatchOption> options;
  size_t end = 0;
  for (size_t at; (at = text.find_first_not_of(kBlanks, end)) != text.npos;) {
    const size_t before = end;
    end = std::min(text.size(), text.find_first_of(kBlanks, at));
    const std::string word = text.substr(at, end - at);
    const bool has_value = !options.empty() && options.back().head.find('=') != text.npos;
    if (options.empty() || word.starts_with("--") || (word.starts_with("-") && !has_value)) {
      options.push_back({word, ""});
    } else {
      std::string& value = has_value ? options.back().head : options.back().value;
      value += value.empty() ? word : text.substr(before, end - before);
    }
  }
  return options;
}

absl::Status CheckSbatchOption(const std::string& option) {
  const std::string where = "--sbatch_option=" + option;
  if (option.find_first_of("\n\r") != option.npos) {
    return InputError("--sbatch_option", "has more than one line");
  }
  if (!option.starts_with("-")) {
    return InputError(where, "is no option of sbatch",
                      "write it as sbatch takes it: --sbatch_option=--account=mine");
  }
  for (const auto& [is_long, name] : OptionsIn(option)) {
    const Refused* refused = is_long ? FindLong(name) : FindShort(name);
    if (refused == nullptr) continue;
    return InputError(where,
                      absl::StrCat("sbatch's --", ToAbsl(refused->name), " ", ToAbsl(refused->why)),
                      refused->hint);
  }
  return absl::OkStatus();
}

bool AsksForGpus(const std::string& option) {
  for (const auto& [is_long, name] : OptionsIn(option)) {
    if (is_long ? name == "gres" || name.starts_with("gpus") || name.starts_with("tres")
                : name.starts_with("G")) {
      return true;
    }
  }
  return false;
}

absl::Status CheckImage(std::string_view flag, const std::string& name) {
  if (IsImage(name)) return absl::OkStatus();
  return InputError(absl::StrCat("--", ToAbsl(flag), "=", name), "is no name of an image",
                    "write registry.example.com/team/oneflow:1, the path in small letters");
}

absl::Status CheckDnsName(std::string_view flag, const std::string& name) {
  if (IsDnsName(name)) return absl::OkStatus();
  return InputError(absl::StrCat("--", ToAbsl(flag), "=", name),
                    "is no name of an object of Kubernetes",
                    "use small letters, digits, - and ., with a letter or a digit at both ends");
}

}  // namespace oneflow
