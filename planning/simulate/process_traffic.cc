#include "planning/simulate/process_traffic.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exchange/far_exchange.h"
#include "actor_runtime/exec/bound_actor.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/table.h"

namespace oneflow {
namespace {

// The counts of traffic: their names in JSON, and their titles.
struct Count {
  const char *name, *title;
  int64_t Traffic::*count;
};
constexpr Count kCounts[] = {{"messages_sent", "messages out", &Traffic::messages_sent},
                             {"messages_received", "in", &Traffic::messages_received},
                             {"pulls", "pulls", &Traffic::pulls},
                             {"bytes_sent", "bytes out", &Traffic::bytes_sent},
                             {"bytes_received", "in", &Traffic::bytes_received}};

// The packets that one member of a group takes of another, in one firing.
struct Route {
  int reader = 0, source = 0;
  int64_t packets = 0, bytes = 0;
  int64_t placed = 0;  // bytes of them that arrive in the reader's output
  int most_pulls = 1;  // of the reader
};

// The traffic of one exchange of all groups of a stage, in one firing.
struct FiringBytes {
  std::map<int, double> in, out;  // bytes, by process
  FarTraffic most;
};

// One program of a plan on some processes.
class Counting {
 public:
  Counting(const PlanNet& net, StageMesh mesh, int ranks_a_process)
      : net_(net), mesh_(std::move(mesh)), ranks_a_process_(ranks_a_process) {
    traffic_.processes = mesh_.ranks() / ranks_a_process;
    traffic_.by_stage.resize(mesh_.stage_axis < 0 ? 1 : mesh_.mesh.axes[mesh_.stage_axis].size);
    traffic_.by_process.resize(traffic_.processes);
  }

  absl::StatusOr<ProcessTraffic> Count() {
    far_.resize(net_.program->actor_size());
    for (int a = 0; a < net_.program->actor_size(); ++a) {
      const proto::Actor& actor = net_.actor(a);
      if (!actor.has_exchange()) continue;
      const proto::Group& group = net_.plan->group(actor.exchange().group());
      // In a pair of actors the receive counts for both.
      if (group.has_stages() && group.stages().to() != actor.stage()) continue;
      FiringBytes firing;
      for (int rank = 0; rank < mesh_.ranks(); ++rank) {
        if (mesh_.RankToStage(rank) != actor.stage()) continue;
        const std::vector<int> ranks = mesh_.FindMembers(group, rank);
        const int counted_at = group.has_stages() ? ranks.back() : ranks.front();
        if (rank == counted_at) RETURN_IF_ERROR(AddExchange(a, ranks, &firing));
      }
      // Devices of a process that exchange at the same time share one link.
      for (const auto* bytes : {&firing.in, &firing.out}) {
        for (const auto& [process, n] : *bytes) {
          firing.most.bytes = std::max(firing.most.bytes, n);
        }
      }
      far_[a] = firing.most;
      if (net_.actors[a].partner >= 0) far_[net_.actors[a].partner] = firing.most;
    }
    const int64_t steps = std::max<int64_t>(1, net_.program->steps_a_round());
    for (std::vector<Traffic>* all : {&traffic_.by_stage, &traffic_.by_process}) {
      for (Traffic& traffic : *all) {
        for (const auto& [name, title, count] : kCounts) traffic.*count /= steps;
      }
    }
    for (const Traffic& traffic : traffic_.by_process) traffic_.all += traffic;
    return std::move(traffic_);
  }

  const std::vector<FarTraffic>& far() const { return far_; }

 private:
  int FindProcess(int rank) const { return rank / ranks_a_process_; }

  // All firings of an exchange of these ranks.
  absl::Status AddExchange(int actor, const std::vector<int>& ranks, FiringBytes* firing) {
    std::map<int, int> first_of;  // by process: the rank that speaks for it
    for (const int rank : ranks) first_of.try_emplace(FindProcess(rank), rank);
    if (first_of.size() == 1) return absl::OkStatus();
    const int64_t firings = net_.actors[actor].firings;
    for (const auto& [process, from] : first_of) {
      for (const auto& [other, to] : first_of) {
        if (process != other) AddMessages(from, to, 2 * firings);  // entered, done
      }
    }
    ASSIGN_OR_RETURN(const std::vector<Route>* routes, FindRoutes(actor, ranks));
    std::map<int, FarTraffic> of_reader;
    for (const Route& route : *routes) {
      FarTraffic& far = of_reader[route.reader];
      far.packets += static_cast<double>(route.packets);
      far.placed += static_cast<double>(route.placed);
      far.most_pulls = route.most_pulls;
      firing->in[FindProcess(ranks[route.reader])] += static_cast<double>(route.bytes);
      firing->out[FindProcess(ranks[route.source])] += static_cast<double>(route.bytes);
      const int reader = ranks[route.reader], source = ranks[route.source];
      const int64_t packets = firings * route.packets, bytes = firings * route.bytes;
      AddMessages(reader, source, packets);  // pulls
      AddMessages(source, reader, packets);  // pieces
      for (Traffic* t : At(reader)) t->pulls += packets, t->bytes_received += bytes;
      for (Traffic* t : At(source)) t->bytes_sent += bytes;
    }
    for (const auto& [reader, far] : of_reader) {
      if (far.packets > firing->most.packets) firing->most = far;
    }
    return absl::OkStatus();
  }

