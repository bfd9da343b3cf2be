#include "compiler/lower/move_to_host.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"
#include "compiler/lower/task_order.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// The host's own actors, and the copies of a GPU for them, access what they need as they are.
bool IsHost(Lane lane) {
  return lane == Lane::kHostIn || lane == Lane::kHostOut || lane == Lane::kCopyIn ||
         lane == Lane::kCopyOut || lane == Lane::kHostUpdate;
}

class HostMover {
 public:
  HostMover(const google::protobuf::RepeatedPtrField<proto::Register>& persistent, Lowered* lowered)
      : persistent_(persistent), lowered_(*lowered), order_(*lowered) {}

  void Run() {
    const int actors = lowered_.program.actor_size();
    for (int a = 0; a < actors; ++a) AddReads(a);
    // In the order of their ids, so that equal programs are equal plans.
    for (const int id : lowered_.to_host) MoveBetweenTasks(id);
    for (const auto& [id, reads] : reads_) {
      if (Reg(id).memory_kind() == proto::HOST) CopyIn(id, id, reads);
    }
    for (int a = 0; a < actors; ++a) {
      const Lane lane = order_.lane(a);
      if (lane == Lane::kHostUpdate) {
        CopyInputsOut(a);
      } else if (!IsHost(lane)) {
        UpdateApart(a);
      }
    }
    AddSegments();
  }

 private:
  struct Read {
    int actor = 0, input = 0;
  };
  // A new copy. Those of a lane and task stand in the order of `position`, until compute is final
  // (bound_copies.h) those of an update as they are made.
  struct Copy {
    int actor = 0;
    int stage = 0;
    Lane lane = Lane::kOffloadIn;
    Task task;
    int position = 0;
    TaskOrder::Use use;
  };

  const proto::Register& Reg(int id) const {
    const int own = id - persistent_.size();
    return own < 0 ? persistent_.Get(id) : lowered_.program.register_(own);
  }
  proto::Actor* MutableActor(int a) { return lowered_.program.mutable_actor(a); }

  // Of devices.
  void AddReads(int a) {
    if (IsHost(order_.lane(a))) return;
    const proto::Actor& actor = lowered_.program.actor(a);
    for (int i = 0; i < actor.input_size(); ++i) {
      reads_[actor.input(i).register_()].push_back({a, i});
    }
  }

  // A register as `like`, of one slot, which every firing of its writer fills.
  int AddRegister(int like, const std::string& suffix, proto::MemoryKind kind) {
    proto::Register r = Reg(like);
    const int id = persistent_.size() + lowered_.program.register__size();
    r.set_id(id);
    r.set_name(r.name() + suffix);
    r.set_slots(1);
    r.set_fill_mode(proto::Register::FRESH);
    r.set_fires_per_fill(1);
    r.set_offset(0);
    r.set_memory_kind(kind);
    *lowered_.program.add_register_() = std::move(r);
    return id;
  }

  // Copies from register `from` to `to`. `like`: an actor whose block it belongs to.
  int AddCopy(Lane lane, int from, int to, int like) {
    const bool in = lane == Lane::kOffloadIn;
    const char* kernel = in ? "copy_in" : "copy_out";
    proto::Actor* copy = AddOrderOnlyActor(
        &lowered_, absl::StrCat(Reg(in ? to : from).name(), ".", kernel), Reg(from).stage());
    copy->set_kernel(kernel);
    AddControlInput(from, copy);  // a fill a firing, unless the caller says otherwise
    copy->add_output(to);
    const proto::ActorFacts& facts = FindFacts(lowered_.facts, like);
    proto::ActorFacts* own = MutableFacts(copy->id(), &lowered_.facts);
    own->set_scope(facts.scope());
    if (facts.has_block()) own->set_block(facts.block());
    return copy->id();
  }

  void Redirect(const Read& read, int to, int fires_per_read) {
    proto::Input* input = MutableActor(read.actor)->mutable_input(read.input);
    input->set_register_(to);
    input->set_fires_per_read(fires_per_read);
    input->set_initial_fills(0);
  }

