#include "compiler/lower/hold_back.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

// An actor without a kernel, at the head of a segment.
proto::Actor* AddHead(Lowered* lowered, const std::string& name, proto::Segment* segment) {
  proto::Actor* actor = AddOrderOnlyActor(lowered, name, segment->stage());
  const proto::Segment old = *segment;
  segment->clear_actor();
  segment->add_actor(actor->id());
  segment->mutable_actor()->MergeFrom(old.actor());
  return actor;
}

void HoldBack(int stage, Lowered* lowered) {
  proto::Segment* update = FirstUpdate(lowered, stage, Lane::kCompute);
  proto::Segment* copy = FirstUpdate(lowered, stage, Lane::kCopyUpdate);
  if (update == nullptr || copy == nullptr) return;
  const int over = AddControlRegister(lowered, absl::StrCat("backward_over.", stage), stage)->id();
  AddHead(lowered, "backward_over", update)->add_output(over);
  AddControlInput(over, {}, AddHead(lowered, "await_backward", copy));
}

}  // namespace

void HoldBackUpdateCopies(Lowered* lowered) {
  const int stages = StagesOf(*lowered);
  for (int stage = 0; stage < stages; ++stage) HoldBack(stage, lowered);
}

}  // namespace oneflow
