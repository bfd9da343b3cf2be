// Compares two plans: facts (mesh, groups, schedule, orders), numbers (actors, registers, bytes),
// and the actors of one program that only one of the two has.
//
//   PlanDiff diff = DiffPlans(a, b, "train");
//   AddNumber("time of a step", "s", 0.31, 0.27, &diff);       // what the caller knows beside
//   std::fputs(DiffText(diff).c_str(), stdout);
//
// It lists differences; it does not say which plan is better.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "proto/plan.pb.h"

namespace oneflow {

struct PlanDiff {
  // The first and last stage of a range that changed equally; -1: none.
  struct Stages {
    int first = -1, last = -1;
  };
  struct Fact {
    std::string what, a, b;
    Stages stages;
  };
  struct Number {
    std::string what, unit;  // unit: "bytes", "s", "" for counts
    double a = 0, b = 0;
    Stages stages;
  };
  std::vector<Fact> facts;                  // those that differ
  std::vector<Number> numbers;              // those that differ
  std::vector<std::string> only_a, only_b;  // actors by name, "h.0.fc (linear)", in plan order
  int stages_a = 0, stages_b = 0;           // of the plans
  bool empty() const {
    return facts.empty() && numbers.empty() && only_a.empty() && only_b.empty();
  }
};

// `program` may be missing in either plan: then it has no actors there.
PlanDiff DiffPlans(const proto::Plan& a, const proto::Plan& b, const std::string& program);

// Appends a number if it differs. The stages of one number come one after the other.
void AddNumber(const std::string& what, const std::string& unit, double a, double b, PlanDiff* diff,
               int stage = -1);

// Prints for a terminal, at most 120 columns wide: the time of a step, bytes of a device, facts,
// parts of the step, bytes received and counts, then actors that only one plan has. Each thing has
// one line, of the stage that changes most and, of orders, the first; of stages that only one plan
// has, one line says so. JSON has all stages. Actors whose names differ only in numbers of layers
// share a line. `first`: lines that come first, "" for none.
std::string DiffText(const PlanDiff& diff, const std::string& first = "");
nlohmann::ordered_json DiffJson(const PlanDiff& diff);

}  // namespace oneflow
