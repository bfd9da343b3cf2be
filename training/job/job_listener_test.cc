#include "training/job/job_listener.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  return fd;
}

// Takes connections from a listener.
class Taker {
 public:
  void Put(int fd) {
    const std::lock_guard lock(mutex_);
    taken_.push_back(fd);
    changed_.notify_all();
  }
  int Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !taken_.empty(); });
    const int fd = taken_.front();
    taken_.pop_front();
    return fd;
  }
  size_t left() {
    const std::lock_guard lock(mutex_);
    return taken_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> taken_;
};

TEST_CASE("So many connections are open at once and no more; others wait until one is closed") {
  auto listener = JobListener::Open("127.0.0.1:0", 3);
  REQUIRE(listener.ok());
  CHECK(
      JobListener::Open("127.0.0.1:" + std::to_string((*listener)->port()), 3).status().message() ==
      "cannot listen at 127.0.0.1:" + std::to_string((*listener)->port()) +
          ": Address already in use");
  Taker taker;
  std::vector<int> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(Connect((*listener)->port()));
  (*listener)->Start([&](int, int fd) { taker.Put(fd); });
  std::deque<int> open;
  for (int i = 0; i < 3; ++i) open.push_back(taker.Take());
  for (int i = 3; i < 8; ++i) {
    CHECK(taker.left() == 0);
    close(open.front());
    open.pop_front();
    open.push_back(taker.Take());
  }
  CHECK(taker.left() == 0);
  (*listener)->Stop();
  for (const int fd : open) close(fd);
  for (const int fd : clients) close(fd);
}

TEST_CASE("Strangers may take a part of the descriptors") {
  CHECK(MostConnections(1000) > 1000);
  CHECK(MostConnections(1000) <= 1512);
}

TEST_CASE("All addresses are listened at by one socket") {
  auto listener = JobListener::Open("[::]:0", 1);
  REQUIRE(listener.ok());
  close(Connect((*listener)->port()));
  CHECK_FALSE(JobListener::Open("no-such-host.invalid:0", 1).ok());
}

}  // namespace
}  // namespace oneflow
