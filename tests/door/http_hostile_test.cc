// The HTTP server and its peers: those that read, those that break the protocol, those that only
// take up room. Each loses its own connection and nothing else.
#include <atomic>
#include <list>

#include "server/http/http_server.h"
#include "tests/support/hang_guard.h"
#include "tests/support/http_peer.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using server::HttpOptions;
using server::HttpReply;
using server::HttpRequest;
using server::HttpServer;
using std::chrono::milliseconds;
using namespace std::string_literals;

HttpReply echo(const HttpRequest& request) {
  return {.status = 200, .body = "target " + std::string(request.target) + "\n"};
}

std::unique_ptr<HttpServer> serve(milliseconds deadline = kHangGuard,
                                  std::size_t connections_max = 64) {
  auto server = HttpServer::create(
      {.address = "127.0.0.1:0", .connections_max = connections_max, .deadline = deadline}, echo);
  REQUIRE(server);
  return std::move(*server);
}

void check_serves(const HttpServer& server) {
  const HttpPeer reader(server.address());
  REQUIRE(reader.send("GET /still HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK_THAT(reader.read_until("/still"), StartsWith("HTTP/1.1 200"));
}

// A reset may overtake the reply, as the server reads no more than it needs.
void check_refused(const HttpServer& server, const std::string& request, const char* status) {
  INFO(request.substr(0, 60));
  const HttpPeer peer(server.address());
  peer.send(request);
  const std::string reply = peer.read_to_end();
  if (!reply.empty()) CHECK_THAT(reply, StartsWith(std::string("HTTP/1.1 ") + status));
}

}  // namespace

TEST_CASE("a reader asks again on one connection, and HEAD gets a head alone") {
  const auto server = serve();
  const HttpPeer peer(server->address());
  REQUIRE(peer.send("GET /one HTTP/1.1\r\nHost: x\r\n\r\n"));
  const std::string first = peer.read_until("target /one\n");
  CHECK_THAT(first, StartsWith("HTTP/1.1 200") && Contains("default-src 'self'") &&
                        Contains("nosniff") && Contains("no-store"));
  REQUIRE(peer.send("HEAD /two HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  const std::string second = peer.read_to_end();
  CHECK_THAT(second, Contains("Content-Length: 12") && !Contains("target /two"));
}

TEST_CASE("what is not a GET without a body is refused by its own status") {
  const auto server = serve();
  check_refused(*server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405");
  check_refused(*server, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde", "413");
  check_refused(*server,
                "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
                "413");
  // What follows a coding that is not known is no second request.
  for (const std::string coding : {"xchunked", "identity", "chunked, gzip", "\tchunked"}) {
    check_refused(*server,
                  "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + coding +
                      "\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n",
                  "413");
  }
  check_serves(*server);
}

TEST_CASE("a reader without a token is asked for one") {
  auto server = HttpServer::create({.address = "127.0.0.1:0"}, [](const HttpRequest& request) {
    return HttpReply{.status = request.authorization == "Bearer right" ? 200U : 401U};
  });
  REQUIRE(server);
  const HttpPeer peer((*server)->address());
  REQUIRE(peer.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK_THAT(peer.read_until("\r\n\r\n"),
             StartsWith("HTTP/1.1 401") && Contains("WWW-Authenticate: Bearer"));
  REQUIRE(peer.send("GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n\r\n"));
  CHECK_THAT(peer.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_CASE("garbage ends its own connection") {
  const auto server = serve();
  check_refused(*server, std::string(64, '\0'), "400");
  check_refused(*server, "\x16\x03\x01\x02 a TLS greeting, for example\r\n\r\n", "400");
  check_refused(*server, "GET / HTTP/9.9\r\n\r\n", "400");
  check_refused(*server, "GET /\r\nno colon\r\n\r\n", "400");
  check_refused(*server, "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400");
  check_refused(*server, "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n"s, "400");
  check_serves(*server);
}

TEST_CASE("a head that is too long is refused before it ends") {
  const auto server = serve();
  check_refused(*server, "GET /" + std::string(1 << 20, 'a'), "431");
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 5000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  check_refused(*server, many, "431");
  check_serves(*server);
}

TEST_CASE("a peer that sends a byte now and then is cut off by one deadline for the whole head") {
  const auto server = serve(milliseconds(150));
  const HttpPeer slow(server->address());
  REQUIRE(slow.send("GET / HTTP/1.1\r\nX: "));
  // Far more of them than the deadline has room for, and too few for a head that is too long.
  for (int bytes = 0; !slow.is_answered_within(milliseconds(10)); ++bytes) {
    REQUIRE(bytes < 5000);
    slow.send("y");
  }
  CHECK(slow.read_to_end().empty());
  check_serves(*server);
}

TEST_CASE("silent connections give way to a reader when all are taken") {
  const auto server = serve(std::chrono::hours(1), 8);
  std::list<HttpPeer> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(server->address());
  check_serves(*server);
  silent.clear();
  check_serves(*server);
}

TEST_CASE("a peer that does not read its reply holds up nobody") {
  auto server = HttpServer::create(
      {.address = "127.0.0.1:0", .deadline = std::chrono::hours(1)},
      [](const HttpRequest& request) {
        const bool is_long = request.target == "/long";
        return HttpReply{.status = 200, .body = is_long ? std::string(64U << 20U, 'a') : "/still"};
      });
  REQUIRE(server);
  const HttpPeer deaf((*server)->address());
  REQUIRE(deaf.send("GET /long HTTP/1.1\r\nHost: x\r\n\r\n"));
  check_serves(**server);
}

TEST_CASE("the server ends at once, whoever is connected") {
  auto server = serve(std::chrono::hours(1));  // the test would hang
  const HttpPeer silent(server->address());
  const HttpPeer halfway(server->address());
  REQUIRE(halfway.send("GET / HT"));
  server.reset();
  CHECK(silent.read_to_end().empty());
}

TEST_CASE("an address that cannot be served is refused with the field and the cure") {
  const auto server = serve();
  const auto message = [](const HttpOptions& options) {
    const auto refused = HttpServer::create(options, echo);
    REQUIRE_FALSE(refused);
    return refused.error().message();
  };
  CHECK_THAT(message({.address = server->address()}),
             Contains("http_address") && Contains("in use"));
  CHECK_THAT(message({.address = "nonsense"}), Contains("has no port"));
  CHECK_THAT(message({.address = "rack7:80"}), Contains("not an IP address"));
  CHECK_THAT(message({.address = "203.0.113.1:0", .allow_plaintext = true}),
             Contains("address of this host"));
  CHECK_THAT(message({.address = "0.0.0.0:0"}), Contains("http_allow_plaintext"));
  CHECK(HttpServer::create({.address = "0.0.0.0:0", .allow_plaintext = true}, echo));
  CHECK_THAT(message({.address = "127.0.0.1:0", .certificate_file = "/none", .key_file = "/none"}),
             Contains("certificate_file"));
}

}  // namespace phub::testing
