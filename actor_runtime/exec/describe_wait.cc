#include "actor_runtime/exec/describe_wait.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

std::string DescribeWait(const ActorNet& net, const StreamOrder& stream, int32_t index,
                         const ActorStates& states) {
  const ActorTable& table = stream.table;
  std::string text =
      absl::StrCat(net.ActorName(stream.actors[index]), ", firing ", states.counts[index].issued);
  if (CanFire(states, index)) return text + ", may fire";
  absl::string_view separator = ", waits for ";
  for (const FiringWait& wait : FindWaits(table, states, index)) {
    const ActorPeer& peer = table.far_ends[wait.peer];
    absl::StrAppend(&text, separator, wait.for_return ? "return " : "fill ", wait.need, " of ",
                    net.ActorName(net.Find(stream.rank, peer.actor)), " (has ", wait.have,
                    "; slot ", wait.slot, ")");
    separator = " and ";
  }
  return text;
}

}  // namespace oneflow
