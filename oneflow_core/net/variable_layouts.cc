#include "oneflow_core/net/variable_layouts.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "absl/status/statusor.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

bool IsSplitOver(const proto::Register& r, int axis) {
  const auto& splits = r.layout().split();
  return std::any_of(splits.begin(), splits.end(),
                     [axis](const auto& split) { return split.axis() == axis; });
}

bool IsAlike(const proto::Register& a, const proto::Register& b) {
  const auto& x = a.layout().split();
  return a.dtype() == b.dtype() &&
         std::equal(x.begin(), x.end(), b.layout().split().begin(), b.layout().split().end(),
                    [](const auto& s, const auto& t) {
                      return s.axis() == t.axis() && s.dim() == t.dim();
                    });
}

void Add(const proto::Register& r, std::vector<const proto::Register*>* registers) {
  const bool known = std::any_of(registers->begin(), registers->end(),
                                 [&](const proto::Register* other) { return IsAlike(*other, r); });
  if (!known) registers->push_back(&r);
}

class Finder {
 public:
  explicit Finder(const PlanNet& net) : net_(net) {}

  VariableLayouts Find(const proto::Variable& variable) {
    found_ = VariableLayouts{.variable = &variable};
    seen_.clear();
    for (const int id : variable.register_()) {
      if (id < 0 || id >= net_.plan->persistent_size()) continue;
      gathers_ = copies_ = 0;
      FollowWeight(id);
      found_.gathers_a_micro_batch = std::max(found_.gathers_a_micro_batch, gathers_);
      found_.copies_a_micro_batch = std::max(found_.copies_a_micro_batch, copies_);
      const int update = FindUpdate(id);
      if (update >= 0) AddUpdate(update);
    }
    return found_;
  }

 private:
  // The writer of the variable; if a copy to the host's memory writes it, the writer before that.
  int FindUpdate(int id) const {
    const int writer = net_.registers[id].writer;
    if (writer < 0 || net_.actor(writer).kernel() != "copy_out") return writer;
    const std::vector<int> from = Inputs(writer);
    return from.empty() ? -1 : net_.registers[from[0]].writer;
  }

  void AddState(int id) {
    const NetRegister& r = net_.registers[id];
    if (!r.persistent) return;
    Add(*r.proto, &found_.states);
    // With the weight alone its moments do not rest there.
    const auto& own = found_.variable->register_();
    const bool moment = std::find(own.begin(), own.end(), id) == own.end();
    found_.states_on_host |= moment && r.proto->memory_kind() == proto::HOST;
  }

  // The update writes the weight and its moments.
  void AddUpdate(int update) {
    const int stream = net_.actors[update].stream;
    found_.host_updates |=
        stream >= 0 && net_.streams[stream].proto->kind() == proto::Stream::HOST_COMPUTE;
    for (const int out : Data(net_.outputs_of(update))) {
      AddState(out);
      for (const NetReader& reader : net_.registers[out].readers) {
        if (net_.actor(reader.actor).kernel() != "copy_out") continue;
        for (const int rests : Data(net_.outputs_of(reader.actor))) AddState(rests);
      }
    }
    for (const NetInput& in : net_.inputs_of(update)) {
      const NetRegister& r = net_.registers[in.reg];
      // The old values of what rests in the host's memory are copied in.
      const bool old = r.writer >= 0 && net_.actor(r.writer).kernel() == "copy_in";
      if (!r.persistent && !old && HasItsShape(in.reg)) FollowGradient(in.reg);
    }
  }

  // 'F' of "F" and "F0"; 0 of a segment with another name.
  char Part(int actor) const {
    const std::string& name = net_.program->segment(net_.actors[actor].segment).name();
    const bool known = !name.empty() && std::string_view("PFBWU").find(name[0]) != name.npos &&
                       name.find_first_not_of("0123456789", 1) == name.npos;
    return known ? name[0] : 0;
  }

  // True if the register has the shape of the variable.
  bool HasItsShape(int reg) const {
    const auto& dims = found_.variable->layout().dim();
    const auto& have = net_.registers[reg].proto->layout().dim();
    return std::equal(dims.begin(), dims.end(), have.begin(), have.end());
  }

