#include "oneflow_core/plan/random_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/plan/places.h"
#include "oneflow_core/plan/plan_for_test.h"

namespace oneflow {
namespace {

enum Phase { kPrepare, kForward, kBackward, kUpdate, kPhases };

int Below(std::mt19937& random, int n) { return static_cast<int>(random() % n); }

std::vector<std::pair<std::string, int>> MeshOf(bool pipe, bool data) {
  std::vector<std::pair<std::string, int>> mesh;
  if (pipe) mesh.emplace_back("pipe", 2);
  if (data) mesh.emplace_back("data", 2);
  return mesh;
}

class ProgramDraw {
 public:
  explicit ProgramDraw(uint32_t seed)
      : random_(seed),
        pipe_(OneIn(3)),
        data_(OneIn(2)),
        large_(OneIn(3)),
        one_stream_(OneIn(3)),
        micro_batches_(DrawMicroBatches()),
        builder_(MeshOf(pipe_, data_)) {}

  proto::Plan Draw() {
    DrawActors();
    for (size_t a = 0; a < actors_.size(); ++a) {
      for (int outputs = Below(3); outputs > 0; --outputs) DrawOutput(static_cast<int>(a));
    }
    for (size_t a = 0; a < actors_.size(); ++a) DrawInputs(static_cast<int>(a));
    for (size_t a = 0; a < actors_.size(); ++a) AddActor(static_cast<int>(a));
    DrawStreams();
    builder_.program().set_micro_batches(micro_batches_);
    return builder_.Finish();
  }

 private:
  struct Actor {
    Phase phase = kForward;
    int stage = 0;
    std::string stream;
    bool boxing = false;
    std::vector<PlanBuilder::In> inputs = {};
    std::vector<int> outputs = {};
  };
  struct Output {
    int reg = 0, writer = 0;
    int fills = 1;  // a step
  };

  int Below(int n) { return oneflow::Below(random_, n); }
  bool OneIn(int n) { return Below(n) == 0; }
  int FiringsOf(int actor) const {
    const Phase phase = actors_[actor].phase;
    return phase == kForward || phase == kBackward ? micro_batches_ : 1;
  }

  // Some are many enough that a proof skips cycles.
  int DrawMicroBatches() {
    if (OneIn(2)) return 1 + Below(4);
    return OneIn(2) ? 5 + Below(8) : 16 + 4 * Below(6);
  }

  void DrawActors() {
    constexpr std::array<Phase, 10> kOften = {kPrepare,  kForward,  kForward,  kForward, kBackward,
                                              kBackward, kBackward, kBackward, kUpdate,  kUpdate};
    constexpr std::array<const char*, 5> kStreams = {"compute", "compute", "compute", "copy",
                                                     "host"};
    for (int n = 3 + Below(large_ ? 24 : 7); n > 0; --n) {
      const Phase phase = kOften[Below(kOften.size())];
      const int stage = pipe_ ? Below(2) : 0;
      actors_.push_back({phase, stage, one_stream_ ? "compute" : kStreams[Below(kStreams.size())]});
    }
    std::stable_sort(actors_.begin(), actors_.end(),
                     [](const Actor& a, const Actor& b) { return a.phase < b.phase; });
  }

  void DrawOutput(int actor) {
    const int per_fill = DrawFiringsPerFill(FiringsOf(actor));
    const int fills = FiringsOf(actor) / per_fill;
    const int slots = OneIn(3) ? fills : 1 + Below(std::min(fills + 1, 6));
    const int id = NewRegister("r", actor, slots);
    proto::Register& r = builder_.At(id);
    r.set_fires_per_fill(per_fill);
    if (per_fill > 1) r.set_fill_mode(proto::Register::ACCUMULATE);
    if (OneIn(6)) r.set_slot_bytes(0);  // control
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
    for (const Output& output : outputs_) {
      if (a.boxing) return;  // reads no other
      if (output.writer == actor || !OneIn(large_ ? 6 : 3)) continue;
      if (FiringsOf(actor) % output.fills != 0) continue;
      const proto::Register& r = builder_.At(output.reg);
      const bool control = r.slot_bytes() == 0;
      // What comes later in a step is there from the step before, so at first, too.
      const bool back = output.writer > actor;
      if (back && !control) continue;
      const bool along = data_ && OneIn(2);
      const bool boxing = !control && (along || r.stage() != a.stage);
      if (boxing && !MayBox(a, r)) continue;
      a.boxing = boxing;
      a.inputs.push_back({output.reg, along ? std::vector<int>{pipe_ ? 1 : 0} : std::vector<int>{},
                          FiringsOf(actor) / output.fills, back ? 1 + Below(r.slots()) : 0});
    }
  }