  // What tasks other than its writer's read of a register, they read by way of the host's memory.
  void MoveBetweenTasks(int id) {
    const int writer = order_.FindWriter(id);
    const Task task = order_.task(writer);
    std::vector<Read> others;
    for (const Read& read : reads_[id]) {
      if (!(order_.task(read.actor) == task)) others.push_back(read);
    }
    if (others.empty()) return;
    const int host = AddRegister(id, ".host", proto::HOST);
    const int copy = AddCopy(Lane::kOffloadOut, id, host, writer);
    copies_.push_back({copy, Reg(id).stage(), Lane::kOffloadOut, task, order_.Position(writer),
                       order_.FindUse(writer)});
    CopyIn(host, id, others);
  }

  // `reads` read a copy of register `host`, one for each use. `as`: the register that they read
  // until now.
  void CopyIn(int host, int as, const std::vector<Read>& reads) {
    if (lowered_.copied_once.contains(as)) return CopyInOnce(host, reads);
    // A W reads the copy of its B, if there is one.
    const auto task_of = [&](const Read& read) {
      Task task = order_.task(read.actor);
      const Task backward{Part::kBackward, task.chunk};
      const bool both = task.part == Part::kWeights &&
                        std::any_of(reads.begin(), reads.end(), [&](const Read& other) {
                          return order_.task(other.actor) == backward;
                        });
      return both ? backward : task;
    };
    std::map<std::pair<Task, TaskOrder::Use>, std::vector<Read>> uses;
    for (const Read& read : reads) {
      uses[{task_of(read), order_.FindUse(read.actor)}].push_back(read);
    }
    for (const auto& [key, of_use] : uses) AddCopyIn(host, key.first, key.second, of_use);
  }

  void AddCopyIn(int host, const Task& task, const TaskOrder::Use& use,
                 const std::vector<Read>& reads) {
    const proto::Input before = lowered_.program.actor(reads[0].actor).input(reads[0].input);
    const int device = AddRegister(host, ".copy", proto::DEVICE);
    const int copy = AddCopy(Lane::kOffloadIn, host, device, reads[0].actor);
    *MutableActor(copy)->mutable_input(0) = before;
    MutableActor(copy)->mutable_input(0)->set_register_(host);
    int position = std::numeric_limits<int>::max();
    for (const Read& read : reads) {
      position = std::min(position, order_.Position(read.actor));
      Redirect(read, device, 1);
    }
    // What the host computes for exchanges of an update, such as sums of squares, is small.
    const bool update = task.part == Part::kUpdate;
    copies_.push_back({copy, Reg(host).stage(), Lane::kOffloadIn, task, position,
                       update ? TaskOrder::Use() : use});
  }

  // Before the first micro-batch.
  void CopyInOnce(int host, const std::vector<Read>& reads) {
    const int device = AddRegister(host, ".copy", proto::DEVICE);
    const int copy = AddCopy(Lane::kOffloadIn, host, device, reads[0].actor);
    const proto::Input before = lowered_.program.actor(reads[0].actor).input(reads[0].input);
    MutableActor(copy)->mutable_input(0)->set_initial_fills(before.initial_fills());
    int position = std::numeric_limits<int>::max();
    for (const Read& read : reads) {
      position = std::min(position, order_.Position(read.actor));
      const int rate = lowered_.program.actor(read.actor).input(read.input).fires_per_read();
      Redirect(read, device, rate);
    }
    copies_.push_back({copy, Reg(host).stage(), Lane::kOffloadIn, {Part::kPrepare}, position, {}});
  }

