#include "compiler/memory/buffer_rings.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <utility>

namespace oneflow {
namespace {

// A group while it is built, with the times of its observed fills.
struct Turn {
  int64_t slots = 1, bytes = 0;  // bytes: of a micro-batch
  std::vector<int> lives;
  std::vector<int64_t> begins, begun;  // by fill: when the first register of it begins, the last
  std::vector<int64_t> over;           // by fill: when this one and all before it are over
};

// True if fills of the register begin in turn with those of the group.
bool InTurnWith(const Turn& turn, const Lifetime& life) {
  for (size_t i = 0; i + 1 < life.fills.size(); ++i) {
    if (std::max(turn.begun[i], life.fills[i].first) >=
        std::min(turn.begins[i + 1], life.fills[i + 1].first)) {
      return false;
    }
  }
  return true;
}

void JoinTurn(const Lifetime& life, int index, Turn* turn) {
  turn->lives.push_back(index);
  turn->bytes += life.slot_bytes;
  int64_t over = 0;
  for (size_t i = 0; i < life.fills.size(); ++i) {
    const auto [first, last] = life.fills[i];
    turn->begins[i] = std::min(turn->begins[i], first);
    turn->begun[i] = std::max(turn->begun[i], first);
    over = std::max(over, last);
    turn->over[i] = std::max(turn->over[i], over);
  }
}

std::vector<Turn> FindTurns(const std::vector<Lifetime>& lives, int64_t fills_a_step) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(lives.size()); ++i) {
    const Lifetime& life = lives[i];
    const bool saved = !life.workspace && life.slots > 1 && life.slots <= fills_a_step;
    if (saved && life.fills_a_step() == fills_a_step) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return lives[a].fills[0].first < lives[b].fills[0].first; });
  std::vector<Turn> turns;
  for (int i : order) {
    const Lifetime& life = lives[i];
    auto turn = std::find_if(turns.begin(), turns.end(), [&](const Turn& t) {
      return t.slots == life.slots && InTurnWith(t, life);
    });
    if (turn == turns.end()) {
      const size_t n = life.fills.size();
      constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
      turns.push_back({life.slots,
                       0,
                       {},
                       std::vector<int64_t>(n, kNever),
                       std::vector<int64_t>(n, 0),
                       std::vector<int64_t>(n, 0)});
      turn = turns.end() - 1;
    }
    JoinTurn(life, i, &*turn);
  }
  return turns;
}

// D(behind, ahead).
int64_t Distance(const Turn& behind, const Turn& ahead) {
  int64_t distance = 1, over = 0;  // fills of the one ahead
  const int64_t fills = std::ssize(ahead.over);
  for (int64_t i = 0; i < fills; ++i) {
    while (over < fills && ahead.over[over] < behind.begins[i]) ++over;
    distance = std::max(distance, i + 1 - over);
  }
  return distance;
}

// True if groups may follow one another: their bytes are so similar that none wastes more than a
// third of another's buffers.
bool AlikeInBytes(int64_t more, int64_t fewer) { return fewer * 3 >= more * 2; }

std::vector<std::vector<int64_t>> FindDistances(std::span<const Turn> turns) {
  std::vector<std::vector<int64_t>> distances;
  for (const Turn& behind : turns) {
    distances.emplace_back();
    for (const Turn& ahead : turns) {
      distances.back().push_back(&behind == &ahead ? behind.slots : Distance(behind, ahead));
    }
  }
  return distances;
}

// By group, the group that it stays behind. Distances are doubled so that the discount of 1 makes a
// group stay alone where a ring is no cheaper, and decides nothing else.
std::vector<int> GroupsAhead(std::vector<std::vector<int64_t>> distances) {
  for (size_t i = 0; i < distances.size(); ++i) {
    for (int64_t& distance : distances[i]) distance *= 2;
    --distances[i][i];
  }
  return Assignment(distances);
}

