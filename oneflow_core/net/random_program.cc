#include "oneflow_core/net/random_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/plan/buffers.h"

namespace oneflow {
namespace {

enum Phase { kPrepare, kForward, kBackward, kUpdate, kPhases };
enum class Kind { kPlain, kSum, kSend, kReceive };

int Below(std::mt19937& random, int n) { return static_cast<int>(random() % n); }

std::vector<std::pair<std::string, int>> MakeMesh(bool pipe, bool data) {
  std::vector<std::pair<std::string, int>> mesh;
  if (pipe) mesh.emplace_back("pipe", 2);
  if (data) mesh.emplace_back("data", 2);
  return mesh;
}

class ProgramDraw {
 public:
  ProgramDraw(uint32_t seed, bool copies)
      : random_(seed),
        copies_(copies),
        pipe_(OneIn(2)),
        data_(OneIn(2)),
        large_(OneIn(3)),
        one_stream_(OneIn(3)),
        micro_batches_(DrawMicroBatches()),
        builder_(MakeMesh(pipe_, data_)) {}

  proto::Plan Draw() {
    DrawActors();
    for (int a = 0; a < count(); ++a) DrawOutputs(a);
    for (int a = 0; a < count(); ++a) DrawInputs(a);
    if (copies_) DrawCopies();
    for (int a = 0; a < count(); ++a) AddActor(a);
    for (int a = 0; a < count(); ++a) DrawWorkspace(a);
    DrawStreams();
    builder_.program().set_micro_batches(micro_batches_);
    return builder_.Finish();
  }

 private:
  struct Actor {
    Phase phase = kForward;
    int stage = 0;
    std::string stream;
    Kind kind = Kind::kPlain;
    int pair = -1;                             // a send and its receive have the same
    int id = -1;                               // in the program
    std::vector<PlanBuilder::In> inputs = {};  // of a sum or a send that with data first
    std::vector<int> outputs = {};
    const char* kernel = nullptr;  // of a copy
  };
  struct Output {
    int reg = 0, writer = 0;
    int fills = 1;  // a step
  };

  int Below(int n) { return oneflow::Below(random_, n); }
  bool OneIn(int n) { return Below(n) == 0; }
  int CountFirings(int actor) const {
    const Phase phase = actors_[actor].phase;
    return phase == kForward || phase == kBackward ? micro_batches_ : 1;
  }

  // Some are many enough that a proof skips cycles.
  int DrawMicroBatches() {
    if (OneIn(2)) return 1 + Below(4);
    return OneIn(2) ? 5 + Below(8) : 16 + 4 * Below(6);
  }

  int count() const { return static_cast<int>(actors_.size()); }

  void DrawActors() {
    constexpr std::array<Phase, 10> kOften = {kPrepare,  kForward,  kForward,  kForward, kBackward,
                                              kBackward, kBackward, kBackward, kUpdate,  kUpdate};
    int pairs = 0;
    for (int n = 3 + Below(large_ ? 24 : 7); n > 0; --n) {
      const Phase phase = kOften[Below(kOften.size())];
      const int stage = pipe_ ? Below(2) : 0;
      if (pipe_ && OneIn(4)) {
        actors_.push_back({phase, stage, DrawStream("send"), Kind::kSend, pairs});
        actors_.push_back({phase, 1 - stage, DrawStream("receive"), Kind::kReceive, pairs++});
      } else if (data_ && OneIn(4)) {
        actors_.push_back({phase, stage, DrawStream("copy.sum"), Kind::kSum});
      } else {
        constexpr std::array<const char*, 5> kStreams = {"compute", "compute", "compute", "copy",
                                                         "host"};
        actors_.push_back({phase, stage, DrawStream(kStreams[Below(kStreams.size())])});
      }
    }
    std::stable_sort(actors_.begin(), actors_.end(),
                     [](const Actor& a, const Actor& b) { return a.phase < b.phase; });
  }

  std::string DrawStream(const std::string& name) {
    return one_stream_ || OneIn(3) ? "compute" : name;
  }

