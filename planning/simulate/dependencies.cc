#include "planning/simulate/dependencies.h"

#include <glog/logging.h>

namespace oneflow {
namespace {

void AddFills(const ActorNet& net, const ActorSpec& spec, std::vector<Dependency>* all) {
  for (const ActorInput& input : spec.inputs) {
    for (int32_t p = input.first_source; p < input.first_source + input.n_sources; ++p) {
      const ActorPeer& source = spec.sources[p];
      const int32_t writer = net.Find(spec.rank, source.actor);
      const int32_t rate = OutputAt(net.specs[writer], source.port).fires_per_fill;
      all->push_back({writer, input.fires_per_read, rate, -input.initial_fills});
    }
  }
}

void AddReturns(const ActorNet& net, const ActorSpec& spec, std::vector<Dependency>* all) {
  for (const ActorOutput& output : spec.outputs) {
    for (int32_t q = output.first_reader; q < output.first_reader + output.n_readers; ++q) {
      const ActorPeer& peer = spec.readers[q];
      const int32_t reader = net.Find(spec.rank, peer.actor);
      const int32_t rate = InputAt(net.specs[reader], peer.port).fires_per_read;
      all->push_back({reader, output.fires_per_fill, rate, peer.initial_fills - output.slots});
    }
  }
}

}  // namespace

const ActorInput& InputAt(const ActorSpec& reader, uint32_t port) {
  for (const ActorInput& input : reader.inputs) {
    const int64_t at = static_cast<int64_t>(port) - input.first_source;
    if (at >= 0 && at < input.n_sources) return input;
  }
  LOG(FATAL) << "actor " << reader.actor << " has no input at port " << port;
}

const ActorOutput& OutputAt(const ActorSpec& writer, uint32_t port) {
  for (const ActorOutput& output : writer.outputs) {
    const int64_t at = static_cast<int64_t>(port) - output.first_reader;
    if (at >= 0 && at < output.n_readers) return output;
  }
  LOG(FATAL) << "actor " << writer.actor << " has no output at port " << port;
}

std::vector<std::vector<Dependency>> FindDependencies(const ActorNet& net) {
  std::vector<std::vector<Dependency>> all(net.specs.size());
  for (size_t a = 0; a < net.specs.size(); ++a) {
    AddFills(net, net.specs[a], &all[a]);
    AddReturns(net, net.specs[a], &all[a]);
  }
  return all;
}

}  // namespace oneflow
