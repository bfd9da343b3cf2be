#include "tools/oneflow/cli/flag_value.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Flags whose gflag has a value that stands for "not given", which nobody can write: the least
// number that means something.
struct Least {
  std::string_view flag;
  int64_t number;
};

constexpr Least kLeast[] = {
    {"attempt", 1},          {"checkpoint_every", 1}, {"chunks", 1},
    {"cpus_per_process", 1}, {"eval_every", 1},       {"keep", 1},
    {"process", 0},          {"processes", 1},        {"process_index", 0},
    {"steps_a_round", 1},    {"threads", 1},          {"top", 1},
};

gflags::CommandLineFlagInfo FindInfo(const FlagRow& row) {
  return gflags::GetCommandLineFlagInfoOrDie(std::string(row.name).c_str());
}

// A value that the flag takes: its default, where that is more than nothing.
std::string MakeExample(const FlagRow& row, const std::string& type) {
  const std::string value(row.default_text);
  double number = 0;
  if (absl::SimpleAtod(value, &number) && number != 0) return value;
  return type == "double" ? "0.1" : "4";
}

// What is wrong with a text that is no value of the type, and how to mend it.
absl::Status NoValue(const FlagRow& row, const std::string& type, const std::string& value) {
  const std::string flag = absl::StrCat("--", std::string(row.name), "=");
  if (type == "bool") {
    return InputError(flag + value, "is neither true nor false",
                      absl::StrCat("write ", flag, "true or ", flag, "false"));
  }
  double number = 0;
  const bool is_number = absl::SimpleAtod(value, &number);
  const std::string example = absl::StrCat("write a number, e.g. ", flag, MakeExample(row, type));
  if (type == "double") {
    return InputError(flag + value, is_number ? "is too large a number" : "is no number", example);
  }
  const bool digits = value.find_first_not_of("+-0123456789") == value.npos;
  if (digits && is_number && type == "uint64" && number < 0) {
    return InputError(flag + value, "is negative", absl::StrCat("use 0 or more, e.g. ", flag, "1"));
  }
  if (digits && is_number) {
    const std::string most = type == "int32"   ? "2147483647"
                             : type == "int64" ? "2^63 - 1"
                                               : "2^64 - 1";
    return InputError(flag + value, "is out of range", "use at most " + most);
  }
  return InputError(flag + value, "is no whole number",
                    absl::StrCat("write it in digits, e.g. ", flag, MakeExample(row, type)));
}

// "only at the end", of the sentence that says so.
std::string FindDefault(const FlagRow& row) {
  constexpr std::string_view kBegin = "Default: ";
  const size_t at = row.sentence.find(kBegin);
  if (at == std::string_view::npos) return std::string(row.default_text);
  std::string text(row.sentence.substr(at + kBegin.size()));
  return text.substr(0, text.find_last_not_of('.') + 1);
}

absl::Status CheckLeast(const FlagRow& row, const std::string& value) {
  const auto* const least = std::find_if(std::begin(kLeast), std::end(kLeast),
                                         [&](const Least& l) { return l.flag == row.name; });
  if (least == std::end(kLeast)) return absl::OkStatus();
  if (std::strtoll(value.c_str(), nullptr, 0) >= least->number) return absl::OkStatus();
  const std::string by_default = FindDefault(row);
  return InputError(absl::StrCat("--", std::string(row.name), "=", value), "is out of range",
                    absl::StrCat("use ", least->number, " or more, or leave it out",
                                 by_default.empty() ? "" : "; the default: ", by_default));
}

}  // namespace

bool MayStandAlone(const FlagRow& row) {
  return row.name == "resume" || FindInfo(row).type == "bool";  // resume may be auto, too
}

absl::Status SetFlag(const FlagRow& row, const std::string& value) {
  RETURN_IF_ERROR(CheckValue(row, value));
  const std::string name(row.name);
  if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    return NoValue(row, FindInfo(row).type, value);
  }
  return CheckLeast(row, value);
}

}  // namespace oneflow
