#include "tools/oneflow/explain/model_memory.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/table.h"

namespace oneflow {
namespace {

absl::StatusOr<PlanNet> NetOfTrain(const proto::Plan& plan) {
  const proto::Program* train = FindProgram(plan, "train");
  if (train != nullptr) return MakePlanNet(plan, *train);
  return InputError("plan of " + plan.model(), "has no program \"train\"",
                    "compile a graph that has a loss");
}

// The matrices of blocks: what products read. A bias may have several dimensions, too.
bool IsBlockMatrix(const proto::Variable& variable, int block) {
  std::string_view name = variable.name();
  name = name.substr(0, name.find('/'));  // states of the optimizer: "w/m"
  return block >= 0 && name.ends_with(".weight") && variable.layout().dim_size() > 1;
}

// By segment: 'F' of "F" and "F0" on a compute stream; 0 on any other.
std::vector<char> ClassifyRegisters(const PlanNet& net) {
  std::vector<char> parts(net.program->segment_size(), 0);
  for (const NetStream& stream : net.streams) {
    if (stream.proto->name() != "compute") continue;
    for (const proto::OrderRun& run : stream.proto->order()) {
      for (const int id : run.segment()) parts[id] = net.program->segment(id).name()[0];
    }
  }
  return parts;
}

bool IsStatistics(const PlanNet& net, int writer, int id) {
  if (writer < 0) return false;
  constexpr std::string_view kKernels[] = {"layer_norm", "rms_norm", "attention",
                                           "packed_attention"};
  const proto::Actor& actor = net.actor(writer);
  return std::find(std::begin(kKernels), std::end(kKernels), actor.kernel()) !=
             std::end(kKernels) &&
         actor.output_size() > 0 && actor.output(0) != id;
}

// The bytes of `kept` that are taken and not yet returned, at most at once.
template <typename Counts>
int64_t MostHeld(const PlanNet& net, int stage, const std::vector<KeptRegister>& kept,
                 Counts counts) {
  std::map<int, int64_t> change;  // by segment; none both takes and returns
  for (const KeptRegister& r : kept) {
    if (!counts(r)) continue;
    change[r.taken] += r.proto->slot_bytes();
    change[r.returned] -= r.proto->slot_bytes();
  }
  int64_t held = 0, most = 0;
  const auto play = [&](const proto::OrderRun& run) {
    for (const int segment : run.segment()) {
      const auto it = change.find(segment);
      if (it != change.end()) most = std::max(most, held += it->second);
    }
  };
  for (const NetStream& stream : net.streams) {
    if (stream.proto->stage() != stage || stream.proto->name() != "compute") continue;
    for (const proto::OrderRun& run : stream.proto->order()) {
      // All repeats change alike what is held, so the most is held in the first or in the last.
      const int64_t before = held;
      if (run.repeat() > 0) play(run);
      const int64_t a_repeat = held - before;
      if (run.repeat() > 1) held += a_repeat * (run.repeat() - 2), play(run);
    }
  }
  return most;
}

// True for an actor of segment "P", which fires once a step.
bool IsPrepared(const PlanNet& net, int actor) {
  return net.program->segment(net.actors[actor].segment).name() == "P";
}

// The register that `id` is a copy of, in the device's memory or the host's; else itself.
int FindOriginal(const PlanNet& net, int id) {
  const int writer = net.registers[id].writer;
  if (writer < 0 || net.inputs_of(writer).empty()) return id;
  const std::string& kernel = net.actor(writer).kernel();
  const bool copy = (kernel == "copy_in" || kernel == "copy_out") && !net.registers[id].persistent;
  return copy ? net.inputs_of(writer)[0].reg : id;
}

// The register of the host's memory that `id` is copied out to; else itself.
int FindResting(const PlanNet& net, int id) {
  for (const NetReader& reader : net.registers[id].readers) {
    const proto::Actor& actor = net.actor(reader.actor);
    if (actor.kernel() == "copy_out" && !actor.output().empty()) return actor.output(0);
  }
  return id;
}

// True for a copy of a weight in the device's memory that a step's micro-batches read.
bool IsCopiedOnce(const PlanNet& net, int actor) {
  if (net.actor(actor).kernel() != "copy_in" || !IsPrepared(net, actor)) return false;
  const auto out = net.outputs_of(actor);
  if (out.empty() || net.inputs_of(actor).empty()) return false;
  const std::vector<NetReader>& readers = net.registers[out[0]].readers;
  return std::any_of(readers.begin(), readers.end(),
                     [&](const NetReader& reader) { return !IsPrepared(net, reader.actor); });
}

// The variable's register of which a copy or a cast makes `id`; else the first that none makes.
int FindVariable(const PlanNet& net, int id) {
  for (int steps = 0; steps < 4 && !net.registers[id].persistent; ++steps) {
    const int writer = net.registers[id].writer;
    if (writer < 0 || net.inputs_of(writer).empty()) break;
    const std::string& kernel = net.actor(writer).kernel();
    if (kernel != "copy_in" && kernel != "copy_out" && kernel != "cast") break;
    id = net.inputs_of(writer)[0].reg;
  }
  return id;
}

// Bytes that go out in the forward and come back in the backward.
int64_t CountHostKept(const PlanNet& net, int stage) {
  int64_t bytes = 0;
  for (const NetRegister& r : net.registers) {
    if (r.persistent || r.proto->stage() != stage || r.proto->memory_kind() != proto::HOST)
      continue;
    const bool out = r.writer >= 0 && net.actor(r.writer).kernel() == "copy_out";
    const bool in = std::any_of(r.readers.begin(), r.readers.end(), [&](const NetReader& reader) {
      return net.actor(reader.actor).kernel() == "copy_in";
    });
    if (out && in) bytes += r.proto->slot_bytes() * r.proto->slots();
  }
  return bytes;
}

// States of the variables, and of matrices in blocks alone.
void AddStates(const PlanNet& net, int stage, ModelMemory* memory) {
  std::map<int, bool> is_matrix;  // by register
  const std::vector<int> blocks = VariableBlocks(*net.plan);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const proto::Variable& variable = net.plan->variable(static_cast<int>(i));
    for (const int id : variable.register_()) is_matrix[id] = IsBlockMatrix(variable, blocks[i]);
  }
  const auto add = [&](int id, bool matrix) {
    const proto::Register& r = *net.registers[id].proto;
    if (r.stage() != stage) return;
    const bool host = r.memory_kind() == proto::HOST;
    int64_t& of_device = matrix ? memory->matrices_of_blocks : memory->other_states;
    (host ? memory->host_states : of_device) += r.slot_bytes() * r.slots();
  };
  for (const auto& [id, matrix] : is_matrix) add(id, matrix);
  for (const proto::Actor& actor : net.program->actor()) {
    const std::string& kernel = actor.kernel();
    if (IsCopiedOnce(net, actor.id())) {
      const auto variable = is_matrix.find(FindVariable(net, net.inputs_of(actor.id())[0].reg));
      if (variable != is_matrix.end()) add(net.outputs_of(actor.id())[0], variable->second);
    }
    // One that is made for each use is kept until it is gathered, with no state.
    const bool cast = kernel == "cast" && IsPrepared(net, actor.id());
    if (!cast && kernel != "adamw" && kernel != "next_adamw") continue;
    // Inputs of adamw: the gradient, the norm; of next_adamw: the newest weights, the gradient.
    const int read = kernel == "next_adamw" ? 1 : 0;
    if (actor.input_size() <= read || actor.output().empty()) continue;  // VerifyKernels refuses it
    const int in = FindOriginal(net, actor.input(read).register_()), out = actor.output(0);
    const auto variable = is_matrix.find(cast ? in : FindResting(net, out));
    if (variable != is_matrix.end()) add(cast ? out : in, variable->second);
  }
}

}  // namespace

