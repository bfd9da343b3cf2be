#include "actor_runtime/exchange/communicator_suite.h"

#include <atomic>
#include <semaphore>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

const char* const kKinds[] = {"all_gather", "reduce_scatter", "all_reduce",
                              "all_to_all", "send",           "mixed"};

}  // namespace

void Play(SceneForTest* scene, std::mt19937_64* random,
          const std::function<void(int event)>& before_event) {
  const int members = static_cast<int>(scene->members.size());
  std::vector<char> awake(members, 1);
  scene->group->SetWake([&](int member) { awake[member] = 1; });
  for (int event = 0;; ++event) {
    if (before_event) before_event(event);
    std::vector<int> choices;
    for (int m = 0; m < members; ++m) {
      if (awake[m] != 0 && !scene->members[m].over()) choices.push_back(m);
    }
    const size_t all = choices.size() + scene->group->UnderWay();
    if (all == 0) break;
    const size_t choice = (*random)() % all;
    if (choice >= choices.size()) {
      scene->group->Deliver((*random)());
      continue;
    }
    const int m = choices[choice];
    awake[m] = 0;
    if (scene->members[m].Step(nullptr)) awake[m] = 1;
  }
}

std::vector<ExchangeCase> RandomCases(int members, int count, std::mt19937_64* random) {
  std::vector<ExchangeCase> cases;
  for (int i = 0; i < count; ++i) {
    const std::string kind = kKinds[(*random)() % std::size(kKinds)];
    cases.push_back(RandomCase(kind == "send" && members != 2 ? "mixed" : kind, members, random));
  }
  return cases;
}

