#include "actor_runtime/exec/net.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {

std::string ActorNet::ActorName(int32_t actor) const {
  return absl::StrCat("actor ", names[specs[actor].actor], " at rank ", specs[actor].rank);
}

std::string ActorNet::ActorName(const NetExchange& exchange, int32_t member) const {
  return absl::StrCat("actor ", names[exchange.actors[member > 0]], " at rank ",
                      groups[exchange.group].ranks[member]);
}

int64_t MailboxCapacity(const ActorNet& net, const std::vector<bool>& own_stream) {
  int64_t capacity = 0;
  const auto own = [&](int32_t actor) { return own_stream[net.stream_of[actor]]; };
  for (size_t a = 0; a < net.specs.size(); ++a) {
    if (!own(static_cast<int32_t>(a))) continue;
    const ActorSpec& spec = net.specs[a];
    for (const ActorInput& input : spec.inputs) {
      for (int32_t p = input.first_source; p < input.first_source + input.n_sources; ++p) {
        if (own(net.Find(spec.rank, spec.sources[p].actor))) continue;
        capacity += std::max(input.slots, input.initial_fills);
      }
    }
    for (const ActorOutput& output : spec.outputs) {
      for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
        if (own(net.Find(spec.rank, spec.readers[q].actor))) continue;
        capacity += std::max(output.slots, spec.readers[q].initial_fills);
      }
    }
  }
  return capacity;
}

}  // namespace oneflow
