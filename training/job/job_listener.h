// JobListener: accepts the connections of the coordinator's port, so many and no more: strangers
// who connect and say nothing must not take the descriptors that a run needs for its own files.
//
//   ASSIGN_OR_RETURN(auto listener, JobListener::Open("127.0.0.1:0", MostConnections(processes)));
//   listener->Start([&](int listening, int fd) { ... the connection is the callee's ... });
//
// Connections above the limit wait in the kernel's queue until others are closed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

// Connections that are open at once: those of the processes, and of strangers at most a quarter of
// the descriptors that this process may have.
int MostConnections(int processes);

class JobListener {
 public:
  using OnConnection = std::function<void(int listening_fd, int fd)>;

  // `address`: HOST:PORT; port 0 means any. UNAVAILABLE if it is taken.
  static absl::StatusOr<std::unique_ptr<JobListener>> Open(const std::string& address, int most);
  ~JobListener();
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;

  int port() const { return port_; }
  // Called once. `on_connection` is called by a thread of the listener's; it takes the descriptor.
  void Start(OnConnection on_connection);
  // From now on `on_connection` is not called, and nothing listens.
  void Stop();

 private:
  struct Connection {
    int fd;
    ino_t socket;  // that it was: the number of a closed descriptor is given again
  };

  JobListener(int fd, int port, int most);
  void Accept(const std::stop_token& stop, const OnConnection& on_connection);
  bool IsFull();

  int fd_;
  int stop_fd_ = -1;
  const int port_, most_;
  std::vector<Connection> open_;  // by the thread
  std::jthread thread_;
};

}  // namespace oneflow
