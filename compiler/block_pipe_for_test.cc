#include "compiler/block_pipe_for_test.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/lowered.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/issue_order.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "compiler/schedule/tell_receives.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_for_test.h"

namespace oneflow {
namespace {

constexpr int kData = 1;  // the mesh axis over which weights are split
// The tensors of a block's weights, in twelfths: the products of attention and of the feed-forward.
constexpr std::array<int, 4> kTwelfths = {3, 1, 4, 4};

class BlockBuilder {
 public:
  explicit BlockBuilder(const BlockPipe& pipe)
      : pipe_(pipe), b_({{"pipe", pipe.stages}, {"data", 2}}), order_of_(pipe.stages) {
    b_.program().set_micro_batches(pipe.micro_batches);
  }

  absl::StatusOr<BuiltBlocks> Build() {
    for (int s = 0; s < pipe_.stages; ++s) AddPrepare(s);
    const int positions = pipe_.stages * pipe_.schedule.chunks;
    for (int p = 0; p < positions; ++p) AddForward(p);
    for (int p = positions; p-- > 0;) AddBackward(p);
    for (int s = 0; s < pipe_.stages; ++s) AddUpdate(s);
    const std::vector<StageOrder> orders =
        MakeOrders(pipe_.schedule, pipe_.stages, pipe_.micro_batches);
    for (int s = 0; s < pipe_.stages; ++s) AddComputeOrder(s, orders[s]);
    return Finish();
  }

 private:
  using In = PlanBuilder::In;
  // What stands in a row in a compute stream wherever a task does: one segment for each block.
  struct BlockTask {
    std::vector<int> segments, actors;
    std::vector<int> gathers;      // by block, in the order of use; empty: it uses no weights
    std::vector<int> adds;         // segments, in the order in which it writes gradients
    int offset = 0;                // the buffer that its first use takes, of kAligned
    std::vector<int> credits;      // segments, by the first gathers; filled when they are needed
    std::vector<int> gather_lane;  // segments of gathers, of kComputeStream
  };
  using TaskKey = std::tuple<int, Part, int>;  // stage, part, chunk
  struct GatherUse {
    size_t position = 0;  // in the order of the compute stream
    size_t buffer = 0;    // that it takes, of kAligned
  };

  int Stage(int position) const { return position % pipe_.stages; }
  int Chunk(int position) const { return position / pipe_.stages; }
  bool Last(int position) const { return position + 1 == pipe_.stages * pipe_.schedule.chunks; }
  std::string Name(std::string_view what, int position, int block) const {
    return absl::StrCat(ToAbsl(what), ".", position, ".", block);
  }

  int Actor(const std::string& name, int stage, const std::vector<In>& in,
            const std::vector<int>& out, double seconds) {
    const int actor = b_.Actor(name, stage, in, out);
    seconds_.resize(actor + 1);
    seconds_[actor] = seconds;
    return actor;
  }

  int Segment(const std::string& name, int stage, const std::vector<int>& actors,
              SegmentInfo info) {
    segments_.push_back(info);
    return b_.Segment(name, stage, actors);
  }

  int Control(const std::string& name, int stage, int slots = 1) {
    const int id = b_.Register(name, stage, slots, 0);
    b_.At(id).clear_layout();
    return id;
  }

  // A register of a block, or of some twelfths of it.
  int Block(const std::string& name, int stage, bool split = false, int twelfths = 12) {
    const int64_t bytes = kBlockBytes / 12 * twelfths;
    const int id = b_.Register(name, stage, 1, bytes / 4);
    if (!split) return id;
    proto::Layout::Split* of = b_.At(id).mutable_layout()->add_split();
    of->set_dim(0);
    of->set_axis(kData);
    b_.At(id).set_slot_bytes(bytes / 2);
    return id;
  }

  std::vector<int> Tensors(const std::string& name, int stage, bool split) {
    std::vector<int> registers;
    for (const int twelfths : kTwelfths) {
      const std::string suffix = registers.empty() ? "" : absl::StrCat("+", registers.size());
      registers.push_back(Block(name + suffix, stage, split, twelfths));
    }
    return registers;
  }

  int Exchange(const std::string& name, std::string_view kernel, int stage, const In& in, int out,
               double seconds) {
    const int id = b_.AllReduce(name, stage, {kData}, in, out);
    proto::Actor& actor = *b_.program().mutable_actor(id);
    actor.set_kernel(std::string(kernel));
    if (kernel == "all_gather") actor.mutable_boxing()->Clear();
    seconds_.resize(id + 1);
    seconds_[id] = seconds;
    return id;
  }