  void DrawOutputs(int actor) {
    switch (actors_[actor].kind) {
      case Kind::kPlain: {
        // A kernel adds to all of its outputs or to none.
        const int per_fill = DrawFiringsPerFill(CountFirings(actor));
        for (int outputs = Below(3); outputs > 0; --outputs) {
          DrawOutput(actor, OneIn(6), per_fill);
        }
        return;
      }
      case Kind::kSum:
      case Kind::kReceive:
        return DrawOutput(actor, /*control=*/false, DrawFiringsPerFill(CountFirings(actor)));
      case Kind::kSend:
        if (OneIn(3)) {
          DrawOutput(actor, /*control=*/true, DrawFiringsPerFill(CountFirings(actor)));
        }
    }
  }

  void DrawOutput(int actor, bool control, int per_fill) {
    const int fills = CountFirings(actor) / per_fill;
    const int slots = OneIn(3) ? fills : 1 + Below(std::min(fills + 1, 6));
    const int id = NewRegister("r", actor, slots);
    proto::Register& r = builder_.At(id);
    r.set_fires_per_fill(per_fill);
    if (per_fill > 1) r.set_fill_mode(proto::Register::ACCUMULATE);
    if (control) r.set_slot_bytes(0);
    actors_[actor].outputs.push_back(id);
    outputs_.push_back({id, actor, fills});
  }

  int NewRegister(const std::string& kind, int actor, int slots) {
    const std::string name = kind + std::to_string(builder_.program().register__size());
    return builder_.Register(name, actors_[actor].stage, slots,
                             OneIn(2) ? 16 * (1 + Below(5)) : 16);
  }

  // One, all or a divisor of them.
  int DrawFiringsPerFill(int firings) {
    if (OneIn(4)) return firings;
    if (!OneIn(4)) return 1;
    std::vector<int> divisors;
    for (int d = 1; d <= firings; ++d) {
      if (firings % d == 0) divisors.push_back(d);
    }
    return divisors[Below(static_cast<int>(divisors.size()))];
  }

  void DrawInputs(int actor) {
    Actor& a = actors_[actor];
    if (a.kind == Kind::kSum) DrawSource(actor, &a);
    if (a.kind == Kind::kSend) DrawSource(actor, &FindReceive(a));
    for (const Output& output : outputs_) {
      const proto::Register& r = builder_.At(output.reg);
      if (output.writer == actor || !OneIn(large_ ? 6 : 3)) continue;
      if (r.stage() != a.stage || CountFirings(actor) % output.fills != 0) continue;
      const bool control = r.slot_bytes() == 0;
      if (!control && a.kind != Kind::kPlain) continue;  // its data it has, or receives
      // A fill that is written later in a step is read in the next one, so the first step needs
      // one, too.
      const bool back = output.writer > actor;
      if (back && !control) continue;
      a.inputs.push_back(
          {output.reg, CountFirings(actor) / output.fills, back ? 1 + Below(r.slots()) : 0});
    }
  }

  // Draws the register that a sum or a send reads; its result is as large. If there is none, the
  // actor becomes an ordinary one, and so does its receive.
  void DrawSource(int actor, Actor* writes) {
    Actor& a = actors_[actor];
    std::vector<PlanBuilder::In> sources;
    for (const Output& output : outputs_) {
      const proto::Register& r = builder_.At(output.reg);
      const bool before = output.writer < actor && r.stage() == a.stage;
      if (before && r.slot_bytes() > 0 && CountFirings(actor) % output.fills == 0) {
        sources.push_back({output.reg, CountFirings(actor) / output.fills});
      }
    }
    if (sources.empty()) {
      a.kind = writes->kind = Kind::kPlain;
      return;
    }
    a.inputs = {sources[Below(static_cast<int>(sources.size()))]};
    const proto::Register& from = builder_.At(a.inputs[0].reg);
    proto::Register& to = builder_.At(writes->outputs[0]);
    *to.mutable_layout() = from.layout();
    to.set_slot_bytes(from.slot_bytes());
  }

  Actor& FindReceive(const Actor& send) {
    return *std::find_if(actors_.begin(), actors_.end(), [&](const Actor& a) {
      return a.pair == send.pair && a.stage != send.stage;
    });
  }

  struct Copy {
    int first = 0;  // the actor before or behind which it has its turn
    Actor actor;
  };

  void DrawCopies() {
    std::vector<Copy> copies;
    for (const Output& output : outputs_) {
      if (OneIn(2)) MoveToHost(output, &copies);
    }
    std::stable_sort(copies.begin(), copies.end(),
                     [](const Copy& a, const Copy& b) { return a.first < b.first; });
    // At times out of turn.
    if (copies.size() > 1 && OneIn(4)) std::swap(copies[0], copies[1 + Below(copies.size() - 1)]);
    for (const Copy& copy : copies) actors_.push_back(copy.actor);
  }

