#include "compiler/memory/buffer_rings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <numeric>
#include <random>

#include "compiler/schedule/schedule.h"

namespace oneflow {
namespace {

constexpr int kSteps = 2;  // that lifetimes look at

// A stage that holds one register a chunk, from its forward to its backward. A task is a moment.
StageLifetimes PlayLifetimes(const std::vector<Task>& step, const std::vector<int64_t>& bytes) {
  StageLifetimes stage;
  stage.length = std::ssize(step);
  for (size_t c = 0; c < bytes.size(); ++c) {
    stage.registers.push_back({.reg = static_cast<int>(c), .slot_bytes = bytes[c]});
  }
  std::vector<std::deque<size_t>> in_flight(bytes.size());  // fills, by chunk
  for (int64_t at = 0; at < kSteps * stage.length; ++at) {
    const auto& [part, chunk] = step[at % stage.length];
    Lifetime& life = stage.registers[chunk];
    if (part == Part::kForward) {
      in_flight[chunk].push_back(life.fills.size());
      life.fills.emplace_back(at, at);
      life.slots = std::max(life.slots, std::ssize(in_flight[chunk]));
    } else {
      life.fills[in_flight[chunk].front()].second = at;
      in_flight[chunk].pop_front();
    }
  }
  return stage;
}

int64_t MostInFlight(const std::vector<Task>& step) {
  int64_t now = 0, most = 0;
  for (const Task& task : step) {
    most = std::max(most, now += task.part == Part::kForward ? 1 : -1);
  }
  return most;
}

// That of rings, and of the slots of those on none.
int64_t BuffersTaken(const StageLifetimes& stage, const std::vector<BufferRing>& rings) {
  int64_t buffers = 0;
  for (const Lifetime& life : stage.registers) buffers += life.slots;
  for (const BufferRing& ring : rings) {
    buffers += ring.buffers;
    for (const RingGroup& group : ring.groups) buffers -= stage.registers[group.lives[0]].slots;
  }
  return buffers;
}

// Nobody on a ring meets any other on it.
void CheckApart(const StageLifetimes& stage, const BufferRing& ring) {
  for (const RingGroup& a : ring.groups) {
    for (const RingGroup& b : ring.groups) {
      if (&a == &b) continue;
      const int64_t further = (b.first_buffer + ring.buffers - a.first_buffer) % ring.buffers;
      for (int i : a.lives) {
        for (int j : b.lives) {
          CHECK_FALSE(MeetInBuffer(stage.registers[i], stage.registers[j], ring.buffers, further));
        }
      }
    }
  }
}

std::vector<Task> Interleaved(int stages, int stage, int chunks, int64_t micro_batches) {
  return Unrolled(InterleavedOrder(
      {.stages = stages, .stage = stage, .micro_batches = micro_batches, .chunks = chunks}));
}

// Forwards in any order, each chunk's backwards in that of its forwards; bursts of a chunk are
// likely.
std::vector<Task> RandomStep(std::mt19937& random, int chunks, int64_t micro_batches) {
  std::vector<int64_t> begun(chunks, 0), over(chunks, 0);
  std::vector<Task> step;
  for (int64_t left = 2 * chunks * micro_batches; left > 0;) {
    const auto c = static_cast<int>(random() % chunks);
    const bool forward = random() % 2 == 0;
    for (int64_t burst = 1 + random() % 4; burst > 0; --burst) {
      if (forward ? begun[c] == micro_batches : over[c] == begun[c]) break;
      ++(forward ? begun : over)[c];
      step.push_back({forward ? Part::kForward : Part::kBackward, c});
      --left;
    }
  }
  return step;
}

}  // namespace

TEST_CASE("chunks of a stage take little more than their micro-batches in flight") {
  struct Case {
    int stages, stage, chunks;
    int64_t slots, buffers, in_flight;
  };
  // The first and the last stage of 8; between them a chunk's forwards fall together with the
  // backwards of two others, and nobody can stay close behind both.
  for (const auto& [stages, at, chunks, slots, buffers, in_flight] :
       {Case{8, 0, 3, 39, 32, 31}, Case{8, 2, 3, 35, 32, 27}, Case{8, 7, 3, 25, 19, 17},
        Case{8, 0, 4, 48, 40, 39}, Case{4, 0, 7, 43, 32, 31}, Case{8, 0, 2, 24, 24, 23}}) {
    INFO("stage " << at << " of " << stages << ", " << chunks << " chunks");
    const std::vector<Task> step = Interleaved(stages, at, chunks, 8 * stages);
    const StageLifetimes stage = PlayLifetimes(step, std::vector<int64_t>(chunks, 64));
    const std::vector<BufferRing> rings = FindBufferRings(stage);
    CHECK(BuffersTaken(stage, {}) == slots);
    CHECK(BuffersTaken(stage, rings) == buffers);
    CHECK(MostInFlight(step) == in_flight);
    for (const BufferRing& ring : rings) CheckApart(stage, ring);
  }
}

TEST_CASE("what a micro-batch saves of a chunk stays together") {
  const std::vector<Task> step = Interleaved(8, 0, 3, 64);
  StageLifetimes stage = PlayLifetimes(step, {64, 64, 64});
  for (int c = 0; c < 3; ++c) {
    stage.registers.push_back(stage.registers[c]);
    stage.registers.back().slot_bytes = 128;
  }
  const std::vector<BufferRing> rings = FindBufferRings(stage);
  REQUIRE_FALSE(rings.empty());
  for (const BufferRing& ring : rings) {
    for (const RingGroup& group : ring.groups) {
      REQUIRE(group.lives.size() == 2);
      CHECK(group.lives[1] == group.lives[0] + 3);
    }
    CheckApart(stage, ring);
  }
}

TEST_CASE("groups that differ much in bytes, or more than a step fills, are on no ring") {
  const std::vector<Task> step = Interleaved(8, 0, 3, 64);
  CHECK_FALSE(FindBufferRings(PlayLifetimes(step, {64, 64, 64})).empty());
  CHECK(FindBufferRings(PlayLifetimes(step, {1024, 512, 64})).empty());
  CHECK(FindBufferRings(PlayLifetimes(Interleaved(8, 0, 3, 8), {64, 64, 64})).empty());
}

TEST_CASE("whatever the order, nobody on a ring meets any other, and bytes are saved") {
  std::mt19937 random(5);
  int64_t found = 0, slots = 0, buffers = 0;
  for (int i = 0; i < 300; ++i) {
    const int chunks = 2 + i % 5;
    std::vector<int64_t> bytes(chunks);
    for (int64_t& b : bytes) b = 64 * static_cast<int64_t>(4 + random() % 4);
    const StageLifetimes stage = PlayLifetimes(RandomStep(random, chunks, 40), bytes);
    for (const BufferRing& ring : FindBufferRings(stage)) {
      int64_t alone = 0, most = 0;
      for (const RingGroup& group : ring.groups) {
        const Lifetime& life = stage.registers[group.lives[0]];
        alone += life.bytes(), slots += life.slots;
        most = std::max(most, life.slot_bytes);
        CHECK(life.slots <= ring.buffers);
        CHECK(group.first_buffer < ring.buffers);
      }
      CHECK(ring.buffers <= 40);
      CHECK(ring.buffers * most < alone);
      CheckApart(stage, ring);
      ++found, buffers += ring.buffers;
    }
  }
  CHECK(found > 30);
  CHECK(buffers < slots);
}

TEST_CASE("an assignment costs the least of all") {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const int n = 1 + i % 6;
    std::vector<std::vector<int64_t>> cost(n, std::vector<int64_t>(n));
    for (auto& row : cost) {
      for (int64_t& c : row) c = static_cast<int64_t>(random() % 20) - 3;
    }
    const auto sum = [&](const std::vector<int>& of) {
      int64_t total = 0;
      for (int row = 0; row < n; ++row) total += cost[row][of[row]];
      return total;
    };
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    int64_t least = sum(order);
    while (std::next_permutation(order.begin(), order.end())) least = std::min(least, sum(order));
    const std::vector<int> assigned = Assignment(cost);
    CHECK(std::is_permutation(assigned.begin(), assigned.end(), order.begin()));
    CHECK(sum(assigned) == least);
  }
}

}  // namespace oneflow