// Adds the rings of groups that are alike in bytes: the cycles of the assignment.
void AddRings(std::span<const Turn> turns, int64_t fills_a_step, std::vector<BufferRing>* rings) {
  const auto distances = FindDistances(turns);
  const std::vector<int> ahead = GroupsAhead(distances);
  std::vector<bool> seen(turns.size(), false);
  for (int first = 0; first < static_cast<int>(turns.size()); ++first) {
    BufferRing ring{0, {}};
    int64_t most_slots = 0, most_bytes = 0, bytes_alone = 0;
    for (int i = first; !seen[i]; i = ahead[i]) {
      const Turn& turn = turns[i];
      seen[i] = true;
      ring.groups.push_back({turn.lives, ring.buffers});
      ring.buffers += distances[i][ahead[i]];
      most_slots = std::max(most_slots, turn.slots);
      most_bytes = std::max(most_bytes, turn.bytes);
      bytes_alone += turn.slots * turn.bytes;
    }
    // Slots for what is fetched ahead may never all be full. With a buffer for each fill of a step
    // there would be no turn, and one more micro-batch would need one more buffer.
    ring.buffers = std::max(ring.buffers, most_slots);
    const bool saves = ring.buffers * most_bytes < bytes_alone;
    if (saves && ring.buffers < fills_a_step) rings->push_back(std::move(ring));
  }
}

}  // namespace

std::vector<BufferRing> FindBufferRings(const StageLifetimes& stage) {
  std::set<int64_t> rates;
  for (const Lifetime& life : stage.registers) rates.insert(life.fills_a_step());
  std::vector<BufferRing> rings;
  for (const int64_t fills_a_step : rates) {
    std::vector<Turn> turns = FindTurns(stage.registers, fills_a_step);
    std::stable_sort(turns.begin(), turns.end(),
                     [](const Turn& a, const Turn& b) { return a.bytes > b.bytes; });
    for (auto first = turns.begin(); first != turns.end();) {
      const auto end = std::find_if(first, turns.end(), [&](const Turn& turn) {
        return !AlikeInBytes(first->bytes, turn.bytes);
      });
      AddRings({first, end}, fills_a_step, &rings);
      first = end;
    }
  }
  return rings;
}

// The Hungarian method. Rows are added one by one, each along the cheapest augmenting path: rows on
// the path change columns, the last of them to a free column. Potentials keep all reduced costs at
// or above 0.
std::vector<int> Assignment(const std::vector<std::vector<int64_t>>& cost) {
  constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();
  const int n = static_cast<int>(cost.size());
  std::vector<int64_t> of_row(n, 0), of_column(n, 0);  // potentials
  std::vector<int> row_of(n, -1);                      // by column
  for (int added = 0; added < n; ++added) {
    std::vector<int64_t> least(n, kInfinite);  // what is left of the path to each column
    std::vector<int> before(n, -1);            // the column before it on that path
    std::vector<bool> reached(n, false);
    int row = added, column = -1;
    do {
      int next = -1;
      for (int j = 0; j < n; ++j) {
        if (reached[j]) continue;
        const int64_t left = cost[row][j] - of_row[row] - of_column[j];
        if (left < least[j]) least[j] = left, before[j] = column;
        if (next < 0 || least[j] < least[next]) next = j;
      }
      const int64_t step = least[next];
      of_row[added] += step;
      for (int j = 0; j < n; ++j) {
        if (reached[j]) {
          of_row[row_of[j]] += step, of_column[j] -= step;
        } else {
          least[j] -= step;
        }
      }
      reached[next] = true;
      column = next, row = row_of[next];
    } while (row >= 0);
    for (int from = before[column]; from >= 0; column = from, from = before[column]) {
      row_of[column] = row_of[from];
    }
    row_of[column] = added;
  }
  std::vector<int> column_of(n);
  for (int j = 0; j < n; ++j) column_of[row_of[j]] = j;
  return column_of;
}

}  // namespace oneflow
