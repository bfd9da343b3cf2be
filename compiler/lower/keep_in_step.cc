#include "compiler/lower/keep_in_step.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

constexpr int64_t kParts = 50;

// What an actor reads of peers. Its bytes are those of the larger of what it reads and what it
// writes: of the whole, for a gather of parts as for a sum into parts, over however many devices.
struct PeerRead {
  int64_t bytes = 0;
  std::set<int> axes;  // along which they lie
};

PeerRead PeerReadOf(const proto::Program& program, const proto::Actor& actor) {
  const int first = program.register_(0).id();
  const auto bytes = [&](int id) {
    return id < first ? 0 : program.register_(id - first).slot_bytes();
  };
  PeerRead read;
  for (const proto::Input& input : actor.input()) {
    // Persistent registers keep their bytes.
    if (input.peers().along().empty() || input.register_() < first) continue;
    read.bytes = std::max(read.bytes, bytes(input.register_()));
    read.axes.insert(input.peers().along().begin(), input.peers().along().end());
  }
  if (read.bytes == 0) return read;
  for (int id : actor.output()) read.bytes = std::max(read.bytes, bytes(id));
  return read;
}

// After the actor at `after` of a segment; since the mark before it, peers along `axes` were read.
struct Mark {
  int after = 0;
  std::vector<int> axes;
};

std::vector<Mark> MarksOf(const proto::Program& program, const proto::Segment& segment) {
  std::vector<PeerRead> reads;
  int64_t all = 0;
  for (int actor : segment.actor()) {
    reads.push_back(PeerReadOf(program, program.actor(actor)));
    all += reads.back().bytes;
  }
  std::vector<Mark> marks;
  PeerRead since;
  for (int i = 0; i < segment.actor_size(); ++i) {
    since.bytes += reads[i].bytes;
    since.axes.merge(reads[i].axes);
    if (since.bytes == 0 || since.bytes < all / kParts) continue;
    marks.push_back({i, {since.axes.begin(), since.axes.end()}});
    since = {};
  }
  return marks;
}

void KeepInStep(int stage, Lowered* lowered) {
  proto::Segment* update = FirstUpdate(lowered, stage, Lane::kCompute);
  if (update == nullptr) return;
  const std::vector<Mark> marks = MarksOf(lowered->program, *update);
  const proto::Segment old = *update;
  update->clear_actor();
  auto mark = marks.begin();
  for (int i = 0; i < old.actor_size(); ++i) {
    update->add_actor(old.actor(i));
    if (mark == marks.end() || mark->after != i) continue;
    const std::string name = lowered->program.actor(old.actor(i)).name();
    const int control = AddControlRegister(lowered, absl::StrCat(name, ".read"), stage)->id();
    proto::Actor* tells = AddOrderOnlyActor(lowered, absl::StrCat(name, ".read"), stage);
    tells->add_output(control);
    update->add_actor(tells->id());
    proto::Actor* hears = AddOrderOnlyActor(lowered, absl::StrCat(name, ".read_by_peers"), stage);
    AddControlInput(control, mark->axes, hears);
    update->add_actor(hears->id());
    ++mark;
  }
}

}  // namespace

void KeepUpdateInStep(Lowered* lowered) {
  const int stages = StagesOf(*lowered);
  for (int stage = 0; stage < stages; ++stage) KeepInStep(stage, lowered);
}

}  // namespace oneflow
