// MeanLoss: the loss of several reports (run_context.h): the sum over all their labels that count,
// divided by the number of these. A mean of the reports' own means would be another number where
// they are of different numbers of labels.
//
//   MeanLoss mean;
//   context.report = [&](int64_t, std::span<const double> values) { mean.Add(values); };
#pragma once

#include <optional>
#include <span>

#include "actor_runtime/kernel/run_context.h"

namespace oneflow {

class MeanLoss {
 public:
  // Reports of one plan, in their order: the order of the sum. If a plan does not count labels,
  // each weighs 1.
  void Add(std::span<const double> report) {
    const double labels = report[kReportedLabels];
    const double weight = labels == kNotCounted ? 1 : labels;
    if (weight == 0) return;
    sum_ += weight * report[kReportedLoss];
    weight_ += weight;
  }
  void Add(const MeanLoss& other) {
    sum_ += other.sum_;
    weight_ += other.weight_;
  }

  // None: no label counts.
  std::optional<double> value() const {
    return weight_ > 0 ? std::optional<double>(sum_ / weight_) : std::nullopt;
  }
  // Zero unless the plan counts labels.
  double labels() const { return weight_; }

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace oneflow
