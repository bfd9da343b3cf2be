#include "training/trainer/standstill.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;
using Stalls = std::vector<proto::ProcessStall>;

Stalls Standing(int processes) {
  Stalls stalls(processes);
  for (int p = 0; p < processes; ++p) {
    stalls[p].set_process(p);
    stalls[p].set_host(std::string(1, static_cast<char>('a' + p)));
    stalls[p].set_stands_still(true);
  }
  return stalls;
}

// A worker of `rank` (-1: the host's) that waits for others.
proto::WorkerStall* Add(proto::ProcessStall* stall, int rank, const std::vector<int>& waits_for) {
  proto::WorkerStall* worker = stall->add_worker();
  worker->set_rank(rank);
  worker->set_at(absl::StrCat("rank ", rank, " waits"));
  worker->set_idle_seconds(3);
  for (const int other : waits_for) worker->add_waits_for(other);
  return worker;
}

void PutEntered(proto::WorkerStall* worker, const std::string& exchange,
                const std::vector<int>& missing) {
  proto::WorkerStall::Entered* entered = worker->add_entered();
  entered->set_exchange(exchange);
  for (const int rank : missing) entered->add_missing(rank);
}

void PutInside(proto::WorkerStall* worker, const std::string& kernel, double seconds) {
  worker->set_inside(kernel);
  worker->set_idle_seconds(seconds);
}

TEST_CASE("the one inside a kernel is named, and how many wait for it, by way of others, too") {
  Stalls stalls = Standing(4);  // of two ranks each
  for (int rank = 0; rank < 8; ++rank) {
    proto::ProcessStall* process = &stalls[rank / 2];
    if (rank == 5) {
      PutInside(Add(process, rank, {}), "h.3.fc", 41.2);
    } else {
      Add(process, rank, {rank == 7 ? 0 : rank == 4 ? 5 : rank < 4 ? 4 : 5});
    }
  }
  CHECK(DescribeStandstill(stalls, 8) ==
        "rank 5 on host c is inside the kernel of h.3.fc since 41 s; 7 ranks wait for it");
}

TEST_CASE("the host's worker of a process may be the one") {
  Stalls stalls = Standing(2);
  Add(&stalls[0], 0, {1});
  Add(&stalls[1], 1, {-1});
  PutInside(Add(&stalls[1], -1, {}), "save", 70);
  CHECK(DescribeStandstill(stalls, 2) ==
        "the host's worker of process 1 on host b is inside the kernel of save since 70 s; 2 ranks "
        "wait for it");
}

TEST_CASE("a rank with several workers waits unless one of them waits for nobody") {
  Stalls stalls = Standing(2);  // of a rank each, with a worker that copies
  Add(&stalls[0], 0, {0, 1});
  proto::WorkerStall* copies = Add(&stalls[0], 0, {0});
  proto::WorkerStall* device = Add(&stalls[1], 1, {1});
  Add(&stalls[1], 1, {1});
  CHECK(DescribeStandstill(stalls, 2) ==
        "rank 1 on host b is at rest (rank 1 waits); 1 rank waits for it");
  PutInside(copies, "x.out", 9);
  device->add_waits_for(0);
  CHECK(DescribeStandstill(stalls, 2) ==
        "rank 0 on host a is inside the kernel of x.out since 9 s; 1 rank waits for it");
}

TEST_CASE("of a process that says nothing the rank is named that others wait for") {
  Stalls stalls = Standing(2);
  stalls[1].Clear();
  Add(&stalls[0], 0, {3});
  Add(&stalls[0], 1, {0});
  CHECK(DescribeStandstill(stalls, 4) ==
        "rank 3 of process 1 has not said what it is at; 2 ranks wait for it");
}

TEST_CASE("who could go on and does not is named") {
  Stalls stalls = Standing(2);
  Add(&stalls[0], 0, {1});
  Add(&stalls[1], 1, {0})->set_may_go_on(true);
  CHECK(DescribeStandstill(stalls, 2) ==
        "rank 1 on host b could go on, and has not for 3 s (rank 1 waits); 1 rank waits for it");
}

TEST_CASE("workers that wait for each other are reported as a cycle") {
  Stalls stalls = Standing(3);
  Add(&stalls[0], 0, {1});
  Add(&stalls[1], 1, {2});
  Add(&stalls[2], 2, {1});
  CHECK(DescribeStandstill(stalls, 3) ==
        "they wait for each other in a circle: rank 1 on host b (rank 1 waits), which waits for "
        "rank 2 on host c (rank 2 waits), which waits for the first");
}

TEST_CASE("members that have all entered, and do not know it, are no cycle: messages are lost") {
  Stalls stalls = Standing(4);
  PutEntered(Add(&stalls[0], 0, {1}), "actor a at rank 0, firing 7", {1});
  PutEntered(Add(&stalls[1], 1, {3}), "actor b at rank 1, firing 5", {3});
  PutEntered(Add(&stalls[2], 2, {3}), "actor x at rank 2, firing 5", {3});
  PutEntered(Add(&stalls[3], 3, {2}), "actor x at rank 2, firing 5", {2});
  CHECK(DescribeStandstill(stalls, 4) ==
        "messages from rank 3 on host d do not arrive at rank 2 on host c: both have entered the "
        "exchange of actor x at rank 2, firing 5");
  // At different firings they do wait for each other.
  stalls[2].mutable_worker(0)->mutable_entered(0)->set_exchange("actor x at rank 2, firing 4");
  CHECK_THAT(DescribeStandstill(stalls, 4), Catch::StartsWith("they wait for each other"));
}