  std::array<Traffic*, 2> At(int rank) {
    return {&traffic_.by_stage[mesh_.RankToStage(rank)], &traffic_.by_process[FindProcess(rank)]};
  }

  void AddMessages(int from, int to, int64_t n) {
    for (Traffic* t : At(from)) t->messages_sent += n;
    for (Traffic* t : At(to)) t->messages_received += n;
  }

  // Layers are alike, and so are groups: each kind is split into pieces once.
  absl::StatusOr<const std::vector<Route>*> FindRoutes(int actor, const std::vector<int>& ranks) {
    const auto [found, fresh] = routes_.try_emplace(MakeKey(actor, ranks));
    if (!fresh) return &found->second;
    std::vector<BoundMember> members;
    const int partner = net_.actors[actor].partner;
    for (const int rank : ranks) {
      members.push_back({members.empty() && partner >= 0 ? partner : actor, rank});
    }
    std::vector<int> processes;
    for (const int rank : ranks) processes.push_back(FindProcess(rank));
    std::sort(processes.begin(), processes.end());
    processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
    for (const int process : processes) {
      RETURN_IF_ERROR(AddRoutes(members, process, &found->second));
    }
    return &found->second;
  }

  // Adds the routes whose reader is in a process.
  absl::Status AddRoutes(const std::vector<BoundMember>& members, int process,
                         std::vector<Route>* routes) const {
    const RankRange own = {process * ranks_a_process_, (process + 1) * ranks_a_process_};
    ASSIGN_OR_RETURN(const ExchangeWork work,
                     BindExchange({net_, mesh_, own, no_devices_}, members, *carrier_));
    std::map<std::pair<int, int>, Route> of;
    const auto accumulates = [&](int member) {
      const proto::Actor& actor = net_.actor(members[member].actor);
      return actor.output_size() > 0 &&
             net_.registers[actor.output(0)].proto->fill_mode() == proto::Register::ACCUMULATE;
    };
    for (int p = 0; p < work.pieces(); ++p) {
      const ExchangeWork::Piece piece = work.At(p);
      if (piece.is_copy) continue;
      for (const int source : piece.region->sources) {
        if (work.IsNear(source)) continue;
        Route& route = of[{piece.member, source}];
        ++route.packets;
        route.bytes += piece.bytes();
        const bool adds = accumulates(piece.member);
        // Workers of the members here share the copying.
        if (ExchangeWork::ArrivesInOutput(piece, adds)) {
          route.placed += piece.bytes() / (1 + piece.copies);
        }
        const proto::Actor& actor = net_.actor(members[piece.member].actor);
        const int64_t workspace =
            actor.has_workspace() ? net_.registers[actor.workspace()].proto->slot_bytes() : 0;
        route.most_pulls = std::max(1, MostPulls(workspace, work.WindowBytes(piece.member, adds)));
      }
    }
    for (const auto& [ends, route] : of) {
      routes->push_back(route);
      routes->back().reader = ends.first;
      routes->back().source = ends.second;
    }
    return absl::OkStatus();
  }

  // All that the pieces depend on. Layouts do not split along the axis of stages.
  std::string MakeKey(int actor, const std::vector<int>& ranks) const {
    std::string key;
    for (const int a : {net_.actors[actor].partner, actor}) {
      if (a < 0) continue;
      const proto::Actor& proto = net_.actor(a);
      absl::StrAppend(&key, "|", proto.boxing().SerializeAsString(), "|");
      for (const proto::Input& input : proto.input()) AddRegister(input.register_(), &key);
      absl::StrAppend(&key, ">");
      for (const int id : proto.output()) AddRegister(id, &key);
      if (proto.has_workspace()) AddRegister(proto.workspace(), &key);
    }
    for (const int rank : ranks) {
      Coordinate at = mesh_.mesh.RankToCoordinate(rank);
      if (mesh_.stage_axis >= 0) at[mesh_.stage_axis] = 0;
      absl::StrAppend(&key, ";", mesh_.mesh.CoordinateToRank(at), "@",
                      FindProcess(rank) - FindProcess(ranks.front()));
    }
    return key;
  }