  // The parts of all weights, cast before the first micro-batch.
  void AddPrepare(int stage) {
    std::vector<int> parts;
    for (int c = 0; c < pipe_.schedule.chunks; ++c) {
      for (int j = 0; j < pipe_.blocks; ++j) {
        const int position = c * pipe_.stages + stage;
        part_[{position, j}] = Tensors(Name("part", position, j), stage, /*split=*/true);
        AddTo(&parts, part_[{position, j}]);
      }
    }
    const int cast = Actor(absl::StrCat("cast.", stage), stage, {}, parts, 0);
    prepare_.push_back(Segment("P", stage, {cast}, {Lane::kCompute, {Part::kPrepare}}));
  }

  // The gathers of a task, one segment in the order of use, and what each use reads.
  std::vector<std::vector<int>> AddGathers(Part part, int position,
                                           const std::vector<int>& blocks) {
    BlockTask& task = tasks_[{Stage(position), part, Chunk(position)}];
    std::vector<std::vector<int>> gathered(pipe_.blocks);
    const bool on_compute = pipe_.credits == GatherCredits::kComputeStream;
    const SegmentInfo info{on_compute ? Lane::kCompute : Lane::kCollective,
                           {part, Chunk(position)}};
    const std::string suffix = part == Part::kForward ? ".f" : ".b";
    for (const int j : blocks) {
      gathered[j] = Tensors(Name("w", position, j) + suffix, Stage(position), /*split=*/false);
      const std::vector<int>& parts = part_.at({position, j});
      const int gather =
          Exchange(Name("gather", position, j) + suffix, "all_gather", Stage(position),
                   {parts[0], pipe_.micro_batches}, gathered[j][0], pipe_.seconds.gather);
      for (size_t i = 1; i < parts.size(); ++i) {
        b_.AddInput(gather, {parts[i], pipe_.micro_batches});
        b_.program().mutable_actor(gather)->add_output(gathered[j][i]);
      }
      task.gathers.push_back(gather);
      if (!on_compute) continue;
      task.gather_lane.push_back(Segment("G", Stage(position), {task.gathers.back()}, info));
    }
    if (!on_compute) Segment("gathers", Stage(position), task.gathers, info);
    return gathered;
  }

  // What a position sends arrives at another.
  int AddTransfer(int from, int to, int sent, bool forward) {
    const int there = Stage(from), here = Stage(to);
    const std::string name = absl::StrCat(forward ? "up." : "down.", from);
    const int arrived = b_.Register(name, here);
    const PlanBuilder::Pair pair = b_.SendReceive(name, {sent}, arrived);
    seconds_.resize(pair.receive + 1, pipe_.seconds.link);
    seconds_[pair.send] = pipe_.seconds.link;
    const Part part = forward ? Part::kForward : Part::kBackward;
    Segment(name, there, {pair.send},
            {forward ? Lane::kSendForward : Lane::kSendBackward, {part, Chunk(from)}, 1, here});
    Segment(
        name, here, {pair.receive},
        {forward ? Lane::kReceiveForward : Lane::kReceiveBackward, {part, Chunk(to)}, 1, there});
    return arrived;
  }

  void AddBlock(Part part, int position, int actor) {
    const SegmentInfo info{Lane::kCompute, {part, Chunk(position)}};
    BlockTask& task = tasks_[{Stage(position), part, Chunk(position)}];
    task.segments.push_back(
        Segment(TaskName(info.task, pipe_.schedule.chunks > 1), Stage(position), {actor}, info));
    task.actors.push_back(actor);
  }

  void AddForward(int position) {
    std::vector<int> blocks;
    for (int j = 0; j < pipe_.blocks; ++j) blocks.push_back(j);
    const std::vector<std::vector<int>> gathered = AddGathers(Part::kForward, position, blocks);
    for (const int j : blocks) {
      std::vector<In> in;
      for (const int tensor : gathered[j]) in.push_back({tensor});
      if (j > 0) in.push_back({x_.at({position, j - 1})});
      if (j == 0 && position > 0) in.push_back({arrived_});
      if (j == 0 && position > 0) x_[{position, -1}] = arrived_;
      const int x = b_.Register(Name("x", position, j), Stage(position));
      x_[{position, j}] = x;
      AddBlock(Part::kForward, position,
               Actor(Name("f", position, j), Stage(position), in, {x}, pipe_.seconds.forward));
    }
    if (Last(position)) return;
    arrived_ = AddTransfer(position, position + 1, x_.at({position, pipe_.blocks - 1}), true);
  }

