// HttpServer: answers GET and HEAD over HTTP/1.1 with texts from memory, beside a training that it
// must not disturb.
//
//   ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress("--serve", "8080"));
//   ASSIGN_OR_RETURN(auto server, HttpServer::Bind("--serve", address));
//   RETURN_IF_ERROR(server->Start([](const std::string& path) { return HttpReply{...}; }));
//
// It has no TLS, no users, no request bodies and no files, and ends a connection after one reply.
//
// Invariants:
//  1. Each of its threads, at a low priority, has one connection at a time: what kConnections
//     clients do not leave free waits in the kernel.
//  2. A connection reads at most kRequestBytes within kRequestTime, and ends after kReplyTime. When
//     the server ends, it waits for no client.
//  3. It answers only to a Host that MayAsk accepts. A page of another site that lets its own name
//     lead to this address (DNS rebinding) says that name, and reads nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

struct ListenAddress {
  std::string host;  // an address, or a name of this host
  int port = 0;      // 0: any
};
// Of "[HOST:]PORT", HOST an IPv6 address in brackets or without colons; loopback where there is
// none. `flag`: for an input error.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& flag, const std::string& text);

// True if a request whose header Host is `asked`, with or without a port, may be answered by a
// server that listens at `host`: it names loopback or `host`, or is any address, and no name, where
// `host` is all addresses (0.0.0.0 or ::).
bool MayAsk(const std::string& asked, const std::string& host);

struct HttpReply {
  std::string type;                         // "application/json"
  std::shared_ptr<const std::string> text;  // null: there is nothing at that path
};

class HttpServer {
 public:
  static constexpr int kConnections = 4;
  static constexpr size_t kRequestBytes = size_t{16} << 10;
  static constexpr std::chrono::seconds kRequestTime{5}, kReplyTime{30};

  // Any thread, several at once. `path`: without a query.
  using Answer = std::function<HttpReply(const std::string& path)>;

  // Takes the port, so that clients may connect; they wait until Start. Starts no thread. An input
  // error if it is taken, not this user's to take, or HOST is not of this host.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Bind(const std::string& flag,
                                                          const ListenAddress& address);
  // Ends its threads.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string Url() const;  // "http://127.0.0.1:8080/"
  // Once.
  absl::Status Start(Answer answer);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
