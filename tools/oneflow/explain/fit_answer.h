// Prints the answer to a question of `oneflow fit` as it is found: three lines, notes, plans. With
// --format=json one document at the end. Ctrl-C ends it with what is known.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planning/fit/fit.h"
#include "planning/fit/fit_text.h"

namespace oneflow {

// `notes`: lines that stand under the three, as how the model differs from the one asked about.
// `options`: without stop and progress. An answer that nothing fits is a status without a message,
// of exit code 2. Errors: those of FindFit.
absl::Status AnswerFit(const FitQuestion& question, FitOptions options, const FitFrame& frame,
                       const std::vector<std::string>& notes);

// FindFit with a line of progress on stderr, and Ctrl-C, which ends it with what is known.
// `options`: without stop and progress.
absl::StatusOr<FitAnswer> FindFitWithProgress(const FitQuestion& question, FitOptions options,
                                              const FitObserver& observe);

// An input error for a budget that leaves no time.
absl::Status CheckBudget(double seconds);

// The bytes of the plan's stage that needs most by class, the largest first.
std::vector<ClassBytes> ListClassBytes(const proto::Plan& plan);

}  // namespace oneflow