  void AddBackward(int position) {
    std::vector<int> blocks;
    for (int j = pipe_.blocks; j-- > 0;) blocks.push_back(j);
    const std::vector<std::vector<int>> gathered = AddGathers(Part::kBackward, position, blocks);
    const bool splits = pipe_.schedule.splits_backward;
    int dy = Last(position) ? x_.at({position, pipe_.blocks - 1}) : arrived_;
    for (const int j : blocks) {
      std::vector<In> in = {{dy}};
      const auto x = x_.find({position, j - 1});
      if (x != x_.end()) in.push_back({x->second});
      std::vector<int> out;
      if (position > 0 || j > 0)
        out.push_back(b_.Register(Name("dx", position, j), Stage(position)));
      const int next = out.empty() ? -1 : out[0];
      if (splits) {
        AddBlock(Part::kWeights, position,
                 Actor(Name("dw", position, j), Stage(position), in, {}, pipe_.seconds.weights));
      }
      for (const int tensor : gathered[j]) in.push_back({tensor});
      AddBlock(Part::kBackward, position,
               Actor(Name("b", position, j), Stage(position), in, out, pipe_.seconds.backward));
      dy = next;
    }
    if (pipe_.reduces) AddReductions(position, splits ? Part::kWeights : Part::kBackward);
    if (position > 0) arrived_ = AddTransfer(position, position - 1, dy, false);
  }

  void AddReductions(int position, Part part) {
    BlockTask& task = tasks_[{Stage(position), part, Chunk(position)}];
    const int stage = Stage(position);
    std::vector<int> reductions;
    for (size_t k = 0; k < task.actors.size(); ++k) {
      const int j = pipe_.blocks - 1 - static_cast<int>(k);
      const int full = Block(Name("g", position, j), stage);
      b_.program().mutable_actor(task.actors[k])->add_output(full);
      const int part_of_it = Block(Name("gpart", position, j), stage, /*split=*/true);
      reductions.push_back(Exchange(Name("reduce", position, j), "reduce_scatter", stage, {full},
                                    part_of_it, pipe_.seconds.reduce));
      const int sum = Block(Name("sum", position, j), stage, /*split=*/true);
      if (pipe_.micro_batches > 1) {
        b_.At(sum).set_fill_mode(proto::Register::ACCUMULATE);
        b_.At(sum).set_fires_per_fill(pipe_.micro_batches);
      }
      sums_[stage].push_back({sum});
      const int add =
          Actor(Name("add", position, j), stage, {{part_of_it}}, {sum}, pipe_.seconds.add);
      task.adds.push_back(Segment("A", stage, {add}, {Lane::kCompute, {part, Chunk(position)}}));
    }
    Segment("reductions", stage, reductions, {Lane::kGradient, {part, Chunk(position)}});
  }

  void AddUpdate(int stage) {
    const int update = Actor(absl::StrCat("update.", stage), stage, sums_[stage], {}, 0);
    update_.push_back(Segment("U", stage, {update}, {Lane::kCompute, {Part::kUpdate}}));
  }

  // The control register that `writer` fills, and the gather reads.
  void AddControl(int writer, int gather, int slots = 1, int lag = 0) {
    proto::Actor& actor = *b_.program().mutable_actor(writer);
    const int control = Control(actor.name() + ".credit", actor.stage(), slots);
    actor.add_output(control);
    b_.AddInput(gather, {control, 1, lag});
  }

  bool Limited() const {
    return pipe_.credits != GatherCredits::kComputeStream &&
           pipe_.credits != GatherCredits::kUnlimited;
  }

  // Adds the credits of a task's gathers, but for their positions.
  void AddCredits(const TaskKey& key, BlockTask* task) {
    const int uses = static_cast<int>(task->gathers.size()), stage = std::get<0>(key);
    const int first = std::min(uses, pipe_.ahead + 1);
    for (int k = first; k < uses; ++k) AddControl(task->actors[k - first], task->gathers[k]);
    if (pipe_.credits == GatherCredits::kOwnRings) {
      for (int k = 0; k < first; ++k) {
        AddControl(task->actors[uses - first + k], task->gathers[k], /*slots=*/3, /*lag=*/1);
      }
      return;
    }
    const bool each =
        pipe_.credits == GatherCredits::kExact || pipe_.credits == GatherCredits::kAligned;
    for (int k = 0; k < (each ? first : 1); ++k) {
      const int credit = Actor("credit", stage, {}, {}, 0);
      task->credits.push_back(Segment("C", stage, {credit}, {Lane::kCompute, {Part::kPrepare}}));
      const bool all = pipe_.credits == GatherCredits::kAtFirstUse;
      for (int g = k; g < (all ? first : k + 1); ++g) AddControl(credit, task->gathers[g]);
    }
  }

