// Small plans written by hand, for tests: one line an actor.
//
//   PlanBuilder b;
//   int h = b.Register("h"), f = b.Actor("f", 0, {}, {h});
//   b.Stream("compute", 0, {{{b.Segment("F", 0, {f})}, 4}});
//   proto::Plan plan = b.Finish();
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

  // Adds a register of `elements` f32, replicated on every device.
  int Register(const std::string& name, int stage = 0, int slots = 1, int64_t elements = 16);

  struct In {
    int reg;
    int fires_per_read = 1;
    int initial_fills = 0;
  };
  int Actor(const std::string& name, int stage, const std::vector<In>& inputs,
            const std::vector<int>& outputs);
  void AddInput(int actor, const In& in);
  // Adds an actor that sums `in` of all devices along `axes` of the mesh into `out`, both
  // replicated on every device.
  int AllReduce(const std::string& name, int stage, const std::vector<int>& axes, const In& in,
                int out);
  // Two actors: one sends `from`, of its stage, the other receives it into `to`, of another stage.
  struct Pair {
    int send, receive;
  };
  Pair SendReceive(const std::string& name, const In& from, int to);
  int Segment(const std::string& name, int stage, const std::vector<int>& actors);
  using Order = std::vector<std::pair<std::vector<int>, int>>;  // {segments or actors, repeat}
  // Adds a stream, of kind HOST if the name begins with "host", COPY if with "offload". It is
  // EXCHANGE if the name begins with "copy", "send" or "receive" and all its actors are exchanges;
  // else COMPUTE.
  void Stream(const std::string& name, int stage, const Order& segments);
  // Sets the order of issue that Finish() would otherwise give to the stage.
  void Issue(int stage, const Order& actors);

  // Places registers one after the other, unless they were given an offset. Arenas are as large as
  // needed, those of the host for registers in its memory. Stages with exchanges and without
  // Issue() issue them in the order in which a game without orders of issue fires them. If that
  // game deadlocks, the rest follows as streams order it.
  proto::Plan Finish();
  proto::Register& At(int id) { return *plan_.mutable_program(0)->mutable_register_(id); }
  proto::Program& program() { return *plan_.mutable_program(0); }

 private:
  int FindOrAddGroup(const proto::Group& group);
  void AddIssues();

  proto::Plan plan_;
  std::vector<proto::IssueOrder> stated_;
};

}  // namespace oneflow
