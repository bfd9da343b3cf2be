// TraceFacts: facts of a plan about the firings in a trace: the stage of a rank, and an actor's
// part of a step and its bytes.
//
//   TraceFacts facts = MakeTraceFacts(plan);
//   if (const TraceFacts::Actor* actor = facts.Find("train", "h.0.mlp.fc")) ...
//
// It is constant once made. If several actors of a program share a name, the facts are those of the
// first.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/plan.pb.h"

namespace oneflow {

struct TraceFacts {
  enum class Part { kForward, kBackward, kUpdate, kExchange, kCopy, kHost, kOther };
  struct Actor {
    Part part = Part::kOther;
    bool between_stages = false;  // for an exchange
    double written_bytes = 0;     // by one firing on the device with the largest part
    double received_bytes = 0;    // from other devices, by one firing
  };

  const Actor* Find(std::string_view program, std::string_view name) const;

  std::vector<int> stage_of;  // by rank; empty: nothing is known
  std::map<std::string, std::map<std::string, Actor, std::less<>>, std::less<>> actors;
};

// Requires a plan that passed VerifyPlan.
TraceFacts MakeTraceFacts(const proto::Plan& plan);

// "forward", "exchange", ...
std::string_view Name(TraceFacts::Part part);

}  // namespace oneflow