  // The compute stream of a stage, from the order of its tasks: segments by position, and those
  // that stand in front of a position.
  void AddComputeOrder(int stage, const StageOrder& tasks) {
    for (auto& [key, task] : tasks_) {
      if (std::get<0>(key) == stage && !task.gathers.empty() && Limited()) AddCredits(key, &task);
    }
    std::vector<int> order = {prepare_[stage]};
    std::map<size_t, std::vector<int>> before;
    std::vector<GatherUse> uses;
    std::vector<int> open;  // adds whose position comes later
    std::vector<int> adds;  // segments, by the order in which gradients are written
    const int e = pipe_.reduce_ahead;
    const std::vector<Task> unrolled = Unrolled(tasks);
    if (pipe_.credits == GatherCredits::kAligned) ChooseOffsets(stage, unrolled);
    for (const Task& of : unrolled) {
      BlockTask& task = tasks_.at({stage, of.part, of.chunk});
      if (!task.adds.empty()) AddTo(&before[order.size()], std::exchange(open, {}));
      for (size_t k = 0; k < task.segments.size(); ++k) {
        if (!task.gathers.empty()) AddUse(task, k, order.size(), uses, &before);
        if (!task.gathers.empty()) uses.push_back({order.size(), (task.offset + k) % Buffers()});
        if (!task.adds.empty()) {
          adds.push_back(task.adds[k]);
          const int due = static_cast<int>(adds.size()) - 1 - (e + 1);
          const bool own = static_cast<int>(k) > e;
          if (due >= 0 && (own || pipe_.adds == PartAdds::kExact)) {
            before[order.size()].push_back(adds[due]);
          }
        }
        order.push_back(task.segments[k]);
      }
      if (task.adds.empty() || pipe_.adds == PartAdds::kExact) continue;
      const size_t last = std::min<size_t>(task.adds.size(), e + 1);
      const std::vector<int> rest(task.adds.end() - static_cast<int64_t>(last), task.adds.end());
      AddTo(pipe_.adds == PartAdds::kInSegment ? &before[order.size()] : &open, rest);
    }
    if (pipe_.adds == PartAdds::kExact) {
      const size_t last = std::min<size_t>(adds.size(), e + 1);
      open.assign(adds.end() - static_cast<int64_t>(last), adds.end());
    }
    AddTo(&before[order.size()], open);
    order.push_back(update_[stage]);
    for (size_t i = 0; i < order.size(); ++i) {
      AddTo(&order_of_[stage], before[i]);
      order_of_[stage].push_back(order[i]);
    }
  }

  static void AddTo(std::vector<int>* segments, const std::vector<int>& more) {
    segments->insert(segments->end(), more.begin(), more.end());
  }

  size_t Buffers() const { return pipe_.ahead + 1; }

  // The use behind which the credit of the next one stands, which takes `buffer`; below 0: none.
  int64_t UseBefore(size_t buffer, const std::vector<GatherUse>& uses) const {
    if (pipe_.credits != GatherCredits::kAligned) return std::ssize(uses) - pipe_.ahead - 1;
    int64_t behind = std::ssize(uses) - 1;
    while (behind >= 0 && uses[behind].buffer != buffer) --behind;
    return behind;
  }

