#include "training/trainer/expert_load.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "training/trainer/metrics_log.h"

namespace oneflow {
namespace {

std::span<const double> OfExperts(std::span<const double> counts) {
  return counts.first(counts.size() - 1);
}

// At least 1, so that a share of nothing is 0.
double Choices(std::span<const double> counts) {
  const auto experts = OfExperts(counts);
  return std::max(1.0, std::accumulate(experts.begin(), experts.end(), 0.0));
}

}  // namespace

size_t CountsOfReport(const proto::Plan& plan) {
  const proto::Program* train = FindProgram(plan, "train");
  if (train == nullptr) return 0;
  for (const proto::Actor& actor : train->actor()) {
    if (actor.kernel() != "report" || actor.input_size() == 0) continue;
    const int last = actor.input(actor.input_size() - 1).register_();
    const proto::Register* r = FindRegister(plan, *train, last);
    if (r != nullptr && r->layout().dim_size() == 1) return r->layout().dim(0);
  }
  return 0;
}

double DroppedShare(std::span<const double> counts) {
  return counts.empty() ? 0 : counts.back() / Choices(counts);
}

std::string ExpertLoadJson(std::span<const double> counts) {
  if (counts.empty()) return "";
  std::string text =
      ", \"dropped\": " + ExactDouble(DroppedShare(counts)) + ", \"expert_shares\": [";
  const char* before = "";
  for (const double count : OfExperts(counts)) {
    text += before + ExactDouble(count / Choices(counts));
    before = ", ";
  }
  return text + "]";
}

double HottestExpert(std::span<const double> counts) {
  const auto experts = OfExperts(counts);
  const double most = *std::max_element(experts.begin(), experts.end());
  return most * static_cast<double>(experts.size()) / Choices(counts);
}

std::string ExpertLoadText(std::span<const double> counts) {
  if (counts.empty()) return "";
  std::string text = absl::StrFormat("  hottest %.2fx", HottestExpert(counts));
  if (counts.back() > 0)
    absl::StrAppendFormat(&text, "  dropped %.1f%%", 100 * DroppedShare(counts));
  return text;
}

std::string DroppedWarning(int64_t step, double share) {
  return absl::StrFormat(
      "warning: step %d dropped %.1f %% of its choices of experts, which were full; write the "
      "model with more --slots, or without them, or even out its experts by a larger "
      "--aux_loss_coeff, or by --bias_rate",
      step, 100 * share);
}

}  // namespace oneflow