  // Of one input and one output, as large.
  bool MayBox(const Actor& a, const proto::Register& r) {
    return a.inputs.empty() && a.outputs.size() == 1 &&
           builder_.At(a.outputs[0]).layout().dim(0) == r.layout().dim(0);
  }

  void AddActor(int actor) {
    const Actor& a = actors_[actor];
    const int id = builder_.Actor("a" + std::to_string(actor), a.stage, a.inputs, a.outputs);
    proto::Actor& made = *builder_.program().mutable_actor(id);
    if (!a.boxing) made.clear_boxing();  // order may be kept with any device
    if (OneIn(3)) made.set_workspace(NewRegister("workspace", actor, 1));
  }

  void DrawStreams() {
    using ByPhase = std::array<std::vector<int>, kPhases>;
    std::map<std::pair<int, std::string>, ByPhase> streams;  // by stage and name
    for (size_t a = 0; a < actors_.size(); ++a) {
      const Actor& actor = actors_[a];
      streams[{actor.stage, actor.stream}][actor.phase].push_back(static_cast<int>(a));
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
  const bool pipe_, data_, large_, one_stream_;
  const int micro_batches_;
  PlanBuilder builder_;
  std::vector<Actor> actors_;  // in the order of phases
  std::vector<Output> outputs_;
};

}  // namespace

proto::Plan RandomProgram(uint32_t seed) { return ProgramDraw(seed).Draw(); }

namespace {

// Both into the same frames, b behind a or across it; with so few places that many frames turn.
void FrameTogether(std::mt19937& random, proto::Register* a, proto::Register* b) {
  const int places = std::max(a->slots(), b->slots()) + Below(random, 2);
  const int64_t lines = a->slot_bytes() / 64;
  const int64_t behind =
      64 * (Below(random, 2) == 0 ? lines : Below(random, 1 + static_cast<int>(lines)));
  const int64_t stride = std::max(a->slot_bytes(), behind + b->slot_bytes());
  b->set_offset(a->offset() + behind);
  for (proto::Register* r : {a, b}) {
    r->set_places(places);
    r->set_stride(stride);
  }
}

}  // namespace

void MoveRegister(std::mt19937& random, proto::Program* program) {
  const auto below = [&](int n) { return Below(random, n); };
  proto::Register& r = *program->mutable_register_(below(program->register__size()));
  proto::Register& other = *program->mutable_register_(below(program->register__size()));
  const int64_t place_of_other = other.offset() + below(PlacesOf(other)) * StrideOf(other);
  switch (below(12)) {
    case 0: return r.set_offset(place_of_other);
    case 1: return r.set_offset(std::max<int64_t>(0, r.offset() + 64 * (below(9) - 4)));
    case 2:
    case 3:
    case 4:  // into the same frames
      r.set_offset(other.offset() + 64 * below(2)), r.set_places(other.places());
      return r.set_stride(other.stride());
    case 5:
    case 6:  // frames of its own
      r.set_places(r.slots() + below(3));
      return r.set_stride(r.slot_bytes() + 64 * below(4));
    case 7:  // a place for each micro-batch
      r.set_places(program->micro_batches());
      return r.set_stride(r.slot_bytes() + 64 * below(3));
    case 8: return r.set_first_place(below(PlacesOf(r)));
    case 9:
    case 10: return FrameTogether(random, &r, &other);
    default:
      r.clear_places(), r.clear_stride(), r.clear_first_place();
      return r.set_offset(place_of_other);
  }
}

}  // namespace oneflow
