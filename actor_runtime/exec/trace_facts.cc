#include "actor_runtime/exec/trace_facts.h"

#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// A segment's name says its part: "F", and "F1" of a chunk; other segments have their actor's name.
TraceFacts::Part FindPart(const std::string& segment) {
  const bool word = segment.find_first_not_of("0123456789", 1) == segment.npos;
  switch (word && !segment.empty() ? segment[0] : ' ') {
    case 'F': return TraceFacts::Part::kForward;
    case 'B': return TraceFacts::Part::kBackward;
    case 'W': return TraceFacts::Part::kBackward;  // the weights' gradients
    case 'U': return TraceFacts::Part::kUpdate;
    default: return TraceFacts::Part::kOther;
  }
}

std::vector<TraceFacts::Part> FindParts(const proto::Program& program) {
  std::vector<TraceFacts::Part> parts(program.actor_size(), TraceFacts::Part::kOther);
  for (const proto::Segment& segment : program.segment()) {
    for (const int actor : segment.actor()) parts[actor] = FindPart(segment.name());
  }
  for (const proto::Stream& stream : program.stream()) {
    const bool of_host =
        stream.kind() == proto::Stream::HOST || stream.kind() == proto::Stream::HOST_COMPUTE;
    if (!of_host) continue;
    for (const proto::OrderRun& run : stream.order()) {
      for (const int s : run.segment()) {
        for (const int actor : program.segment(s).actor()) parts[actor] = TraceFacts::Part::kHost;
      }
    }
  }
  return parts;
}

TraceFacts::Actor FactsOfActor(const proto::Plan& plan, const proto::Program& program,
                               const proto::ActorFacts& known, const proto::Actor& actor,
                               TraceFacts::Part part) {
  TraceFacts::Actor facts{actor.has_exchange() ? TraceFacts::Part::kExchange : part};
  facts.between_stages = actor.has_exchange() && actor.exchange().has_partner();
  if (actor.kernel() == "copy_in" || actor.kernel() == "copy_out")
    facts.part = TraceFacts::Part::kCopy;
  facts.received_bytes = known.bytes_moved();
  for (const int id : actor.output()) {
    facts.written_bytes += static_cast<double>(FindRegister(plan, program, id)->slot_bytes());
  }
  return facts;
}

}  // namespace

const TraceFacts::Actor* TraceFacts::Find(std::string_view program, std::string_view name) const {
  const auto of_program = actors.find(program);
  if (of_program == actors.end()) return nullptr;
  const auto actor = of_program->second.find(name);
  return actor == of_program->second.end() ? nullptr : &actor->second;
}

TraceFacts MakeTraceFacts(const proto::Plan& plan) {
  TraceFacts facts;
  const absl::StatusOr<StageMesh> mesh = MakeStageMesh(plan);
  for (int rank = 0; mesh.ok() && rank < mesh->ranks(); ++rank) {
    facts.stage_of.push_back(mesh->RankToStage(rank));
  }
  for (const proto::Program& program : plan.program()) {
    const proto::ProgramFacts& known = FindFacts(plan, program);
    const std::vector<TraceFacts::Part> parts = FindParts(program);
    for (const proto::Actor& actor : program.actor()) {
      facts.actors[program.name()].try_emplace(
          actor.name(),
          FactsOfActor(plan, program, FindFacts(known, actor.id()), actor, parts[actor.id()]));
    }
  }
  return facts;
}

std::string_view Name(TraceFacts::Part part) {
  switch (part) {
    case TraceFacts::Part::kForward: return "forward";
    case TraceFacts::Part::kBackward: return "backward";
    case TraceFacts::Part::kUpdate: return "update";
    case TraceFacts::Part::kExchange: return "exchange";
    case TraceFacts::Part::kCopy: return "copy";
    case TraceFacts::Part::kHost: return "host";
    case TraceFacts::Part::kOther: return "other";
  }
  return "other";
}

}  // namespace oneflow
