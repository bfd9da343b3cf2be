#include "tools/oneflow/serve/http/http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

// As Debian's library was compiled: types of the header differ by it.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/device/host_limits.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kLoopbackAddress[] = "127.0.0.1";
constexpr int kNice = 10;

bool IsAddress(const std::string& host) {
  std::array<uint8_t, 16> bytes = {};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// Without the port, and an IPv6 address without its brackets.
std::string WithoutPort(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

// One connection, as httplib reads and writes it: the head of one request, and the reply, within
// the limits of http_server.h, and only until `ended`, a file descriptor, becomes readable. Closes
// its socket.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, int ended) : socket_(socket), ended_(ended) {
    const auto deadline = Clock::now() + HttpServer::kRequestTime;
    while (!absl::StrContains(head_, "\r\n\r\n") && head_.size() < HttpServer::kRequestBytes &&
           Receive(deadline)) {
      head_.append(buffer_.data(), received_);
    }
    // Replies are sent as they are, all of them: compressing takes the processor's time. httplib
    // reads Range by a recursive regular expression, and a long one would exhaust the stack.
    for (const char* header : {"\nrange:", "\naccept-encoding:"}) {
      const auto is_equal = [](char a, char b) { return absl::ascii_tolower(a) == b; };
      const std::string name = header;
      for (auto at = head_.begin(); (at = std::search(at, head_.end(), name.begin(), name.end(),
                                                      is_equal)) != head_.end();) {
        *++at = '-';
      }
    }
  }
  ~Connection() override {
    // Bytes that were not read would make the kernel drop the reply.
    shutdown(socket_, SHUT_WR);
    const auto deadline = std::min(end_, Clock::now() + std::chrono::seconds(1));
    for (size_t read = 0; read < 4 * HttpServer::kRequestBytes && Receive(deadline);) {
      read += received_;
    }
    close(socket_);
  }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    const size_t n = head_.copy(to, size, next_);
    next_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) override {
    while (Await(POLLOUT, end_)) {
      const ssize_t n = send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0 || (errno != EAGAIN && errno != EINTR)) return n;
    }
    return -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // httplib compares it with the limit of select(), which is not used here.
  socket_t socket() const override { return 0; }

 private:
  // What is ready is taken, however late: on a busy machine this thread has no processor for long.
  bool Await(int16_t events, Clock::time_point deadline) const {
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      std::array<pollfd, 2> ready = {{{socket_, events, 0}, {ended_, POLLIN, 0}}};
      const int n = poll(ready.data(), ready.size(), static_cast<int>(std::max<int64_t>(left, 0)));
      if (n < 0 && errno == EINTR) continue;
      return n > 0 && ready[1].revents == 0;
    }
  }
  bool Receive(Clock::time_point deadline) {
    if (!Await(POLLIN, deadline)) return false;
    const ssize_t n = recv(socket_, buffer_.data(), buffer_.size(), 0);
    received_ = static_cast<size_t>(std::max<ssize_t>(n, 0));
    return n > 0;
  }

  const int socket_, ended_;
  const Clock::time_point end_ = Clock::now() + HttpServer::kReplyTime;
  std::array<char, 4096> buffer_;
  size_t received_ = 0;  // in buffer_
  std::string head_;
  size_t next_ = 0;  // of head_, for httplib
};

}  // namespace