TEST_CASE("a process announces itself when all its members have entered: before, nothing is lost") {
  Stalls stalls = Standing(2);  // of two ranks each
  for (const int rank : {0, 1}) {
    PutEntered(Add(&stalls[0], rank, {2, 3}), "actor x at rank 0, firing 5", {2, 3});
  }
  PutEntered(Add(&stalls[1], 2, {3}), "actor x at rank 0, firing 5", {3});
  PutInside(Add(&stalls[1], 3, {}), "k", 9);
  CHECK(DescribeStandstill(stalls, 4) ==
        "rank 3 on host b is inside the kernel of k since 9 s; 3 ranks wait for it");
  stalls[1].mutable_worker(1)->clear_inside();
  PutEntered(stalls[1].mutable_worker(1), "actor x at rank 0, firing 5", {});
  CHECK(DescribeStandstill(stalls, 4) ==
        "messages from rank 2 on host b and 1 more do not arrive at rank 0 on host a: all have "
        "entered the exchange of actor x at rank 0, firing 5");
}

TEST_CASE("a member that is over with an exchange has sent all that others wait for there") {
  Stalls stalls = Standing(2);
  proto::WorkerStall* behind = Add(&stalls[0], 0, {1});
  PutEntered(behind, "actor x at rank 0, firing 5", {});
  behind->mutable_entered(0)->add_far(1);
  proto::WorkerStall* ahead = Add(&stalls[1], 1, {0});
  PutEntered(ahead, "actor x at rank 0, firing 6", {0});
  CHECK(DescribeStandstill(stalls, 2) ==
        "messages from rank 1 on host b do not arrive at rank 0 on host a: both have entered the "
        "exchange of actor x at rank 0, firing 5");
  PutInside(ahead, "k", 9);  // It may have said nothing of its exchanges.
  ahead->clear_entered();
  CHECK_THAT(DescribeStandstill(stalls, 2), Contains("is inside the kernel of k"));
}

TEST_CASE("members that know of each other that they have entered wait for pieces") {
  Stalls stalls = Standing(2);
  PutEntered(Add(&stalls[0], 0, {1}), "actor x at rank 0, firing 5", {});
  PutEntered(Add(&stalls[1], 1, {0}), "actor x at rank 0, firing 5", {});
  CHECK(DescribeStandstill(stalls, 2) ==
        "rank 0 on host a and rank 1 on host b have entered the exchange of actor x at rank 0, "
        "firing 5, and its messages do not arrive");
}

TEST_CASE("what does not belong changes nothing") {
  Stalls stalls = Standing(2);
  Add(&stalls[0], 0, {1, 77, -5});
  Add(&stalls[0], 1, {0});  // of the other process
  Add(&stalls[0], 99, {0});
  PutInside(Add(&stalls[1], 1, {}), "k", 1);
  CHECK(DescribeStandstill(stalls, 2) ==
        "rank 1 on host b is inside the kernel of k since 1 s; 1 rank waits for it");
}

// Every rank waits for some of lower number in a drawn order; the first of the order is stuck.
TEST_CASE("in drawn graphs the root of all waits is found") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    const int processes = 1 + static_cast<int>(random() % 6);
    const int ranks = processes * (1 + static_cast<int>(random() % 4));
    std::vector<int> order(ranks);
    for (int r = 0; r < ranks; ++r) order[r] = r;
    std::shuffle(order.begin(), order.end(), random);
    Stalls stalls = Standing(processes);
    for (int i = 0; i < ranks; ++i) {
      proto::ProcessStall* process = &stalls[order[i] / (ranks / processes)];
      if (i == 0) {
        PutInside(Add(process, order[0], {}), "stuck", 9);
        continue;
      }
      std::vector<int> waits;
      for (uint64_t n = 1 + random() % 3; n > 0; --n) waits.push_back(order[random() % i]);
      Add(process, order[i], waits);
    }
    INFO("seed " << seed);
    CHECK(DescribeStandstill(stalls, ranks) ==
          absl::StrCat("rank ", order[0], " on host ",
                       stalls[order[0] / (ranks / processes)].host(),
                       " is inside the kernel of stuck since 9 s; ", ranks - 1,
                       ranks == 2 ? " rank waits" : " ranks wait", " for it"));
  }
}

TEST_CASE("the board tells once all stand still, or after its patience, and again when more do") {
  Stalls stalls = Standing(3);
  Add(&stalls[0], 0, {2});
  Add(&stalls[1], 1, {2});
  PutInside(Add(&stalls[2], 2, {}), "k", 5);
  StandstillBoard board(3, 3);
  board.Put(10, stalls[0]);
  CHECK(board.any());
  CHECK_FALSE(board.Look(10).has_value());
  CHECK_FALSE(board.Look(14.9).has_value());
  CHECK_THAT(board.Look(15).value(), Contains("rank 2 of process 2 has not said what it is at"));
  CHECK_FALSE(board.Look(16).has_value());
  board.Put(16, stalls[1]);
  CHECK_FALSE(board.Look(30).has_value());
  board.Put(30, stalls[2]);
  CHECK_THAT(board.Look(30).value(), Contains("rank 2 on host c is inside the kernel of k"));
  CHECK_FALSE(board.Look(60).has_value());
  for (int p = 0; p < 3; ++p) {
    proto::ProcessStall goes_on;
    goes_on.set_process(p);
    board.Put(61, goes_on);
  }
  CHECK_FALSE(board.any());
  CHECK_FALSE(board.Look(100).has_value());
  for (int p = 0; p < 3; ++p) board.Put(100, stalls[p]);
  CHECK(board.Look(100).has_value());
  stalls[0].set_process(7);
  board.Put(101, stalls[0]);
}

}  // namespace
}  // namespace oneflow
