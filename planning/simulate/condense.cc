#include "planning/simulate/condense.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace oneflow {
namespace {

using Block = SimulationSummary::Block;
using Stream = SimulationSummary::Stream;

constexpr double kFirstPart = 1.0 / 8192;  // of the time drawn: about a pixel of a wide screen
constexpr double kMostKept = 0.75;         // of all blocks: those of periods that stay in full

// The first of equal periods, which a picture shows in full.
struct FullPeriod {
  double begin = 0, end = 0;
  bool Has(const Block& block) const { return block.end > begin && block.end <= end; }
};

bool IsKept(const std::vector<FullPeriod>& kept, const Block& block) {
  return std::ranges::any_of(kept, [&](const FullPeriod& period) { return period.Has(block); });
}

// Blocks of one stream, and the block that is being merged. Blocks of `kept` periods stay.
class Merger {
 public:
  Merger(double seconds, const std::vector<FullPeriod>& kept) : seconds_(seconds), kept_(kept) {}

  std::vector<Block> Merge(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      const bool kept = IsKept(kept_, block);
      const bool fits = open_ && !kept && block.end - merged_.begin <= seconds_;
      if (!fits) Close();
      if (kept) {
        done_.push_back(block);
      } else {
        Add(block);
      }
    }
    Close();
    return std::move(done_);
  }

 private:
  void Add(const Block& block) {
    if (!open_) {
      merged_ = block;
      merged_.blocks = 0;
      merged_.busy = 0;
      merged_.critical = false;
      open_ = true;
    }
    merged_.end = block.end;
    merged_.blocks += block.blocks;
    merged_.busy += block.busy;
    merged_.critical = merged_.critical || block.critical;
    if (block.parts.empty()) seconds_of_[block.segment] += block.busy;
    for (const auto& [segment, seconds] : block.parts) seconds_of_[segment] += seconds;
  }

  // The merged block gets the name of the segment that takes most of it.
  void Close() {
    if (!open_) return;
    double most = -1;
    for (const auto& [segment, seconds] : seconds_of_) {
      if (seconds <= most) continue;
      most = seconds;
      merged_.segment = segment;
    }
    merged_.parts.clear();
    if (seconds_of_.size() > 1) merged_.parts.assign(seconds_of_.begin(), seconds_of_.end());
    done_.push_back(std::move(merged_));
    seconds_of_.clear();
    open_ = false;
  }

  const double seconds_;
  const std::vector<FullPeriod>& kept_;
  bool open_ = false;
  Block merged_;
  std::map<std::string, double> seconds_of_;  // of merged_, by segment
  std::vector<Block> done_;
};

size_t CountBlocks(const SimulationSummary& summary, bool compute_alone = false) {
  size_t blocks = 0;
  for (const SimulationSummary::Device& device : summary.stages) {
    for (const Stream& stream : device.streams) {
      if (!compute_alone || stream.name == "compute") blocks += stream.blocks.size();
    }
  }
  return blocks;
}

void MarkCritical(SimulationSummary* summary) {
  using Key = std::tuple<int, std::string, std::string, int64_t, int64_t>;
  std::set<Key> path;
  for (const SimulationSummary::PathPiece& piece : summary->critical_path) {
    path.insert(
        {piece.stage, piece.stream, piece.block.segment, piece.block.step, piece.block.number});
  }
  for (SimulationSummary::Device& device : summary->stages) {
    for (Stream& stream : device.streams) {
      for (Block& block : stream.blocks) {
        block.critical =
            path.contains({device.stage, stream.name, block.segment, block.step, block.number});
      }
    }
  }
  summary->critical_path.clear();
}

// Of a stream that is not drawn all blocks, of the others those of earlier steps.
void DropBlocks(SimulationSummary* summary) {
  for (SimulationSummary::Device& device : summary->stages) {
    for (Stream& stream : device.streams) {
      const bool drawn = !stream.host && stream.name != "copy.in" && stream.name != "copy.out";
      std::erase_if(stream.blocks,
                    [&](const Block& block) { return !drawn || block.step != summary->steps - 1; });
    }
  }
}

double FindBegin(const SimulationSummary& summary) {
  double begin = summary.seconds;
  for (const SimulationSummary::Device& device : summary.stages) {
    for (const Stream& stream : device.streams) {
      for (const Block& block : stream.blocks) begin = std::min(begin, block.begin);
    }
  }
  return begin;
}

// Keeps the points from `begin` on, and before them what is in use then.
void DropPoints(double begin, std::vector<LiveMemory::Point>* points) {
  const auto later = std::find_if(points->begin(), points->end(),
                                  [&](const auto& point) { return point.time > begin; });
  if (later > points->begin() + 1) points->erase(points->begin(), later - 1);
}

// The time of the step that is drawn: repeats of its periods are not.
double FindDrawn(const SimulationSummary& summary, double begin) {
  double drawn = summary.seconds - begin;
  for (const SimulationSummary::Repeat& repeat : summary.repeats) {
    if (repeat.begin >= begin) drawn -= static_cast<double>(repeat.times) * repeat.seconds;
  }
  return drawn;
}

// The periods that stay in full: none, if their blocks would leave too little for the others.
std::vector<FullPeriod> FindKept(const SimulationSummary& summary, double begin, size_t most) {
  std::vector<FullPeriod> kept;
  for (const SimulationSummary::Repeat& repeat : summary.repeats) {
    if (repeat.begin >= begin) kept.push_back({repeat.begin, repeat.begin + repeat.seconds});
  }
  size_t blocks = 0;
  for (const SimulationSummary::Device& device : summary.stages) {
    for (const Stream& stream : device.streams) {
      for (const Block& block : stream.blocks) blocks += IsKept(kept, block) ? 1 : 0;
    }
  }
  if (static_cast<double>(blocks) > kMostKept * static_cast<double>(most)) kept.clear();
  return kept;
}

}  // namespace

Condensation Condense(SimulationSummary* summary, size_t most) {
  DropBlocks(summary);
  MarkCritical(summary);
  Condensation condensed{.blocks = CountBlocks(*summary)};
  const double begin = FindBegin(*summary);
  for (SimulationSummary::Device& device : summary->stages) {
    DropPoints(begin, &device.memory);
    DropPoints(begin, &device.host_memory);
  }
  if (condensed.blocks <= most) return condensed;
  if (CountBlocks(*summary, /*compute_alone=*/true) > most) {
    for (SimulationSummary::Device& device : summary->stages) {
      for (Stream& stream : device.streams) {
        if (stream.name != "compute") stream.blocks.clear();
      }
    }
  }
  const std::vector<FullPeriod> kept = FindKept(*summary, begin, most);
  condensed.seconds = FindDrawn(*summary, begin) * kFirstPart;
  for (;; condensed.seconds *= 2) {
    for (SimulationSummary::Device& device : summary->stages) {
      for (Stream& stream : device.streams) {
        stream.blocks = Merger(condensed.seconds, kept).Merge(stream.blocks);
      }
    }
    // A block of the full run cannot grow.
    if (CountBlocks(*summary) <= most || condensed.seconds >= summary->seconds) return condensed;
  }
}

}  // namespace oneflow