  // A host's actor reads what devices write by way of copies; several such actors share one.
  void CopyInputsOut(int a) {
    for (int i = 0; i < lowered_.program.actor(a).input_size(); ++i) {
      const proto::Input before = lowered_.program.actor(a).input(i);
      const proto::Register& r = Reg(before.register_());
      if (r.memory_kind() == proto::HOST || r.slot_bytes() == 0) continue;
      const Task task = order_.task(a);
      const auto [host, fresh] = copied_out_.try_emplace({before.register_(), task}, -1);
      if (fresh) {
        host->second = AddRegister(before.register_(), ".host", proto::HOST);
        const int copy = AddCopy(Lane::kOffloadOut, before.register_(), host->second, a);
        *MutableActor(copy)->mutable_input(0) = before;
        copies_.push_back({copy, r.stage(), Lane::kOffloadOut, task, 0, {before.register_(), -1}});
      }
      Redirect({a, i}, host->second, 1);
    }
  }

  // A device's actor that updates in place what is in the host's memory.
  void UpdateApart(int a) {
    const proto::Actor before = lowered_.program.actor(a);
    for (int o = 0; o < before.output_size(); ++o) {
      const int host = before.output(o);
      if (Reg(host).memory_kind() != proto::HOST) continue;
      const Task task = order_.task(a);
      const TaskOrder::Use use{order_.Position(a), -1};
      const int old = AddRegister(host, ".copy", proto::DEVICE);
      const int in = AddCopy(Lane::kOffloadIn, host, old, a);
      MutableActor(in)->mutable_input(0)->set_initial_fills(1);
      const int next = AddRegister(host, ".next", proto::DEVICE);
      const int out = AddCopy(Lane::kOffloadOut, next, host, a);
      proto::Actor* update = MutableActor(a);
      AddControlInput(old, update);
      update->set_output(o, next);
      (*update->mutable_attr())["apart"].mutable_ints()->add_value(o);
      copies_.push_back({in, Reg(host).stage(), Lane::kOffloadIn, task, 0, use});
      copies_.push_back({out, Reg(host).stage(), Lane::kOffloadOut, task, 0, use});
    }
  }

  void AddSegments() {
    std::map<std::tuple<int, Lane, Task>, std::vector<Copy>> lanes;
    for (const Copy& copy : copies_) lanes[{copy.stage, copy.lane, copy.task}].push_back(copy);
    for (auto& [key, copies] : lanes) {
      const auto& [stage, lane, task] = key;
      std::stable_sort(copies.begin(), copies.end(),
                       [](const Copy& a, const Copy& b) { return a.position < b.position; });
      proto::Segment* segment = lowered_.program.add_segment();
      segment->set_id(lowered_.program.segment_size() - 1);
      segment->set_name(order_.Name(stage, task));
      segment->set_stage(stage);
      for (const Copy& copy : copies) segment->add_actor(copy.actor);
      lowered_.segments.push_back({lane, task, 1, -1});
      AddUses(copies);
    }
  }

  std::vector<std::vector<int>>* Uses(Lane lane) {
    return lane == Lane::kOffloadIn ? &lowered_.copies_in : &lowered_.copies_out;
  }

  void AddUses(const std::vector<Copy>& copies) {
    std::map<TaskOrder::Use, std::vector<int>> uses;
    for (const Copy& copy : copies) {
      // A copy for all micro-batches is held for a step, whatever others do.
      if (copy.use.run >= 0) uses[copy.use].push_back(copy.actor);
    }
    for (auto& [use, actors] : uses) Uses(copies[0].lane)->push_back(std::move(actors));
  }

  const google::protobuf::RepeatedPtrField<proto::Register>& persistent_;
  Lowered& lowered_;
  const TaskOrder order_;                           // of the program before copies
  std::map<int, std::vector<Read>> reads_;          // of devices, by register
  std::map<std::pair<int, Task>, int> copied_out_;  // the host's copy of a register, for a task
  std::vector<Copy> copies_;
};

}  // namespace

void MoveToHost(const google::protobuf::RepeatedPtrField<proto::Register>& persistent,
                Lowered* lowered) {
  HostMover(persistent, lowered).Run();
}

}  // namespace oneflow
