#include "compiler/lower/receive_after_sends.h"

#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

using Route = std::tuple<int, int, int>;  // stage, chunk, the other stage

}  // namespace

void ReceiveAfterSends(Lowered* lowered) {
  std::map<Route, int> last_send, first_receive;  // actors
  for (const proto::Segment& segment : lowered->program.segment()) {
    const SegmentInfo& info = lowered->segments[segment.id()];
    const Route route{segment.stage(), info.task.chunk, info.partner};
    if (info.lane == Lane::kSendForward && info.task.part == Part::kForward) {
      last_send[route] = segment.actor(0);
    } else if (info.lane == Lane::kReceiveBackward && info.task.part == Part::kBackward) {
      first_receive.try_emplace(route, segment.actor(0));
    }
  }
  for (const auto& [route, send] : last_send) {
    const auto receive = first_receive.find(route);
    if (receive == first_receive.end()) continue;
    proto::Program& program = lowered->program;
    const int sent = AddControlRegister(lowered, absl::StrCat(program.actor(send).name(), ".over"),
                                        std::get<0>(route))
                         ->id();
    program.mutable_actor(send)->add_output(sent);
    AddControlInput(sent, program.mutable_actor(receive->second));
  }
}

}  // namespace oneflow