std::vector<KeptRegister> KeptRegisters(const PlanNet& net, int stage) {
  const std::vector<char> parts = ClassifyRegisters(net);
  const proto::ProgramFacts& facts = FindFacts(*net.plan, *net.program);
  const auto segment_of = [&net](int actor) { return net.actors[actor].segment; };
  std::vector<KeptRegister> result;
  for (int id = 0; id < static_cast<int>(net.registers.size()); ++id) {
    const NetRegister& r = net.registers[id];
    if (r.persistent || r.proto->stage() != stage || r.proto->slot_bytes() == 0) continue;
    KeptRegister kept{.proto = r.proto, .statistics = IsStatistics(net, r.writer, id)};
    const char written = r.writer < 0 ? 0 : parts[segment_of(r.writer)];
    if (r.writer >= 0 && IsCopiedOnce(net, r.writer)) continue;
    if (written != 0 && written != 'F') continue;  // 0: it comes from the host or another stage
    if (written == 'F') kept.taken = segment_of(r.writer);
    for (const NetReader& reader : r.readers) {
      const int segment = segment_of(reader.actor);
      const char part = parts[segment];
      if (part == 'F') kept.taken = segment;
      if (part != 'B' && part != 'W') continue;
      if (kept.returned < 0 || part == 'W') kept.returned = segment;
      const proto::ActorFacts& of_reader = FindFacts(facts, reader.actor);
      if (of_reader.has_block()) kept.block = std::max(kept.block, of_reader.block());
    }
    if (kept.taken >= 0 && kept.returned >= 0) result.push_back(kept);
  }
  return result;
}

