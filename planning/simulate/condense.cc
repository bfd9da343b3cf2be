#include "planning/simulate/condense.h"

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

constexpr double kFirstPart = 1.0 / 8192;  // of the run: about a pixel of a wide screen

// Blocks of one stream, and the block that is being merged.
class Merger {
 public:
  explicit Merger(double seconds) : seconds_(seconds) {}

  std::vector<Block> Merge(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      const bool fits =
          open_ && block.step == merged_.step && block.end - merged_.begin <= seconds_;
      if (!fits) Close();
      Add(block);
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
  bool open_ = false;
  Block merged_;
  std::map<std::string, double> seconds_of_;  // of merged_, by segment
  std::vector<Block> done_;
};

size_t CountBlocks(const SimulationSummary& summary) {
  size_t blocks = 0;
  for (const SimulationSummary::Device& device : summary.stages) {
    for (const Stream& stream : device.streams) blocks += stream.host ? 0 : stream.blocks.size();
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
}

void DropStreams(SimulationSummary* summary) {
  const bool many = summary->stages.size() > kMostStages;
  for (SimulationSummary::Device& device : summary->stages) {
    for (Stream& stream : device.streams) {
      if (stream.host || (many && stream.name != "compute")) stream.blocks.clear();
    }
  }
}

// Returns the number of pieces in the last step before.
size_t KeepFirstPieces(SimulationSummary* summary) {
  std::vector<SimulationSummary::PathPiece>& path = summary->critical_path;
  std::erase_if(path, [&](const auto& piece) { return piece.block.step != summary->steps - 1; });
  const size_t pieces = path.size();
  if (pieces > kPiecesKept) path.resize(kPiecesKept);
  return pieces;
}

}  // namespace

Condensation Condense(SimulationSummary* summary, size_t most) {
  Condensation condensed{.blocks = CountBlocks(*summary)};
  if (condensed.blocks <= most) return condensed;
  DropStreams(summary);
  MarkCritical(summary);
  condensed.pieces = KeepFirstPieces(summary);
  size_t blocks = condensed.blocks;
  condensed.seconds = summary->seconds * kFirstPart;
  for (;; condensed.seconds *= 2) {
    for (SimulationSummary::Device& device : summary->stages) {
      for (Stream& stream : device.streams) {
        stream.blocks = Merger(condensed.seconds).Merge(stream.blocks);
      }
    }
    blocks = CountBlocks(*summary);
    // A block of the full run cannot grow.
    if (blocks <= most || condensed.seconds >= summary->seconds) return condensed;
  }
}

}  // namespace oneflow
