// Mutated plans, for tests of liveness: compiled plans of which only tokens are left, with slots,
// rates, initial fills, orders of streams and of issue, partners and control edges edited.
#pragma once

#include <string>
#include <vector>

#include "proto/plan.pb.h"

namespace oneflow {

struct Base {
  proto::Plan plan;
  bool exchanges = false;
};

// Plans for one to three devices, all live.
std::vector<Base> Bases(proto::DeviceKind device);

// Plans whose gathers of weights run ahead of compute, all live.
std::vector<Base> BasesWithGathersAhead(proto::DeviceKind device);

// Plans of which registers rest in the host's memory, all live.
std::vector<Base> BasesWithOffload(proto::DeviceKind device);

enum class Verdict { kLive, kStuck, kInconsistent };

struct Judgement {
  Verdict verdict = Verdict::kLive;
  std::string why;
};

// The verdict of the proof.
Judgement Judge(const proto::Plan& plan);
// The first actor of a proof's explanation, in the runtime's words.
std::string FindBlocked(const proto::Plan& plan, const std::string& story);

// Mutant `number` of a plan of one of the bases, by one of three ways.
struct Mutant {
  proto::Plan plan;
  enum Kind { kEdited, kByTwoEdges, kByIssue } kind = kEdited;
};
Mutant MakeMutant(const std::vector<Base>& bases, int number);

// Mutant `number` of a plan whose gathers or copies run ahead: edited, or with a credit that is
// given so many uses too late (below 0: too early).
struct CreditMutant {
  proto::Plan plan;
  int late = 0;  // 0: edited
};
CreditMutant MakeCreditMutant(const std::vector<Base>& bases, int number);

}  // namespace oneflow
