// One tensor on its way to readers that want it in other ways, run for real: what the tests of
// boxing compare with gather-then-scatter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct BoxingCase {
  Mesh mesh;
  Dims dims;
  NdSbp from;             // on the first stage
  std::vector<NdSbp> to;  // each has its own reader, on the last stage
  proto::Cluster cluster = {};
  // True: constraints fix the layouts of x and its readers, and infer_sbp obeys them. Then a
  // replicated tensor is fed, from which x is computed: requires no Pmax.
  bool constrained = false;
};

// B, P, Pmax and S of each of `rank` dimensions on every axis but the stage axis, which has B.
std::vector<NdSbp> AllSbps(const Mesh& mesh, int rank);

// Pairs of slow and fast links: nodes of two devices.
proto::Cluster NodesOfTwo();

// The layout of what is fed.
NdSbp FedAs(const BoxingCase& c);

// The key of a case whose plan is recorded (recorded_plans.h).
std::string RecordKey(const BoxingCase& c);

// A program "run" that feeds x, boxes it for readers y0, y1, ..., and fetches what they get, raw.
proto::Plan MakeBoxingPlan(const BoxingCase& c);

// CHECKs that every reader gets the result of gathering all of x and scattering it again, in an
// order of firings drawn from `seed`. Values are integers, so sums are exact.
void CheckBoxing(const BoxingCase& c, uint64_t seed);

}  // namespace oneflow
