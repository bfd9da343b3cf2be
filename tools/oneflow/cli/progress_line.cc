#include "tools/oneflow/cli/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/time_text.h"
#include "training/trainer/expert_load.h"

namespace oneflow {
namespace {

constexpr int kLevels = 8;
constexpr std::string_view kBlocks[kLevels] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kLetters[kLevels] = {"_", ".", ":", "-", "=", "+", "*", "#"};
constexpr size_t kLeastOfCurve = 8;
constexpr size_t kGap = 2;

bool IsShown(const std::optional<double>& loss) { return loss && std::isfinite(*loss); }

// The fields behind the curve that are known, in their order.
std::vector<std::string> FieldsOfStep(const TrainedStep& step) {
  std::vector<std::string> fields = {absl::StrCat("left ", DurationText(step.left_seconds)),
                                     absl::StrFormat("%.0f tokens/s", step.tokens_per_second)};
  if (step.mfu) fields.push_back(absl::StrFormat("MFU %.0f%%", 100 * *step.mfu));
  if (step.host_seconds) {
    fields.push_back(absl::StrFormat("host %.0f%%", 100 * *step.host_seconds / step.seconds));
  }
  const std::string load = ExpertLoadText(step.counts);
  if (!load.empty()) fields.emplace_back(absl::StripLeadingAsciiWhitespace(load));
  return fields;
}

}  // namespace

std::string DurationText(double seconds) {
  const long total = std::lround(seconds);
  if (total < 3600) return absl::StrFormat("%d:%02d", total / 60, total % 60);
  return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
}

std::string LossText(std::optional<double> loss) { return loss ? NumberText(*loss) : "none"; }

std::string Curve(std::span<const std::optional<double>> losses, size_t columns, bool utf8) {
  if (losses.size() > columns) losses = losses.last(columns);
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const std::optional<double>& loss : losses) {
    if (IsShown(loss)) least = std::min(least, *loss), most = std::max(most, *loss);
  }
  std::string text(columns - losses.size(), ' ');
  for (const std::optional<double>& loss : losses) {
    if (!IsShown(loss)) {
      text += ' ';
      continue;
    }
    const double part = most > least ? (*loss - least) / (most - least) : 0;
    text += (utf8 ? kBlocks : kLetters)[std::lround(part * (kLevels - 1))];
  }
  return text;
}

std::string ProgressLine(const TrainedStep& step, std::span<const std::optional<double>> losses,
                         int columns, bool utf8) {
  const size_t room = static_cast<size_t>(std::max(columns - 1, 0));
  std::string text = absl::StrFormat("step %d/%d", step.step + 1, step.last_step);
  const std::string loss = "  loss " + LossText(step.loss);
  if (text.size() + loss.size() > room) return text.substr(0, room);
  text += loss;
  size_t taken = text.size() + kGap + kLeastOfCurve;
  if (taken > room) return text;
  std::string rest;
  for (const std::string& field : FieldsOfStep(step)) {
    taken += kGap + field.size();
    if (taken > room) break;
    absl::StrAppend(&rest, "  ", field);
  }
  const size_t of_curve = std::min(kMostOfCurve, room - text.size() - kGap - rest.size());
  return absl::StrCat(text, "  ", Curve(losses, of_curve, utf8), rest);
}

int TerminalColumns() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

bool HasUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

}  // namespace oneflow
