#include "compiler/schedule/tell_receives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"
#include "compiler/schedule/timed_game.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {
namespace {

// Smaller ones are not worth a token.
constexpr int64_t kLarge = 1 << 16;

// A token from a send to a receive: the send is complete.
struct Token {
  int send = 0, receive = 0;  // actors
  int64_t turns = 0;          // firing n of the receive waits for firing n - turns of the send
  int64_t ahead = 1;          // most firings of the send begun and of the receive not ended
};

class Tokens {
 public:
  Tokens(const PlanNet& net, const Lowered& lowered)
      : net_(net),
        begun_(net.actors.size(), 0),
        ended_(net.actors.size(), 0),
        tokens_of_(net.actors.size()) {
    FindRoutes(lowered);
    AddUpdatePairs();
  }

  void Begin(int actor) {
    const int64_t firing = begun_[actor]++;
    for (const int index : tokens_of_[actor]) {
      Token& token = tokens_[index];
      if (token.receive == actor) {
        token.turns = std::max(token.turns, firing + 1 - ended_[token.send]);
      } else {
        token.ahead = std::max(token.ahead, firing + 1 - ended_[token.receive]);
      }
    }
    if (is_update_receive_[actor]) TakeUpdatePairs(actor);
  }

  void End(int actor) {
    ++ended_[actor];
    if (is_large_send_[actor]) large_sends_[net_.actors[actor].stage].push_back(actor);
  }

  // Leaves out tokens that are never waited for within a step, and all tokens if the play
  // deadlocked.
  std::vector<Token> Found() const {
    for (size_t a = 0; a < net_.actors.size(); ++a) {
      if (ended_[a] < net_.actors[a].firings) return {};
    }
    std::vector<Token> found;
    for (const int index : taken_) {
      const Token& token = tokens_[index];
      if (token.turns < net_.actors[token.send].firings) found.push_back(token);
    }
    return found;
  }

 private:
  // Stage, chunk, the other stage, and whether it is the activation that leaves.
  using Route = std::tuple<int, int, int, bool>;

  void FindRoutes(const Lowered& lowered) {
    is_update_receive_.assign(net_.actors.size(), false);
    is_large_send_ = is_update_receive_;
    std::map<Route, int> last_send, first_receive;
    for (const proto::Segment& segment : lowered.program.segment()) {
      const auto& [lane, task, times, partner] = lowered.segments[segment.id()];
      const Route there{segment.stage(), task.chunk, partner, true};
      const Route back{segment.stage(), task.chunk, partner, false};
      const int actor = segment.actor(0);
      if (task.part == Part::kPrepare) continue;  // once a step
      switch (lane) {
        case Lane::kSendForward: last_send[there] = actor; break;
        case Lane::kReceiveBackward: first_receive.try_emplace(there, actor); break;
        case Lane::kSendBackward: last_send[back] = actor; break;
        case Lane::kReceiveForward: first_receive.try_emplace(back, actor); break;
        case Lane::kSendUpdate: is_large_send_[actor] = SendsMuch(actor); break;
        case Lane::kReceiveUpdate: is_update_receive_[actor] = true; break;
        default: break;
      }
    }
    for (const auto& [route, send] : last_send) {
      const auto receive = first_receive.find(route);
      if (receive == first_receive.end()) continue;
      const NetActor &a = net_.actors[send], &b = net_.actors[receive->second];
      if (a.firings != b.firings || a.firings == 1) continue;
      taken_.push_back(Add(send, receive->second));
    }
  }

  int Add(int send, int receive) {
    const int index = static_cast<int>(tokens_.size());
    tokens_of_[send].push_back(index);
    tokens_of_[receive].push_back(index);
    tokens_.push_back({send, receive});
    return index;
  }

  // Each large send of the update with each receive of its stage: the play chooses among them. A
  // round of several steps fires each several times, and stages lag, so all their firings count.
  void AddUpdatePairs() {
    const int actors = static_cast<int>(net_.actors.size());
    for (int receive = 0; receive < actors; ++receive) {
      if (!is_update_receive_[receive]) continue;
      const NetActor& b = net_.actors[receive];
      for (int send = 0; send < actors; ++send) {
        const NetActor& a = net_.actors[send];
        if (!is_large_send_[send] || a.stage != b.stage || a.firings != b.firings) continue;
        Add(send, receive);
      }
    }
  }

  // Pairs the receive with the large sends that are complete and have no receive yet.
  void TakeUpdatePairs(int receive) {
    std::vector<int>& waiting = large_sends_[net_.actors[receive].stage];
    for (const int index : tokens_of_[receive]) {
      if (std::find(waiting.begin(), waiting.end(), tokens_[index].send) == waiting.end()) continue;
      if (std::find(taken_.begin(), taken_.end(), index) == taken_.end()) taken_.push_back(index);
    }
    waiting.clear();
  }

  bool SendsMuch(int send) const {
    const auto inputs = net_.inputs_of(send);
    return std::any_of(inputs.begin(), inputs.end(), [&](const NetInput& input) {
      return net_.registers[input.reg].proto->slot_bytes() >= kLarge;
    });
  }

  const PlanNet& net_;
  std::vector<bool> is_update_receive_, is_large_send_;  // by actor
  std::vector<int64_t> begun_, ended_;                   // by actor: firings
  std::map<int, std::vector<int>> large_sends_;          // by stage: complete, no receive yet
  std::vector<Token> tokens_;                            // that there may be
  std::vector<std::vector<int>> tokens_of_;  // by actor: of tokens_, those it sends or receives
  std::vector<int> taken_;                   // of tokens_, those that there are
};

}  // namespace

absl::Status TellReceives(const proto::Plan& plan, const std::vector<double>& seconds,
                          Lowered* lowered) {
  proto::Program& program = lowered->program;
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, program));
  Tokens tokens(net, *lowered);
  PlayByClock(
      net, seconds, [&](int actor, double) { tokens.Begin(actor); },
      [&](int actor, double) { tokens.End(actor); });
  for (const Token& token : tokens.Found()) {
    const std::string name = absl::StrCat(program.actor(token.send).name(), ".over");
    proto::Register* over = AddControlRegister(lowered, name, program.actor(token.send).stage());
    over->set_slots(static_cast<int>(token.turns + token.ahead));
    program.mutable_actor(token.send)->add_output(over->id());
    proto::Actor* receive = program.mutable_actor(token.receive);
    AddControlInput(over->id(), receive);
    receive->mutable_input(receive->input_size() - 1)
        ->set_initial_fills(static_cast<int>(token.turns));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