absl::StatusOr<ModelMemory> MemoryOfStage(const proto::Plan& plan, int stage) {
  ASSIGN_OR_RETURN(const PlanNet net, NetOfTrain(plan));
  if (stage < 0 || stage >= StageCount(plan)) {
    return InputError("stage " + std::to_string(stage), "is not of the plan",
                      "it has " + std::to_string(StageCount(plan)));
  }
  ModelMemory memory;
  AddStates(net, stage, &memory);
  const std::vector<KeptRegister> kept = KeptRegisters(net, stage);
  const auto most = [&](auto counts) { return MostHeld(net, stage, kept, counts); };
  memory.kept_in_blocks = most([](const KeptRegister& r) { return r.block >= 0 && !r.statistics; });
  for (const KeptRegister& r : kept) {
    if (r.block < 0 || r.statistics) continue;
    memory.slots_in_blocks += r.proto->slot_bytes() * r.proto->slots();
  }
  memory.kept_statistics = most([](const KeptRegister& r) { return r.block >= 0 && r.statistics; });
  memory.kept_elsewhere = most([](const KeptRegister& r) { return r.block < 0; });
  memory.host_kept = CountHostKept(net, stage);
  return memory;
}

absl::StatusOr<std::string> ModelMemoryText(const proto::Plan& plan) {
  std::vector<std::vector<std::string>> rows = {{"stage", "matrices_of_blocks", "other_states",
                                                 "kept_in_blocks", "slots_in_blocks",
                                                 "kept_statistics", "kept_elsewhere"}};
  const bool host = RestsOnHost(plan);
  if (host) rows[0].insert(rows[0].end(), {"host_states", "host_kept"});
  for (int stage = 0; stage < StageCount(plan); ++stage) {
    ASSIGN_OR_RETURN(const ModelMemory m, MemoryOfStage(plan, stage));
    std::vector<std::string>& row = rows.emplace_back();
    for (const int64_t n :
         {int64_t{stage}, m.matrices_of_blocks, m.other_states, m.kept_in_blocks, m.slots_in_blocks,
          m.kept_statistics, m.kept_elsewhere, m.host_states, m.host_kept}) {
      if (row.size() < rows[0].size()) row.push_back(std::to_string(n));
    }
  }
  return TableText(rows, std::vector<Column>(rows[0].size(), {.right = true})) +
         "bytes of a device; matrices, states: weights with moments, gradients and bf16 copies\n"
         "kept: from forward to backward, at most at once; slots_in_blocks: all slots of what "
         "blocks keep (docs/activations.md)\n" +
         (host ? "host: in the host's memory, not counted in the others\n" : "");
}

}  // namespace oneflow