namespace {

TEST_CASE("each kind of exchange gives every member its slice, summed in rank order") {
  for (const MakerForTest& maker : CommunicatorMakers()) {
    for (const std::string kind : kKinds) {
      for (const int members : {2, 3, 4, 8}) {
        if (kind == "send" && members != 2) continue;
        for (uint64_t seed = 0; seed < 8; ++seed) {
          std::mt19937_64 random(seed);
          SceneForTest scene(maker, {RandomCase(kind, members, &random)}, &random);
          INFO(maker.name << ", seed " << seed << ": " << Describe(scene.cases[0]));
          Play(&scene, &random);
          for (const MemberForTest& member : scene.members) {
            REQUIRE(member.over());
            REQUIRE(member.wrong() == 0);
            REQUIRE(member.Untouched());
          }
        }
      }
    }
  }
}

TEST_CASE("many exchanges in a row, of different kinds: who is over early may enter the next") {
  for (const MakerForTest& maker : CommunicatorMakers()) {
    for (uint64_t seed = 0; seed < 24; ++seed) {
      std::mt19937_64 random(seed);
      const int members = std::vector{2, 3, 4, 8}[seed % 4];
      SceneForTest scene(maker, RandomCases(members, 12, &random), &random);
      INFO(maker.name << ", seed " << seed);
      Play(&scene, &random);
      for (const MemberForTest& member : scene.members) {
        REQUIRE(member.exchange() == scene.cases.size());
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
        REQUIRE(member.allocated() == 0);
      }
    }
  }
}

TEST_CASE("nothing is over before all have entered, and HasEntered says who has") {
  for (const MakerForTest& maker : CommunicatorMakers()) {
    for (int missing = 0; missing < 3; ++missing) {
      std::mt19937_64 random(missing);
      SceneForTest scene(maker, {RandomCase("all_gather", 3, &random)}, &random);
      for (int round = 0; round < 10; ++round) {
        for (int m = 0; m < 3; ++m) {
          if (m != missing) scene.members[m].Step(nullptr);
        }
        while (scene.group->UnderWay() > 0) scene.group->Deliver(random());
      }
      INFO(maker.name);
      for (int m = 0; m < 3; ++m) {
        if (m == missing) continue;
        CHECK(scene.members[m].exchange() == 0);
        CHECK_FALSE(scene.members[m].CanProgress());
        CHECK_FALSE(scene.group->FindCommunicator(m).HasEntered(missing, m));
        // A process reports that it has entered when all of its members have.
        const int other = 3 - m - missing;
        const GroupForTest& group = *scene.group;
        CHECK(scene.group->FindCommunicator(m).HasEntered(other, m) ==
              (group.Together(other, m) || !group.Together(other, missing)));
      }
      Play(&scene, &random);
      CHECK(scene.members[missing].over());
    }
  }
}

TEST_CASE("an abort at any moment fails all members, those that enter later, too") {
  for (const MakerForTest& maker : CommunicatorMakers()) {
    for (uint64_t seed = 0; seed < 150; ++seed) {
      std::mt19937_64 random(seed);
      const int members = 2 + static_cast<int>(seed % 3);
      SceneForTest scene(maker, RandomCases(members, 4, &random), &random);
      const int at = static_cast<int>(random() % 40), by = static_cast<int>(random() % members);
      Play(&scene, &random, [&](int event) {
        if (event < at) return;
        // One abort is enough; a second one changes nothing.
        scene.group->FindCommunicator(by).Abort(event == at ? absl::DataLossError("as asked")
                                                            : absl::InternalError("too late"));
      });
      INFO(maker.name << ", seed " << seed << ", at event " << at);
      for (int m = 0; m < members; ++m) {
        const MemberForTest& member = scene.members[m];
        REQUIRE(member.over());
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
        if (!member.failed()) continue;
        REQUIRE_FALSE(scene.group->FindCommunicator(m).status().ok());
      }
      CHECK((scene.group->FindCommunicator(by).status().ok() ||
             scene.group->FindCommunicator(by).status().code() == absl::StatusCode::kDataLoss));
    }
  }
}

// Runs all members on threads, and one more thread that delivers messages. Returns when all are
// over.
void LiveTogether(SceneForTest* scene, uint64_t seed, int abort_by = -1) {
  const int members = static_cast<int>(scene->members.size());
  std::vector<std::unique_ptr<std::binary_semaphore>> wakes;
  std::vector<std::unique_ptr<std::atomic<bool>>> asked;
  for (int m = 0; m < members; ++m) {
    wakes.push_back(std::make_unique<std::binary_semaphore>(0));
    asked.push_back(std::make_unique<std::atomic<bool>>(false));
  }
  // A binary semaphore must not be released twice.
  scene->group->SetWake([&](int member) {
    if (!asked[member]->exchange(true)) wakes[member]->release();
  });
  std::atomic<int> living = members;
  std::vector<std::thread> threads;
  for (int m = 0; m < members; ++m) {
    threads.emplace_back([&, m] {
      MemberForTest& member = scene->members[m];
      ThreadPool pool(1 + m % 2);
      while (!member.over()) {
        if (member.Step(&pool) || member.over()) continue;
        wakes[m]->acquire();
        asked[m]->store(false);
        // The others are in the middle of it.
        if (m == abort_by) scene->group->FindCommunicator(m).Abort(absl::AbortedError("as asked"));
      }
      --living;
    });
  }
  std::mt19937_64 random(seed);
  while (living > 0) {
    if (scene->group->UnderWay() > 0) {
      scene->group->Deliver(random());
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("members on threads with separate pools lose no wake-up and no bit") {
  for (const MakerForTest& maker : CommunicatorMakers()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::mt19937_64 random(seed);
      SceneForTest scene(maker, RandomCases(2 + static_cast<int>(seed % 3), 10, &random), &random);
      LiveTogether(&scene, seed);
      INFO(maker.name << ", seed " << seed);
      for (const MemberForTest& member : scene.members) {
        REQUIRE(member.exchange() == scene.cases.size());
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
      }
    }
  }
}

TEST_CASE("a member that aborts ends the others on their threads") {
  for (const MakerForTest& maker : CommunicatorMakers()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::mt19937_64 random(seed);
      const int members = 2 + static_cast<int>(seed % 3);
      SceneForTest scene(maker, RandomCases(members, 6, &random), &random);
      LiveTogether(&scene, seed, static_cast<int>(seed % members));
      INFO(maker.name << ", seed " << seed);
      for (const MemberForTest& member : scene.members) {
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
