// Small plans written by hand, for tests: one line an actor.
//
//   PlanBuilder b;
//   int w = b.Register("h", 64), f = b.Actor("f", 0, {}, {h});
//   b.Stream("compute", 0, {{b.Segment("F", 0, {f}), 4}});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/plan.pb.h"

namespace oneflow {

class PlanBuilder {
 public:
  // One program "train" on a mesh of axes {name, size}; the axis "pipe" is the stage's.
  explicit PlanBuilder(const std::vector<std::pair<std::string, int>>& mesh = {});

  // A register of `elements` f32, whole on every device.
  int Register(const std::string& name, int stage = 0, int slots = 1, int64_t elements = 16);

  struct In {
    int reg;
    std::vector<int> along = {};
    int fires_per_read = 1;
    int initial_fills = 0;
  };
  int Actor(const std::string& name, int stage, const std::vector<In>& inputs,
            const std::vector<int>& outputs);
  int Segment(const std::string& name, int stage, const std::vector<int>& actors);
  // Order: {segments, repeat}.
  void Stream(const std::string& name, int stage,
              const std::vector<std::pair<std::vector<int>, int>>& order);

  // Registers one after the other, unless they were given an offset; arenas as large as needed.
  proto::Plan Finish();
  proto::Register& At(int id) { return *plan_.mutable_program(0)->mutable_register_(id); }
  proto::Program& program() { return *plan_.mutable_program(0); }

 private:
  proto::Plan plan_;
};

}  // namespace oneflow
