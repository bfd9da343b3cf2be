#include "actor_runtime/transport/mailbox.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace oneflow {
namespace {

Message Numbered(uint32_t sender, uint64_t sequence) {
  Message message;
  message.port = sender;
  message.sequence = sequence;
  return message;
}

TEST_CASE("a mailbox gives messages in order, around its end many times") {
  Mailbox box(3);
  Message message;
  CHECK_FALSE(box.Pop(&message));
  uint64_t due = 0;
  for (uint64_t i = 0; i < 100; i += 3) {
    for (uint64_t k = 0; k < 3; ++k) box.Push(Numbered(1, i + k));
    CHECK(box.HasMail());
    while (box.Pop(&message)) CHECK(message == Numbered(1, due++));
  }
  CHECK(due == 102);
  CHECK_FALSE(box.HasMail());
}

TEST_CASE("a mailbox that overflows stops the process, however small it is") {
  const pid_t child = fork();
  if (child == 0) {
    std::fclose(stderr);
    Mailbox box(1);
    for (uint64_t i = 0; i < 3; ++i) box.Push(Numbered(1, i));
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_FALSE(WIFEXITED(status));
}

TEST_CASE("an empty mailbox of capacity 0 is valid and can be woken") {
  Mailbox box(0);
  Message message;
  CHECK_FALSE(box.Pop(&message));
  const uint32_t ticket = box.PrepareToPark();
  box.Wake();
  box.Park(ticket);  // returns: the wake came after the ticket
  CHECK_FALSE(box.HasMail());
}

// Each sender has `window` credits, given back by the owner, so the capacity is just enough.
TEST_CASE("many senders with credits, an owner that parks: nothing is lost, doubled or reordered") {
  constexpr int kSenders = 3, kWindow = 2;
  constexpr uint32_t kMessages = 5000;
  Mailbox box(kSenders * kWindow);
  std::vector<std::atomic<uint32_t>> read(kSenders);
  std::vector<std::thread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      for (uint32_t i = 0; i < kMessages; ++i) {
        for (uint32_t seen = read[s].load(); i >= seen + kWindow; seen = read[s].load()) {
          read[s].wait(seen);
        }
        box.Push(Numbered(s, i));
      }
    });
  }
  uint32_t total = 0;
  bool in_order = true;
  while (total < kSenders * kMessages) {
    Message message;
    while (box.Pop(&message)) {
      in_order &= message.sequence == read[message.port].load();
      read[message.port].fetch_add(1);
      read[message.port].notify_one();
      ++total;
    }
    const uint32_t ticket = box.PrepareToPark();
    if (box.HasMail() || total == kSenders * kMessages) {
      box.StayAwake();
    } else {
      box.Park(ticket);
    }
  }
  for (std::thread& sender : senders) sender.join();
  CHECK(in_order);
  CHECK(total == kSenders * kMessages);
}

}  // namespace
}  // namespace oneflow