  void AddRegister(int id, std::string* key) const {
    const proto::Register& reg = *net_.registers[id].proto;
    absl::StrAppend(key, reg.layout().SerializeAsString(), ",", reg.dtype(), ",", reg.fill_mode(),
                    ",", reg.slot_bytes(), ",", IsControl(reg), "/");
  }

  const PlanNet& net_;
  const StageMesh mesh_;
  const int ranks_a_process_;
  const std::vector<DeviceMemory> no_devices_;
  const std::unique_ptr<Carrier> carrier_ = MakeHostCarrier();
  std::map<std::string, std::vector<Route>> routes_;
  std::vector<FarTraffic> far_;  // by actor
  ProcessTraffic traffic_;
};

nlohmann::ordered_json TrafficJson(const Traffic& traffic) {
  nlohmann::ordered_json json;
  for (const auto& [name, title, count] : kCounts) json[name] = traffic.*count;
  return json;
}

using Rows = std::vector<std::vector<std::string>>;

void AddRow(const std::string& name, const Traffic& traffic, Rows* rows) {
  rows->push_back({name});
  for (const Count& c : kCounts) rows->back().push_back(absl::StrCat(traffic.*c.count));
}

// A long list shows only its first and last elements.
void AddRows(const std::string& what, const std::vector<Traffic>& all, Rows* rows) {
  constexpr size_t kLines = 8;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all.size() > kLines && i == kLines - 1 && i + 1 < all.size()) {
      rows->push_back({absl::StrCat("... ", all.size() - kLines, " more")});
      i = all.size() - 1;
    }
    AddRow(absl::StrCat(what, " ", i), all[i], rows);
  }
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  for (const Count& c : kCounts) this->*c.count += other.*c.count;
  return *this;
}

absl::StatusOr<int> RanksAProcess(const proto::Plan& plan, int processes) {
  ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(plan));
  if (processes >= 1 && mesh.ranks() % processes == 0) return mesh.ranks() / processes;
  return InputError(absl::StrCat("--processes=", processes),
                    absl::StrCat("the plan's ", mesh.ranks(),
                                 " devices cannot be divided evenly among so many processes"),
                    "use a number that divides them");
}

namespace {

struct Counted {
  ProcessTraffic traffic;
  std::vector<FarTraffic> far;
};

absl::StatusOr<Counted> CountTraffic(const proto::Plan& plan, std::string_view program,
                                     int processes) {
  if (plan.device_kind() != proto::CPU) {
    return InputError(absl::StrCat("--processes=", processes),
                      "the plan is for GPUs, whose exchanges NCCL carries in packets of its choice",
                      "leave it out, or compile with --device=cpu");
  }
  ASSIGN_OR_RETURN(const int each, RanksAProcess(plan, processes));
  ASSIGN_OR_RETURN(StageMesh mesh, MakeStageMesh(plan));
  ASSIGN_OR_RETURN(const proto::Program* found, FindProgramByFlag(plan, program));
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, *found));
  Counting counting(net, std::move(mesh), each);
  ASSIGN_OR_RETURN(ProcessTraffic traffic, counting.Count());
  return Counted{std::move(traffic), counting.far()};
}

}  // namespace

absl::StatusOr<ProcessTraffic> FindProcessTraffic(const proto::Plan& plan, std::string_view program,
                                                  int processes) {
  ASSIGN_OR_RETURN(Counted counted, CountTraffic(plan, program, processes));
  return std::move(counted.traffic);
}

absl::StatusOr<std::vector<FarTraffic>> FindFarTraffic(const proto::Plan& plan,
                                                       std::string_view program, int processes) {
  ASSIGN_OR_RETURN(Counted counted, CountTraffic(plan, program, processes));
  return std::move(counted.far);
}

std::string ProcessTrafficText(const ProcessTraffic& traffic) {
  Rows rows = {{""}};
  for (const Count& c : kCounts) rows[0].emplace_back(c.title);
  AddRow("all", traffic.all, &rows);
  AddRows("stage", traffic.by_stage, &rows);
  AddRows("process", traffic.by_process, &rows);
  return absl::StrCat(
      "between ", traffic.processes, " processes, a step:\n",
      TableText(rows, {{false, 11}, {true, 11}, {true, 11}, {true, 11}, {true, 17}, {true, 17}},
                4));
}

nlohmann::ordered_json ProcessTrafficJson(const ProcessTraffic& traffic) {
  return {{"processes", traffic.processes},
          {"all", TrafficJson(traffic.all)},
          {"by_stage", JsonList(traffic.by_stage, TrafficJson)},
          {"by_process", JsonList(traffic.by_process, TrafficJson)}};
}

}  // namespace oneflow
