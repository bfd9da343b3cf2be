// The line of a training that a terminal shows and writes over:
//
//   step 120/400  loss 3.1416  ▇▇▆▅▆▄▄▃▃▂▂▁  left 1:23  51200 tokens/s  MFU 43%
//
//   ProgressLine(step, losses, TerminalColumns(), HasUtf8())
//
// Lines of a file are ProgressText's (progress_printer.cc): they leave nothing out.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "training/trainer/metrics_log.h"

namespace oneflow {

// Losses that the curve shows at most.
inline constexpr size_t kMostOfCurve = 24;

// It takes at most columns - 1 columns: some terminals go to the next line after the last one. What
// does not fit is left out from the right: load of experts, host, MFU, tokens/s, left, then the
// curve, which takes 8 to 24 columns, then the loss. `losses`: the last ones, the newest at the
// end.
std::string ProgressLine(const TrainedStep& step, std::span<const std::optional<double>> losses,
                         int columns, bool utf8);

// The curve of the last `columns` losses, from their least to their most; a blank where there is
// none, or where it is not finite.
std::string Curve(std::span<const std::optional<double>> losses, size_t columns, bool utf8);

// "1:23", "2:03:20".
std::string DurationText(double seconds);
// "3.1416"; "none" of a step of no labels.
std::string LossText(std::optional<double> loss);

// Of standard output; 80 where it does not say.
int TerminalColumns();
// True if the user's locale (LC_ALL, LC_CTYPE, LANG) is of UTF-8.
bool HasUtf8();

}  // namespace oneflow