  // Some readers, the first in the order of actors among them, read a copy of a copy of it.
  void MoveToHost(const Output& output, std::vector<Copy>* copies) {
    const proto::Register of = builder_.At(output.reg);
    if (of.slot_bytes() == 0 || of.fires_per_fill() != 1) return;
    std::vector<PlanBuilder::In*> reads;
    int first = -1;
    for (int actor = 0; actor < count(); ++actor) {
      for (PlanBuilder::In& in : actors_[actor].inputs) {
        if (in.reg != output.reg || in.fires_per_read != 1) continue;
        if (!reads.empty() && OneIn(3)) continue;
        if (first < 0) first = actor;
        reads.push_back(&in);
      }
    }
    if (reads.empty()) return;
    const auto add = [&](const char* name, proto::MemoryKind kind) {
      const int id = NewRegister(name, output.writer, 1 + Below(std::min(output.fills + 1, 6)));
      proto::Register& r = builder_.At(id);
      *r.mutable_layout() = of.layout();
      r.set_slot_bytes(of.slot_bytes());
      r.set_memory_kind(kind);
      return id;
    };
    const int host = add("host", proto::HOST), back = add("back", proto::DEVICE);
    const auto copy = [&](int at, const char* stream, const char* kernel, int from, int to) {
      const Actor& like = actors_[at];
      return Copy{at,
                  {like.phase, like.stage, stream, Kind::kPlain, -1, -1, {{from}}, {to}, kernel}};
    };
    copies->push_back(copy(output.writer, "offload.out", "copy_out", output.reg, host));
    copies->push_back(copy(first, "offload.in", "copy_in", host, back));
    for (PlanBuilder::In* in : reads) in->reg = back;
  }

  void AddActor(int actor) {
    Actor& a = actors_[actor];
    const std::string name = "a" + std::to_string(actor);
    size_t has = 0;  // inputs
    switch (a.kind) {
      case Kind::kPlain: a.id = builder_.Actor(name, a.stage, {}, a.outputs); break;
      case Kind::kSum: {
        const int axis = pipe_ ? 1 : 0;
        a.id = builder_.AllReduce(name, a.stage, {axis}, a.inputs[has++], a.outputs[0]);
        break;
      }
      case Kind::kSend: {
        Actor& receive = FindReceive(a);
        const auto pair = builder_.SendReceive(name, a.inputs[has++], receive.outputs[0]);
        a.id = pair.send;
        receive.id = pair.receive;
        for (const int id : a.outputs) builder_.program().mutable_actor(a.id)->add_output(id);
        break;
      }
      case Kind::kReceive: break;  // came with its send
    }
    for (; has < a.inputs.size(); ++has) builder_.AddInput(a.id, a.inputs[has]);
    if (a.kernel != nullptr) builder_.program().mutable_actor(a.id)->set_kernel(a.kernel);
  }

  void DrawWorkspace(int actor) {
    if (!OneIn(3) || actors_[actor].kernel != nullptr) return;
    const int scratch = NewRegister("workspace", actor, 1);
    builder_.program().mutable_actor(actors_[actor].id)->set_workspace(scratch);
  }

  void DrawStreams() {
    using ByPhase = std::array<std::vector<int>, kPhases>;
    std::map<std::pair<int, std::string>, ByPhase> streams;  // by stage and name
    for (size_t a = 0; a < actors_.size(); ++a) {
      const Actor& actor = actors_[a];
      streams[{actor.stage, actor.stream}][actor.phase].push_back(actor.id);
    }
    for (const auto& [key, actors] : streams) {
      const auto& [stage, name] = key;
      std::array<int, kPhases> segments;
      for (int phase = 0; phase < kPhases; ++phase) {
        constexpr std::array<const char*, kPhases> kNames = {"P", "F", "B", "U"};
        segments[phase] =
            actors[phase].empty() ? -1 : builder_.Segment(kNames[phase], stage, actors[phase]);
      }
      builder_.Stream(name, stage, DrawOrder(segments));
    }
  }

