#include "tools/oneflow/explain/page_head.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/band.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

std::string Counted(int64_t n, const char* one, const char* many) {
  return absl::StrCat(DigitsText(n), " ", n == 1 ? one : many);
}

// With the unit that the page's scripts write.
std::string PageTimeText(double seconds) {
  return absl::StrReplaceAll(TimeText(seconds), {{" us", " µs"}});
}

// "low to high": a figure that grows with the step's time, or falls with it, within 1 sigma of it.
std::string RangeText(double figure, double sigma, const std::function<std::string(double)>& text) {
  if (sigma <= 0) return "";
  return absl::StrCat(text(figure * std::exp(-sigma)), " to ", text(figure * std::exp(sigma)));
}

int64_t FindMost(const SimulationSummary& summary, int64_t SimulationSummary::Device::*bytes) {
  int64_t most = 0;
  for (const SimulationSummary::Device& device : summary.stages) {
    most = std::max(most, device.*bytes);
  }
  return most;
}

std::string TokensText(double tokens) { return DigitsText(std::llround(tokens)); }

}  // namespace

nlohmann::ordered_json PageHead(const SimulationSummary& summary, const proto::Device& device) {
  const double sigma = summary.band.outside.empty() ? summary.band.sigma : 0;
  nlohmann::ordered_json head = {
      {"a step", PageTimeText(summary.step_seconds),
       RangeText(summary.step_seconds, sigma, PageTimeText),
       std::string(absl::StripLeadingAsciiWhitespace(BandText(summary.band)))}};
  if (summary.device_tokens_a_second > 0) {
    const double all = summary.device_tokens_a_second * summary.devices;
    head.push_back({"tokens a second", TokensText(all), RangeText(all, sigma, TokensText),
                    absl::StrCat(TokensText(summary.device_tokens_a_second), " a device")});
  }
  if (summary.rates && summary.rates->mfu) {
    const double mfu = *summary.rates->mfu;
    const std::string why = WhyAboveAll(mfu, summary.rates->mfu_hidden);
    head.push_back({"MFU", PercentText(mfu), RangeText(mfu, sigma, PercentText),
                    why.empty() ? WhatCounts(*summary.rates) : why});
  }
  const int64_t bytes = FindMost(summary, &SimulationSummary::Device::arena_bytes),
                usable = UsableBytes(device);
  std::string share;
  if (usable > 0) {
    share = absl::StrCat(PercentText(static_cast<double>(bytes) / static_cast<double>(usable)),
                         " of ", SizeText(static_cast<double>(usable)));
  }
  head.push_back({"memory of a device", SizeText(static_cast<double>(bytes)), share,
                  absl::StrCat(DigitsText(bytes), " bytes, exact", KeptText(KeptBytes(device)))});
  return head;
}

std::vector<std::string> PageFacts(const proto::Plan& plan, const SimulationSummary& summary,
                                   const std::string& proof, const std::string& price) {
  const proto::Recipe& recipe = plan.recipe();
  std::vector<std::string> facts = {
      Counted(summary.devices, "device", "devices"),
      absl::StrCat("a batch of ", Counted(recipe.batch(), "sequence", "sequences"), " in ",
                   Counted(recipe.micro_batches(), "micro-batch", "micro-batches")),
      ScheduleName(plan),
      recipe.precision() == proto::BF16 ? "bf16" : "f32",
      "proof: " + proof,
      "program " + summary.program};
  if (summary.devices > 1) facts.insert(facts.begin() + 1, MeshText(plan.mesh()));
  const int64_t host = FindMost(summary, &SimulationSummary::Device::host_arena_bytes);
  if (host > 0) facts.push_back(BytesText(host) + " of the host for a device");
  if (!price.empty()) facts.push_back(price);
  return facts;
}

std::string PageTitle(const proto::Plan& plan, const SimulationSummary& summary) {
  const std::string mesh = MeshText(plan.mesh());
  return absl::StrCat(summary.model, ", ", mesh == "1" ? "one device" : mesh, ", ",
                      ScheduleName(plan), ", batch ", plan.recipe().batch(), ": ",
                      PageTimeText(summary.step_seconds), " a step");
}

}  // namespace oneflow