// httplib parses a request and writes the reply. Its own threads have other limits, so they are not
// used.
class HttpServer::Impl final : private httplib::Server {
 public:
  explicit Impl(ListenAddress address) : address_(std::move(address)) {
    // Not SO_REUSEPORT, which is httplib's default: two runs would share the port.
    set_socket_options([](int socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_default_headers({{"Cache-Control", "no-store"},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Content-Security-Policy",
                          "default-src 'none'; script-src 'unsafe-inline'; style-src "
                          "'unsafe-inline'; img-src data:; connect-src 'self'; frame-ancestors "
                          "'none'"}});
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Route(request, &response);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      response.set_content("the request is malformed, or longer than 16 KiB\n", "text/plain");
    });
  }

  ~Impl() override {
    if (svr_sock_ == INVALID_SOCKET) return;
    const uint64_t one = 1;
    if (ended_ >= 0) (void)!::write(ended_, &one, sizeof(one));
    shutdown(svr_sock_, SHUT_RDWR);  // wakes accept
    threads_.clear();
    close(svr_sock_);
    if (ended_ >= 0) close(ended_);
  }

  absl::Status Listen(const std::string& flag) {
    const std::string where = absl::StrCat(flag, "=", address_.host, ":", address_.port);
    errno = 0;
    if (address_.port == 0) {
      address_.port = bind_to_any_port(address_.host);
      if (address_.port > 0) return absl::OkStatus();
    } else if (bind_to_port(address_.host, address_.port)) {
      return absl::OkStatus();
    }
    switch (errno) {
      case EADDRINUSE:
        return InputError(where, "another program has this port",
                          "give another one, or 0 for any that is free");
      case EACCES:
        return InputError(where, "this user may not take this port", "give one above 1023");
      default:
        return InputError(where, absl::StrCat("cannot listen at ", address_.host),
                          "give an address of this host, or leave HOST out to serve on loopback");
    }
  }

  std::string Url() const {
    const bool is_ipv6 = absl::StrContains(address_.host, ':');
    return absl::StrCat("http://", is_ipv6 ? "[" : "", address_.host, is_ipv6 ? "]" : "", ":",
                        address_.port, "/");
  }

  absl::Status Start(Answer answer) {
    RETURN_IF_ERROR(CheckThreads(kConnections));
    answer_ = std::move(answer);
    ended_ = eventfd(0, EFD_CLOEXEC);
    if (ended_ < 0) return absl::UnavailableError(std::string("eventfd: ") + strerror(errno));
    for (int t = 0; t < kConnections; ++t) threads_.emplace_back([this] { Serve(); });
    return absl::OkStatus();
  }

 private:
  void Serve() {
    setpriority(PRIO_PROCESS, 0, kNice);  // on Linux, of this thread
    for (;;) {
      const int socket = accept4(svr_sock_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) {
        // Descriptors may be had later.
        pollfd ended = {ended_, POLLIN, 0};
        if (poll(&ended, 1, errno == EMFILE || errno == ENFILE ? 1000 : 0) > 0) return;
        continue;
      }
      try {
        Connection connection(socket, ended_);
        bool closed = false;
        process_request(connection, /*close_connection=*/true, closed, nullptr);
      } catch (const std::exception&) {  // out of memory, perhaps: the training goes on
      }
    }
  }

  void Route(const httplib::Request& request, httplib::Response* response) const {
    const auto refuse = [&](int status, const char* why) {
      response->status = status;
      response->set_content(why, "text/plain");
    };
    if (request.method != "GET" && request.method != "HEAD") {
      response->set_header("Allow", "GET, HEAD");
      return refuse(405, "only GET and HEAD are answered\n");
    }
    if (request.get_header_value_count("Host") != 1 ||
        !MayAsk(request.get_header_value("Host"), address_.host)) {
      return refuse(403, "ask by the address at which the run serves, or by localhost\n");
    }
    const HttpReply reply = answer_(request.path);
    if (reply.text == nullptr) return refuse(404, "there is nothing at this path\n");
    response->set_content(*reply.text, reply.type);
  }

  ListenAddress address_;
  Answer answer_;
  int ended_ = -1;
  std::vector<std::jthread> threads_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Bind(const std::string& flag,
                                                             const ListenAddress& address) {
  auto impl = std::make_unique<Impl>(address);
  RETURN_IF_ERROR(impl->Listen(flag));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::string HttpServer::Url() const { return impl_->Url(); }

absl::Status HttpServer::Start(Answer answer) { return impl_->Start(std::move(answer)); }

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& flag, const std::string& text) {
  ListenAddress address{.host = kLoopbackAddress};
  const size_t colon = text.rfind(':');
  const std::string port = text.substr(colon == text.npos ? 0 : colon + 1);
  std::string host = colon == text.npos ? "" : text.substr(0, colon);
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const bool is_host =
      colon == text.npos || (!host.empty() && host.find_first_of("[]/* ") == host.npos);
  const bool is_plain = has_brackets == absl::StrContains(host, ':');
  if (!is_host || !is_plain || !absl::SimpleAtoi(port, &address.port) || address.port < 0 ||
      address.port > 65535) {
    return InputError(absl::StrCat(flag, "=", text), "is not [HOST:]PORT",
                      "give a port up to 65535, 0 for any: 8080, 0.0.0.0:8080, [::1]:8080");
  }
  if (colon != text.npos) address.host = std::move(host);
  return address;
}

bool MayAsk(const std::string& asked, const std::string& host) {
  const std::string name = absl::AsciiStrToLower(WithoutPort(asked));
  if (name == "localhost" || name == absl::AsciiStrToLower(host)) return true;
  if (!IsAddress(name)) return false;
  return name == "::1" || name.starts_with("127.") || host == "0.0.0.0" || host == "::";
}

}  // namespace oneflow
