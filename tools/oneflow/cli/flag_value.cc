#include "tools/oneflow/cli/flag_value.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>

#include "gflags/gflags.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// Flags whose gflag has a value that stands for "not given", which nobody can write: the least
// number that means something.
struct Least {
  std::string_view flag;
  int64_t number;
};

constexpr Least kLeast[] = {
    {"attempt", 1},       {"cpus_per_process", 1}, {"process", 0},
    {"process_index", 0}, {"sync_every", 1},       {"top", 1},
};

gflags::CommandLineFlagInfo FindInfo(const FlagRow& row) {
  return gflags::GetCommandLineFlagInfoOrDie(std::string(row.name).c_str());
}

absl::Status CheckLeast(const FlagRow& row, const std::string& where, const std::string& value) {
  const auto* const least = std::find_if(std::begin(kLeast), std::end(kLeast),
                                         [&](const Least& l) { return l.flag == row.name; });
  if (least == std::end(kLeast)) return absl::OkStatus();
  const Row range = {.default_text = row.default_text,
                     .least = static_cast<double>(least->number),
                     .sentence = row.sentence};
  return CheckRange(where, range, std::strtod(value.c_str(), nullptr));
}

}  // namespace

bool MayStandAlone(const FlagRow& row) {
  if (row.name == "resume") return true;  // it may be auto, too
  return row.row != nullptr ? IsSwitch(*row.row, *row.message) : FindInfo(row).type == "bool";
}

absl::Status SetFlag(const FlagRow& row, const std::string& value) {
  if (row.row != nullptr) {
    const std::unique_ptr<google::protobuf::Message> scratch(row.message->New());
    return SetField(*row.row, value, scratch.get());
  }
  RETURN_IF_ERROR(CheckValue(row, value));
  const std::string name(row.name), where = "--" + name + "=" + value;
  RETURN_IF_ERROR(CheckScalar(where, FindInfo(row).type, value, row.default_text));
  gflags::SetCommandLineOption(name.c_str(), value.c_str());
  return CheckLeast(row, where, value);
}

}  // namespace oneflow
