#include "planning/fit/quantities.h"

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {
namespace {

// Tokens of a step or a sequence, at most: beyond, products of them would not fit 64 bits.
constexpr double kMostTokens = 0x1p40;

struct Quantity {
  double number = 0;
  bool scaled = false;  // by k, M or G
  std::string unit;     // behind it, in lower case: "tokens"
};

// Reads "4Mtokens": none if no number begins the text.
std::optional<Quantity> ReadQuantity(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  // strtod takes "inf", "nan" and "0x8", too.
  if (lower.empty() || lower.find_first_not_of("0123456789.") == 0) return std::nullopt;
  if (lower.starts_with("0x")) return std::nullopt;
  char* end = nullptr;
  Quantity quantity{.number = std::strtod(lower.c_str(), &end)};
  if (end == lower.c_str()) return std::nullopt;
  constexpr std::string_view kLetters = "kmg";
  std::string_view rest = ToStd(absl::StripLeadingAsciiWhitespace(end));
  const size_t power = rest.empty() ? std::string_view::npos : kLetters.find(rest[0]);
  quantity.scaled = power != std::string_view::npos;
  if (quantity.scaled) {
    quantity.number *= std::pow(1024.0, static_cast<double>(power + 1));
    rest.remove_prefix(1);
  }
  quantity.unit = std::string(ToStd(absl::StripAsciiWhitespace(ToAbsl(rest))));
  return quantity;
}

bool IsCount(double number) { return number >= 1 && number == std::floor(number); }

// Digits alone, which stand for a number of devices.
std::optional<int64_t> ReadDigits(std::string_view text) {
  if (text.empty() || text.size() > 9) return std::nullopt;
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + (c - '0');
  }
  return number;
}

bool IsAmong(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

absl::StatusOr<DeviceGrid> ParseDeviceGrid(const std::string& text) {
  const std::string where = "--devices=" + text;
  const std::string hint = "write --devices=64, or --devices=8x8 for 8 nodes of 8";
  const size_t times = text.find_first_of("xX*");
  DeviceGrid grid;
  if (times == std::string::npos) {
    const std::optional<int64_t> devices = ReadDigits(text);
    if (!devices) return InputError(where, "is no number of devices", hint);
    grid.devices = *devices;
  } else {
    const std::optional<int64_t> nodes = ReadDigits(std::string_view(text).substr(0, times));
    const std::optional<int64_t> each = ReadDigits(std::string_view(text).substr(times + 1));
    if (!nodes || !each) return InputError(where, "is not nodes x devices of a node", hint);
    grid = {*nodes, *nodes * *each};
  }
  if (grid.devices >= 1 && grid.devices <= kMaxDevices) return grid;
  return InputError(where, "is out of range",
                    absl::StrCat("use 1 device or more, at most ", kMaxDevices));
}

absl::StatusOr<BatchSize> ParseBatch(const std::string& text) {
  const std::string where = "--batch=" + text;
  const std::string hint = "write sequences, as --batch=1024, or tokens, as --batch=4Mtokens";
  const std::optional<Quantity> read = ReadQuantity(text);
  if (!read) return InputError(where, "is no batch", hint);
  const bool tokens =
      IsAmong(read->unit, {"tokens", "token", "tok"}) || (read->scaled && read->unit.empty());
  const bool sequences = IsAmong(read->unit, {"sequences", "sequence", "seq", "seqs", "samples"}) ||
                         (!read->scaled && read->unit.empty());
  if (!tokens && !sequences) {
    return InputError(where, "has the unit \"" + read->unit + "\", which is none of a batch", hint);
  }
  if (!IsCount(read->number) || read->number > kMostTokens) {
    return InputError(
        where,
        absl::StrCat("is no whole number of ", tokens ? "tokens" : "sequences", " from 1 to 2^40"),
        hint);
  }
  const auto number = static_cast<int64_t>(read->number);
  return tokens ? BatchSize{.tokens = number} : BatchSize{.sequences = number};
}

absl::StatusOr<int64_t> ParseSequence(const std::string& text) {
  const std::string where = "--sequence=" + text;
  const std::string hint = "write tokens, as --sequence=8192 or --sequence=8k";
  const std::optional<Quantity> read = ReadQuantity(text);
  if (!read || !(read->unit.empty() || IsAmong(read->unit, {"tokens", "token", "tok"}))) {
    return InputError(where, "is no length of a sequence", hint);
  }
  if (!IsCount(read->number) || read->number > std::numeric_limits<int32_t>::max()) {
    return InputError(where, "is no whole number of tokens from 1 to 2,147,483,647", hint);
  }
  return static_cast<int64_t>(read->number);
}

}  // namespace oneflow