  template <typename Registers>
  std::vector<int> Data(const Registers& registers) const {
    std::vector<int> data;
    for (const int id : registers) {
      const NetRegister& r = net_.registers[id];
      if (r.proto->slot_bytes() > 0 && !r.workspace) data.push_back(id);
    }
    return data;
  }

  std::vector<int> Inputs(int actor) const {
    std::vector<int> registers;
    for (const NetInput& in : net_.inputs_of(actor)) registers.push_back(in.reg);
    return Data(registers);
  }

  // True for a kernel that only exchanges read: a cast of a part for its gather.
  bool IsMadeForExchanges(int actor) const {
    const std::vector<int> out = Data(net_.outputs_of(actor));
    return out.size() == 1 && HasItsShape(out[0]) && OnlyExchangesRead(out[0]);
  }

  bool OnlyExchangesRead(int reg) const {
    const auto& readers = net_.registers[reg].readers;
    return std::all_of(readers.begin(), readers.end(),
                       [&](const NetReader& reader) { return net_.actors[reader.actor].exchange; });
  }

  bool IsBoxing(int actor) const {
    return net_.actor(actor).has_boxing() && net_.actors[actor].partner < 0;
  }

  // From a register of the weight to those that the micro-batches read.
  void FollowWeight(int id) {
    if (!seen_.insert(id).second) return;
    const NetRegister& r = net_.registers[id];
    const bool rests = std::any_of(r.readers.begin(), r.readers.end(), [&](const NetReader& in) {
      const char part = Part(in.actor);
      return part == 'F' || part == 'B' || part == 'W';
    });
    if (rests && (r.persistent || Part(r.writer) == 'P')) Add(*r.proto, &found_.weights);
    for (const NetReader& reader : r.readers) {
      const char part = Part(reader.actor);
      if (net_.actor(reader.actor).kernel() == "copy_in") {
        found_.copied_once |= part == 'P';
        copies_ += part == 'P' || part == 'U' ? 0 : 1;
      }
      const bool follows = IsBoxing(reader.actor) || IsMadeForExchanges(reader.actor);
      if (part != 'P' && (part == 'U' || !follows)) continue;
      const std::vector<int> in = Inputs(reader.actor), out = Data(net_.outputs_of(reader.actor));
      const auto at = std::find(in.begin(), in.end(), id) - in.begin();
      if (in.size() != out.size()) continue;
      CountGather(reader.actor, id, out[at], part == 'P');
      FollowWeight(out[at]);
    }
  }

  void CountGather(int actor, int from, int to, bool once) {
    if (!net_.actors[actor].exchange) return;
    std::set<int> axes;
    for (const auto& split : net_.registers[from].proto->layout().split()) {
      if (!IsSplitOver(*net_.registers[to].proto, split.axis())) axes.insert(split.axis());
    }
    if (axes.empty()) return;
    (once ? found_.gathered_once : found_.gathered_each_micro_batch).merge(axes);
    if (once) return;
    // What further exchanges take is not yet what a use reads.
    if (!OnlyExchangesRead(to)) ++gathers_;
    found_.ahead = std::max(found_.ahead, CountAhead(actor));
  }

  // How many gathers of its segment a gather may be ahead of compute. Control registers bound it:
  // the k-th gather that waits for one waits for the last reader of the (k - ahead - 1)-th, counted
  // on through the micro-batches. Without one, its own slot alone does.
  int CountAhead(int gather) {
    const int segment = net_.actors[gather].segment, stream = net_.actors[gather].stream;
    if (stream < 0 || net_.streams[stream].proto->kind() != proto::Stream::EXCHANGE) return 0;
    const auto [known, is_new] = ahead_.emplace(segment, 0);
    if (!is_new) return known->second;
    const auto& actors = net_.program->segment(segment).actor();
    std::map<int, int> position;  // of an actor: in the ring of those that wait
    int in_ring = 0;
    for (const int actor : actors) {
      in_ring += FindCredit(actor) != nullptr ? 1 : 0;
      position[actor] = in_ring - 1;
    }
    const auto exchanges = std::count_if(actors.begin(), actors.end(),
                                         [&](int actor) { return net_.actors[actor].exchange; });
    int most = in_ring == 0 ? static_cast<int>(exchanges) - 1 : 0;
    for (const int actor : actors) {
      const NetInput* credit = FindCredit(actor);
      if (credit == nullptr) continue;
      int behind = in_ring;
      for (const int read : Inputs(net_.registers[credit->reg].writer)) {
        const auto left = position.find(net_.registers[read].writer);
        if (left == position.end()) continue;
        const auto lag = static_cast<int>(credit->initial_fills);
        behind = std::min(behind, position[actor] - left->second + lag * in_ring);
      }
      most = std::max(most, behind - 1);
    }
    return known->second = most;
  }

