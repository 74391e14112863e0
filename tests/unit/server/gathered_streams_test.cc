// Streams that wait for the others of their worker: none too many, none twice, and nobody's waiting
// keeps the next one from the seat.
#include "server/plane/gathered_streams.h"

#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>

#include "tests/support/transports/endpoint_pair.h"

namespace phub::server {
namespace {

using Catch::Matchers::Contains;

struct Gathering {
  GatheredStreams streams;
  std::vector<UniqueFd> peers = {};  // the workers' ends, in the order in which they came

  Result<std::vector<ArrivedStream>> add(std::uint32_t index, std::uint8_t member = 1,
                                         std::size_t place = 0) {
    auto [own, servers] = transport::stream_pair();
    peers.push_back(std::move(own));
    return streams.add(place, {.index = index, .secret = {member}, .socket = std::move(servers)},
                       /*streams=*/3);
  }
  bool is_closed(std::size_t peer) const {
    std::byte byte{};
    return ::recv(peers[peer].get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
};

}  // namespace

TEST_CASE("the last stream brings all, by index, in whatever order they came") {
  for (const auto& order :
       {std::array{0U, 1U, 2U}, std::array{2U, 0U, 1U}, std::array{1U, 2U, 0U}}) {
    Gathering gathering;
    CHECK(gathering.add(order[0])->empty());
    CHECK(gathering.add(order[1])->empty());
    const auto all = gathering.add(order[2]);
    REQUIRE(all);
    REQUIRE(all->size() == 3);
    for (std::uint32_t i = 0; i < 3; ++i) CHECK((*all)[i].index == i);
    for (std::size_t peer = 0; peer < 3; ++peer) CHECK_FALSE(gathering.is_closed(peer));
  }
}

TEST_CASE("a stream that there is not, or is there, is refused with the figures and closed") {
  Gathering gathering;
  const auto wrong = gathering.add(3);
  CHECK(wrong.error().code() == Code::kInvalidArgument);
  CHECK_THAT(wrong.error().message(),
             Contains("stream 3") && Contains("has 3 to a core") && Contains("tcp_streams"));
  CHECK(gathering.is_closed(0));
  REQUIRE(gathering.add(1));
  const auto twice = gathering.add(1);
  CHECK(twice.error().code() == Code::kAlreadyExists);
  CHECK_THAT(twice.error().message(), Contains("stream 1 is there already"));
  CHECK_FALSE(gathering.is_closed(1));
  CHECK(gathering.is_closed(2));
  REQUIRE(gathering.add(0)->empty());
  CHECK(gathering.add(2)->size() == 3);
}

TEST_CASE("places are apart, and what waits goes with a member that is followed by another") {
  Gathering gathering;
  REQUIRE(gathering.add(0, 1, 7)->empty());
  REQUIRE(gathering.add(1, 1, 7)->empty());
  REQUIRE(gathering.add(0, 2, 8)->empty());
  REQUIRE(gathering.add(2, 9, 7)->empty());  // the seat is another member's now
  CHECK(gathering.is_closed(0));
  CHECK(gathering.is_closed(1));
  CHECK_FALSE(gathering.is_closed(2));
  REQUIRE(gathering.add(0, 9, 7)->empty());
  CHECK(gathering.add(1, 9, 7)->size() == 3);
  gathering.streams.forget(8);
  CHECK(gathering.is_closed(2));
  REQUIRE(gathering.add(0, 2, 8)->empty());
  CHECK_FALSE(gathering.is_closed(6));
  gathering.streams.clear();
  CHECK(gathering.is_closed(6));
}

}  // namespace phub::server
