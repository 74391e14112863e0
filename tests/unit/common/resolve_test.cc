// A name that nobody resolves takes no longer than its deadline, and numbers take no look-up.
#include "common/connect/resolve.h"

#include <netinet/in.h>

#include <catch2/catch.hpp>
#include <future>

namespace phub::client {
namespace {

using Addresses = std::vector<SocketAddress>;
using Catch::Matchers::Contains;

constexpr std::chrono::milliseconds kLongEnough{60'000};
constexpr std::chrono::milliseconds kShort{20};

TEST_CASE("A number is not looked up") {
  const auto never = [](const std::string&, std::uint16_t) -> Result<Addresses> {
    return Status(Code::kInternal, "looked up");
  };
  const auto four = resolve("192.0.2.7", 7070, kShort, never);
  REQUIRE(four);
  REQUIRE(four->size() == 1);
  CHECK(four->front().family() == AF_INET);
  const auto* const own = reinterpret_cast<const sockaddr_in*>(four->front().get());
  CHECK(ntohs(own->sin_port) == 7070);
  CHECK(four->front().bytes == sizeof(sockaddr_in));
  const auto six = resolve("2001:db8::1", 1, kShort, never);
  REQUIRE(six);
  CHECK(six->front().family() == AF_INET6);
  const auto name = resolve("worker3", 1, kLongEnough, never);
  REQUIRE_FALSE(name);
  CHECK(name.error().message() == "looked up");
}

TEST_CASE("A name that is found has its addresses, and the system finds this host") {
  const auto found = resolve("worker3", 7, kLongEnough, [](const std::string& host, std::uint16_t) {
    return look_up_by_system(host == "worker3" ? "192.0.2.3" : "192.0.2.4", 7);
  });
  REQUIRE(found);
  const auto* const own = reinterpret_cast<const sockaddr_in*>(found->front().get());
  CHECK(own->sin_addr.s_addr == htonl(0xC0000203));
  CHECK(resolve("localhost", 7, kLongEnough));
}

TEST_CASE("A name server that does not answer is waited for until the deadline") {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  const auto silent = [ended](const std::string&, std::uint16_t) -> Result<Addresses> {
    ended.wait_for(kLongEnough);
    return Status(Code::kUnavailable, "nobody hears this");
  };
  const auto found = resolve("worker3", 7070, kShort, silent);
  end.set_value();
  REQUIRE_FALSE(found);
  CHECK(found.error().code() == Code::kDeadlineExceeded);
  CHECK_THAT(found.error().message(), Contains("worker3 port 7070") && Contains("in 20 ms"));
}

}  // namespace
}  // namespace phub::client