  // The control register for which the actor waits; null: none.
  const NetInput* FindCredit(int actor) const {
    for (const NetInput& in : net_.inputs_of(actor)) {
      const NetRegister& r = net_.registers[in.reg];
      if (IsControl(*r.proto) && r.writer >= 0) return &in;
    }
    return nullptr;
  }

  // Back from what the update reads to what adds up over the micro-batches.
  void FollowGradient(int id) {
    if (!seen_.insert(id).second) return;
    const int writer = net_.registers[id].writer;
    if (writer < 0 || net_.actors[writer].partner >= 0) return;  // of another stage
    if (IsBoxing(writer)) {
      for (const int from : FollowBack(id, &found_.reduced_once)) FollowGradient(from);
    } else if (Part(writer) == 'U') {
      for (const int of_use : Inputs(writer)) FollowGradient(of_use);
    } else {
      Add(*net_.registers[id].proto, &found_.gradients);
      // An actor that only adds up takes what was reduced before.
      const std::vector<int> in = Inputs(writer);
      if (in.size() == 1 && HasItsShape(in[0])) FollowPart(in[0]);
    }
  }

  void FollowPart(int id) {
    const int writer = net_.registers[id].writer;
    if (!seen_.insert(id).second || writer < 0 || !IsBoxing(writer)) return;
    for (const int from : FollowBack(id, &found_.reduced_each_micro_batch)) {
      if (net_.actor(writer).boxing().reduce_axis().empty()) {
        for (const auto& split : net_.registers[id].proto->layout().split()) {
          if (IsSplitOver(*net_.registers[from].proto, split.axis())) continue;
          found_.sliced_each_micro_batch.insert(split.axis());
        }
      }
      FollowPart(from);
    }
  }

  // Of the boxing that writes the register, the register that it reads for it.
  std::vector<int> FollowBack(int id, std::set<int>* reduced) const {
    const int writer = net_.registers[id].writer;
    for (const int axis : net_.actor(writer).boxing().reduce_axis()) reduced->insert(axis);
    const std::vector<int> in = Inputs(writer), out = Data(net_.outputs_of(writer));
    const size_t at = std::find(out.begin(), out.end(), id) - out.begin();
    return at < in.size() ? std::vector<int>{in[at]} : std::vector<int>{};
  }

  const PlanNet& net_;
  std::map<int, int> ahead_;  // by segment
  std::set<int> seen_;        // registers of the variable: a plan may be edited
  VariableLayouts found_;
  int gathers_ = 0, copies_ = 0;
};

}  // namespace

std::vector<VariableLayouts> FindVariableLayouts(const proto::Plan& plan) {
  const proto::Program* train = FindProgram(plan, "train");
  if (train == nullptr) return {};
  const absl::StatusOr<PlanNet> net = MakePlanNet(plan, *train);
  if (!net.ok()) return {};
  std::set<std::string_view> names;
  for (const proto::Variable& variable : plan.variable()) names.insert(variable.name());
  std::vector<VariableLayouts> found;
  Finder finder(*net);
  for (const proto::Variable& variable : plan.variable()) {
    const std::string_view name = variable.name();
    if (names.contains(name.substr(0, name.rfind('/'))) && name.find('/') != name.npos) continue;
    found.push_back(finder.Find(variable));
  }
  return found;
}

}  // namespace oneflow
