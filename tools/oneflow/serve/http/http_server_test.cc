#include "tools/oneflow/serve/http/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

TEST_CASE("an address is a port, and a host before it") {
  const auto parse = [](const std::string& text) {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress("--serve", text);
    return address.ok() ? absl::StrCat(address->host, " ", address->port)
                        : std::string(address.status().message());
  };
  CHECK(parse("8080") == "127.0.0.1 8080");
  CHECK(parse("0") == "127.0.0.1 0");
  CHECK(parse("host:80") == "host 80");
  CHECK(parse("[::1]:0") == "::1 0");
  CHECK(parse("8080x") ==
        "--serve=8080x: is not [HOST:]PORT; give a port up to 65535, 0 for any: "
        "8080, 0.0.0.0:8080, [::1]:8080");
  for (const char* bad : {"*:80", "", ":", ":80", "host", "host:", "65536", "-1", "::1:80", "[::1]",
                          "[h]:80", "http://host:80", "a b:80"}) {
    INFO(bad);
    CHECK(absl::StrContains(parse(bad), "is not [HOST:]PORT"));
  }
}

TEST_CASE("a request says by which name it asks") {
  for (const char* asked :
       {"localhost", "LocalHost:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:1", "[::1]"}) {
    INFO(asked);
    CHECK(MayAsk(asked, "127.0.0.1"));
  }
  for (const char* asked : {"", ":", "[", "evil.example", "localhost.evil.example:8080",
                            "127.0.0.1.evil.example", "127.evil", "10.0.0.1", "[fe80::1]:80"}) {
    INFO(asked);
    CHECK_FALSE(MayAsk(asked, "127.0.0.1"));
  }
  CHECK(MayAsk("Node1:80", "node1"));
  CHECK_FALSE(MayAsk("node2", "node1"));
  for (const char* all : {"0.0.0.0", "::"}) {
    CHECK(MayAsk("10.0.0.1:80", all));
    CHECK(MayAsk("[fe80::1]:80", all));
    CHECK_FALSE(MayAsk("evil.example", all));
  }
}

int PortIn(const std::string& url) { return std::stoi(url.substr(url.rfind(':') + 1)); }

// A connection to loopback.
int Connect(int port) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  return client;
}

// All that comes after the request, until the server closes.
std::string Ask(int port, const std::string& request) {
  const int client = Connect(port);
  size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = send(client, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // it has read enough
    sent += static_cast<size_t>(n);
  }
  std::string reply;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(client, buffer, sizeof(buffer), 0)) > 0;) reply.append(buffer, n);
  close(client);
  return reply;
}

TEST_CASE("it answers requests within its limits", "[sanitize][threads]") {
  auto server = *HttpServer::Bind("--serve", {"127.0.0.1", 0});
  const int port = PortIn(server->Url());
  CHECK(server->Url() == absl::StrCat("http://127.0.0.1:", port, "/"));
  const auto taken = HttpServer::Bind("--serve", {"127.0.0.1", port});
  CHECK(taken.status().message() == absl::StrCat("--serve=127.0.0.1:", port,
                                                 ": another program has this port; give another "
                                                 "one, or 0 for any that is free"));
  CHECK(ExitCode(HttpServer::Bind("--serve", {"192.0.2.1", 0}).status()) == 2);

  const auto text = std::make_shared<const std::string>(1 << 20, 'x');
  REQUIRE(server
              ->Start([&](const std::string& path) {
                return HttpReply{"text/html", path == "/page" ? text : nullptr};
              })
              .ok());
  const std::string host = "Host: localhost\r\n";
  const std::string page =
      Ask(port, "GET /page?a=b HTTP/1.1\r\n" + host +
                    "Accept-Encoding: br, gzip\r\nRange: bytes=0-1,0-1\r\n\r\n");
  CHECK(page.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(page.ends_with("\r\n\r\n" + *text));
  CHECK(absl::StrContains(page, "Content-Length: 1048576\r\n"));
  CHECK(absl::StrContains(page, "Content-Type: text/html\r\n"));
  CHECK(absl::StrContains(page, "X-Content-Type-Options: nosniff\r\n"));
  CHECK(absl::StrContains(page, "Connection: close\r\n"));
  const std::string head = Ask(port, "HEAD /page HTTP/1.1\r\n" + host + "\r\n");
  CHECK(head.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(head.ends_with("\r\n\r\n"));

  const auto status = [&](const std::string& request) { return Ask(port, request).substr(0, 12); };
  CHECK(status("GET /other HTTP/1.1\r\n" + host + "\r\n") == "HTTP/1.1 404");
  CHECK(status("GET /../page HTTP/1.1\r\n" + host + "\r\n") == "HTTP/1.1 404");
  CHECK(status("GET /page HTTP/1.1\r\nHost: evil.example\r\n\r\n") == "HTTP/1.1 403");
  CHECK(status("GET /page HTTP/1.1\r\n" + host + host + "\r\n") == "HTTP/1.1 403");
  CHECK(status("GET /page HTTP/1.0\r\n\r\n") == "HTTP/1.1 403");
  const std::string post = Ask(port, "POST /page HTTP/1.1\r\n" + host +
                                         "Content-Length: 20000\r\n\r\n" + std::string(20000, 'b'));
  CHECK(post.starts_with("HTTP/1.1 405"));
  CHECK(absl::StrContains(post, "Allow: GET, HEAD\r\n"));
  CHECK(status("BREW /page HTTP/1.1\r\n" + host + "\r\n") == "HTTP/1.1 400");
  CHECK(status("GET /page\r\n\r\n") == "HTTP/1.1 400");
  // A header of many lines, one of one line, and a line that does not end.
  std::string many = "GET /page HTTP/1.1\r\n" + host;
  for (int line = 0; line < 3000; ++line) absl::StrAppend(&many, "X-", line, ": value\r\n");
  CHECK(status(many + "\r\n") == "HTTP/1.1 400");
  CHECK(status("GET /page HTTP/1.1\r\nX: " + std::string(60000, 'x') + "\r\n\r\n") ==
        "HTTP/1.1 400");
  CHECK(status("GET /" + std::string(60000, 'x')) == "HTTP/1.1 414");
  // httplib reads ranges by a recursive regular expression.
  std::string ranges = "0-1";
  while (ranges.size() < 8100) ranges += ",0-1";
  CHECK(status("GET /page HTTP/1.1\r\n" + host + "Range: bytes=" + ranges + "\r\n\r\n") ==
        "HTTP/1.1 200");

  SECTION("clients that say nothing neither keep others waiting for ever nor hold its end up") {
    int silent[HttpServer::kConnections];
    for (int& client : silent) client = Connect(port);
    server.reset();
    for (const int client : silent) close(client);
  }
}

}  // namespace
}  // namespace oneflow
