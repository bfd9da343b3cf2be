#include "training/job/job_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr int kMostStrangers = 512;
// Between two looks whether a connection has been closed.
constexpr int kWaitMilliseconds = 50;

// The socket behind a descriptor; nothing if it is closed.
std::optional<ino_t> FindSocket(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0 || !S_ISSOCK(facts.st_mode)) return std::nullopt;
  return facts.st_ino;
}

// A socket that listens at the address; below 0: it does not, and errno says why.
int Listen(const addrinfo& at) {
  const int fd = socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fd;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // the connections inherit it
  if (at.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd, at.ai_addr, at.ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int FindPort(int fd) {
  sockaddr_storage own = {};
  socklen_t bytes = sizeof(own);
  PCHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) == 0);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

}  // namespace

int MostConnections(int processes) {
  rlimit descriptors = {};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  const auto most = std::min<rlim_t>(kMostStrangers, descriptors.rlim_cur / 4);
  return processes + static_cast<int>(most);
}

absl::StatusOr<std::unique_ptr<JobListener>> JobListener::Open(const std::string& address,
                                                               int most) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  // If there is no IPv6, all addresses are those of IPv4.
  const std::vector<std::string> hosts =
      host == "::" ? std::vector<std::string>{host, "0.0.0.0"} : std::vector<std::string>{host};
  std::string why = "no port";
  for (const std::string& one : hosts) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    const int found = getaddrinfo(one.c_str(), address.c_str() + colon + 1, &hints, &list);
    if (found != 0) {
      why = gai_strerror(found);
      continue;
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
      const int fd = Listen(*at);
      if (fd >= 0) return std::unique_ptr<JobListener>(new JobListener(fd, FindPort(fd), most));
      why = std::strerror(errno);
      if (errno == EADDRINUSE) break;
    }
    if (why == std::strerror(EADDRINUSE)) break;
  }
  return absl::UnavailableError(absl::StrCat("cannot listen at ", address, ": ", why));
}

JobListener::JobListener(int fd, int port, int most)
    : fd_(fd), stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), port_(port), most_(most) {
  PCHECK(stop_fd_ >= 0);
}

JobListener::~JobListener() {
  Stop();
  close(stop_fd_);
}

void JobListener::Start(OnConnection on_connection) {
  thread_ = std::jthread([this, on_connection = std::move(on_connection)](
                             const std::stop_token& stop) { Accept(stop, on_connection); });
}

void JobListener::Stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    const uint64_t one = 1;
    PCHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

bool JobListener::IsFull() {
  if (std::ssize(open_) < most_) return false;
  std::erase_if(open_, [](const Connection& one) { return FindSocket(one.fd) != one.socket; });
  return std::ssize(open_) >= most_;
}

void JobListener::Accept(const std::stop_token& stop, const OnConnection& on_connection) {
  while (!stop.stop_requested()) {
    const bool waits = IsFull();
    pollfd fds[] = {{stop_fd_, POLLIN, 0}, {fd_, POLLIN, 0}};
    if (poll(fds, waits ? 1 : 2, waits ? kWaitMilliseconds : -1) <= 0 || fds[1].revents == 0) {
      continue;
    }
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Descriptors or memory are short, now; a connection that has gone again is no matter.
      if (errno != EAGAIN && errno != ECONNABORTED) poll(fds, 1, kWaitMilliseconds);
      continue;
    }
    open_.push_back({fd, FindSocket(fd).value_or(0)});
    on_connection(fd_, fd);
  }
}

}  // namespace oneflow