  // P F×w (F B)×(M-w) B×w U, of the segments that there are; at times U comes before the last B.
  std::vector<std::pair<std::vector<int>, int>> DrawOrder(
      const std::array<int, kPhases>& segments) {
    std::vector<std::pair<std::vector<int>, int>> order;
    const auto add = [&](const std::vector<Phase>& phases, int repeat) {
      std::vector<int> run;
      for (Phase phase : phases) {
        if (segments[phase] >= 0) run.push_back(segments[phase]);
      }
      if (!run.empty() && repeat > 0) order.emplace_back(run, repeat);
    };
    const int ahead = OneIn(2) ? micro_batches_ : Below(micro_batches_ + 1);
    const int late = ahead > 1 && OneIn(3) ? 1 + Below(ahead) : 0;
    add({kPrepare}, 1);
    add({kForward}, ahead);
    add({kForward, kBackward}, micro_batches_ - ahead);
    add({kBackward}, ahead - late);
    add({kUpdate}, 1);
    add({kBackward}, late);
    return order;
  }

  std::mt19937 random_;
  const bool copies_;
  const bool pipe_, data_, large_, one_stream_;
  const int micro_batches_;
  PlanBuilder builder_;
  std::vector<Actor> actors_;  // in the order of phases
  std::vector<Output> outputs_;
};

}  // namespace

proto::Plan RandomProgram(uint32_t seed) { return ProgramDraw(seed, /*copies=*/false).Draw(); }

proto::Plan RandomProgramWithCopies(uint32_t seed) {
  return ProgramDraw(seed, /*copies=*/true).Draw();
}

void MoveExchange(std::mt19937& random, proto::Program* program) {
  if (program->issue().empty()) return;
  proto::IssueOrder& issue = *program->mutable_issue(Below(random, program->issue_size()));
  if (issue.run_size() > 1 && Below(random, 2) == 0) {
    const int i = Below(random, issue.run_size() - 1);
    return issue.mutable_run()->SwapElements(i, i + 1);
  }
  proto::ActorRun& run = *issue.mutable_run(Below(random, issue.run_size()));
  if (run.actor_size() < 2) return;
  const int i = Below(random, run.actor_size() - 1);
  run.mutable_actor()->SwapElements(i, i + 1);
}

namespace {

// Both into the same frames, b behind a or across it; with so few buffers that many frames turn.
void FrameTogether(std::mt19937& random, proto::Register* a, proto::Register* b) {
  const int buffers = std::max(a->slots(), b->slots()) + Below(random, 2);
  const int64_t lines = a->slot_bytes() / 64;
  const int64_t behind =
      64 * (Below(random, 2) == 0 ? lines : Below(random, 1 + static_cast<int>(lines)));
  const int64_t stride = std::max(a->slot_bytes(), behind + b->slot_bytes());
  b->set_offset(a->offset() + behind);
  for (proto::Register* r : {a, b}) {
    r->set_buffers(buffers);
    r->set_stride(stride);
  }
}

}  // namespace

void MoveRegister(std::mt19937& random, proto::Program* program) {
  const auto below = [&](int n) { return Below(random, n); };
  proto::Register& r = *program->mutable_register_(below(program->register__size()));
  proto::Register& other = *program->mutable_register_(below(program->register__size()));
  const int64_t place_of_other = other.offset() + below(BufferCount(other)) * BufferStride(other);
  switch (below(12)) {
    case 0: return r.set_offset(place_of_other);
    case 1: return r.set_offset(std::max<int64_t>(0, r.offset() + 64 * (below(9) - 4)));
    case 2:
    case 3:
    case 4:  // into the same frames
      r.set_offset(other.offset() + 64 * below(2)), r.set_buffers(other.buffers());
      return r.set_stride(other.stride());
    case 5:
    case 6:  // frames of its own
      r.set_buffers(r.slots() + below(3));
      return r.set_stride(r.slot_bytes() + 64 * below(4));
    case 7:  // a buffer for each micro-batch
      r.set_buffers(program->micro_batches());
      return r.set_stride(r.slot_bytes() + 64 * below(3));
    case 8: return r.set_first_buffer(below(BufferCount(r)));
    case 9:
    case 10: return FrameTogether(random, &r, &other);
    default:
      r.clear_buffers(), r.clear_stride(), r.clear_first_buffer();
      return r.set_offset(place_of_other);
  }
}

}  // namespace oneflow