  // Where a task follows another, its first gather is as many uses late as its buffer comes after
  // the one that is due. The offsets with the least sum of squares of these, from a descent.
  void ChooseOffsets(int stage, const std::vector<Task>& tasks) {
    std::map<std::pair<BlockTask*, BlockTask*>, int> meetings;
    BlockTask* last = nullptr;
    std::vector<BlockTask*> all;
    for (const Task& of : tasks) {
      BlockTask* task = &tasks_.at({stage, of.part, of.chunk});
      if (task->gathers.empty()) continue;
      if (last != nullptr) ++meetings[{last, task}];
      if (std::find(all.begin(), all.end(), task) == all.end()) all.push_back(task);
      last = task;
    }
    const int buffers = static_cast<int>(Buffers());
    const auto cost = [&] {
      int64_t sum = 0;
      for (const auto& [pair, times] : meetings) {
        const int due = pair.first->offset + static_cast<int>(pair.first->gathers.size());
        const int late = (pair.second->offset - due % buffers + buffers) % buffers;
        sum += int64_t{times} * late * late;
      }
      return sum;
    };
    for (bool better = true; better;) {
      better = false;
      for (BlockTask* task : all) {
        for (int offset = 0; offset < buffers; ++offset) {
          const int64_t before = cost();
          const int old = std::exchange(task->offset, offset);
          if (cost() < before) {
            better = true;
          } else {
            task->offset = old;
          }
        }
      }
    }
  }

  // The segments that stand somewhere for use number k of a task, which stands at `position`.
  void AddUse(const BlockTask& task, size_t k, size_t position, const std::vector<GatherUse>& uses,
              std::map<size_t, std::vector<int>>* before) {
    if (!task.gather_lane.empty()) (*before)[position].push_back(task.gather_lane[k]);
    if (k >= task.credits.size()) return;
    if (pipe_.credits == GatherCredits::kAtFirstUse) {
      (*before)[position].push_back(task.credits[k]);
      return;
    }
    // Of the first of a step, behind what is prepared.
    const int64_t behind = UseBefore((task.offset + k) % Buffers(), uses) + pipe_.credit_late;
    const size_t at = behind < 0                   ? 1
                      : behind >= std::ssize(uses) ? position + 1
                                                   : uses[behind].position + 1;
    (*before)[at].push_back(task.credits[k]);
  }

  absl::StatusOr<BuiltBlocks> Finish() {
    proto::Plan plan = b_.Finish();
    seconds_.resize(plan.program(0).actor_size(), 0);
    Lowered lowered{plan.program(0), segments_};
    lowered.program.clear_stream();
    AddStreams(&lowered, pipe_.stages, pipe_.schedule);
    for (proto::Stream& stream : *lowered.program.mutable_stream()) {
      if (stream.kind() != proto::Stream::COMPUTE) continue;
      stream.clear_order();
      proto::OrderRun* run = stream.add_order();
      run->set_repeat(1);
      for (const int segment : order_of_[stream.stage()]) run->add_segment(segment);
    }
    RETURN_IF_ERROR(SetSlots(plan, &lowered.program));
    RETURN_IF_ERROR(TellReceives(plan, seconds_, &lowered));
    *plan.mutable_program(0) = lowered.program;
    plan.clear_memory();
    RETURN_IF_ERROR(PlanMemory(pipe_.stages, &plan));
    proto::Program& program = *plan.mutable_program(0);
    program.clear_issue();
    ASSIGN_OR_RETURN(const IssueOrders issues, PlayIssueOrders(plan, program, seconds_));
    for (const proto::IssueOrder& issue : issues) *program.add_issue() = issue;
    return BuiltBlocks{std::move(plan), std::move(seconds_), BuffersInTurn()};
  }

  std::map<int, int64_t> BuffersInTurn() {
    std::map<int, int64_t> in_turn;
    if (pipe_.credits != GatherCredits::kAligned) return in_turn;
    for (const auto& [key, task] : tasks_) {
      for (size_t k = 0; k < task.gathers.size(); ++k) {
        int64_t at = static_cast<int64_t>((task.offset + k) % Buffers()) * kBlockBytes;
        for (const int id : b_.program().actor(task.gathers[k]).output()) {
          in_turn[id] = at;
          at += b_.At(id).slot_bytes();
        }
      }
    }
    return in_turn;
  }

  const BlockPipe& pipe_;
  PlanBuilder b_;
  std::vector<SegmentInfo> segments_;
  std::vector<double> seconds_;
  std::map<TaskKey, BlockTask> tasks_;
  std::map<std::pair<int, int>, std::vector<int>> part_;  // registers, by position and block
  std::map<std::pair<int, int>, int> x_;                  // the same
  std::map<int, std::vector<In>> sums_;                   // by stage
  std::vector<int> prepare_, update_;                     // segments, by stage
  std::vector<std::vector<int>> order_of_;  // by stage: segments of its compute stream
  int arrived_ = -1;                        // what the position at hand receives
};

}  // namespace

absl::StatusOr<BuiltBlocks> BuildBlocks(const BlockPipe& pipe) {
  return BlockBuilder(pipe).Build();
}

}  // namespace oneflow
