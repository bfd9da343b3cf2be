#include "planning/search/add_policy.h"

namespace oneflow {
namespace {

void AddCosts(const Linear& less, const Linear& more, Linear* to) {
  to->block += more.block - less.block;
}

void AddCosts(const LinearTasks& less, const LinearTasks& more, LinearTasks* to) {
  AddCosts(less.forward, more.forward, &to->forward);
  AddCosts(less.backward, more.backward, &to->backward);
  AddCosts(less.weights, more.weights, &to->weights);
}

void AddCosts(const StageCosts& less, const StageCosts& more, StageCosts* to) {
  AddCosts(less.spans, more.spans, &to->spans);
  AddCosts(less.kernels, more.kernels, &to->kernels);
  for (Linear StageCosts::*part :
       {&StageCosts::firings, &StageCosts::sums, &StageCosts::saved, &StageCosts::kept,
        &StageCosts::fit_saved, &StageCosts::fit_kept}) {
    AddCosts(less.*part, more.*part, &(to->*part));
  }
  for (double Transients::*part : {&Transients::head, &Transients::last, &Transients::inner,
                                   &Transients::tail, &Transients::any}) {
    to->transients.*part += more.transients.*part - less.transients.*part;
  }
  for (auto& [name, stream] : to->streams) {
    const auto a = less.streams.find(name), b = more.streams.find(name);
    if (a != less.streams.end() && b != more.streams.end()) {
      AddCosts(a->second.each, b->second.each, &stream.each);
    }
  }
}

}  // namespace

ShortCosts AddPolicy(const ShortCosts& plain, const ShortCosts& least,
                     const ShortCosts& least_policy) {
  ShortCosts result = plain;
  for (StageCosts ShortCosts::*slice :
       {&ShortCosts::first, &ShortCosts::middle, &ShortCosts::last}) {
    AddCosts(least.first, least_policy.first, &(result.*slice));
  }
  return result;
}

}  // namespace oneflow
