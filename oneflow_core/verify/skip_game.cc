#include "oneflow_core/verify/skip_game.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/verify/happens_before.h"

namespace oneflow {
namespace {

bool FramesTurn(const PlanNet& net, const Marking& from, const Marking& to) {
  for (const Frames& frames : FindFrames(net)) {
    const NetRegister& r = net.registers[frames.members.front()];
    if ((to.fills(r) - from.fills(r)) % frames.buffers != 0) return true;
  }
  return false;
}

}  // namespace

std::string FirstBadSkip(const PlanNet& net, SkipCounts* counts) {
  HappensBefore game(net, /*steps=*/2);
  for (bool going = true, refused = false; going && !refused;) {
    const Round round(net, game.marking());
    const HappensBefore begin = game;
    ++counts->rounds;
    std::vector<int> firings;
    going = PlayRound(net, round, game.marking(), [&](int s) {
      refused = !game.Fire(s).ok();
      firings.push_back(s);
      return !refused;
    });
    const Cycle cycle = CycleBetween(net, round.begin(), game.marking());
    HappensBefore played = game;
    if (refused || cycle.times == 0 || !game.SkipCycles(begin, firings, cycle)) continue;
    ++counts->skips;
    counts->frames_turned += FramesTurn(net, played.marking(), game.marking());
    for (int64_t i = 0; i < cycle.times; ++i) {
      for (int s : firings) {
        if (const absl::Status status = played.Fire(s); !status.ok()) {
          return absl::StrCat("cycle ", i, " of ", cycle.times, ": ", status.message());
        }
      }
    }
    if (!game.NoBetterThan(played)) return absl::StrCat(cycle.times, " cycles promise too much");
    counts->looser += !played.NoBetterThan(game);
  }
  return "";
}

}  // namespace oneflow
