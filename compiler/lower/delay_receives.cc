#include "compiler/lower/delay_receives.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

// The first actor of each stream of the stage that receives for its update.
std::vector<int> FirstReceives(const Lowered& lowered, int stage) {
  std::vector<int> receives;
  std::set<int> partners;
  for (const proto::Segment& segment : lowered.program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (segment.stage() != stage || info.lane != Lane::kReceiveUpdate) continue;
    if (partners.insert(info.partner).second) receives.push_back(segment.actor(0));
  }
  return receives;
}

void DelayReceives(int stage, Lowered* lowered) {
  proto::Segment* update = FirstUpdate(lowered, stage);
  const std::vector<int> receives = FirstReceives(*lowered, stage);
  if (update == nullptr || receives.empty()) return;
  const int over = AddControlRegister(lowered, absl::StrCat("backward_over.", stage), stage)->id();
  proto::Actor* head = AddOrderOnlyActor(lowered, "backward_over", stage);
  head->add_output(over);
  const proto::Segment old = *update;
  update->clear_actor();
  update->add_actor(head->id());
  update->mutable_actor()->MergeFrom(old.actor());
  for (const int receive : receives) {
    AddControlInput(over, lowered->program.mutable_actor(receive));
  }
}

}  // namespace

void DelayUpdateReceives(Lowered* lowered) {
  const int stages = StageCount(*lowered);
  for (int stage = 0; stage < stages; ++stage) DelayReceives(stage, lowered);
}

}  // namespace oneflow
