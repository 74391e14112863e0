// A member's answers have the room that they were given, whatever else the member sends.
#include "worker/data/spread/requests.h"

#include <catch2/catch.hpp>

#include "common/base/check.h"

namespace phub::data {
namespace {

using Outcome = PeerAnswer::Outcome;

constexpr std::uint32_t kOne = 1;                         // of two members
constexpr std::chrono::steady_clock::time_point kSoon{};  // nothing is waited for

std::uint32_t begin(Requests& requests, std::uint32_t member = kOne) {
  PeerAnswer refused;
  const auto number = requests.begin(member, 7, kSoon, refused);
  PHUB_CHECK(number.has_value(), refused.why);
  return *number;
}

TEST_CASE("An answer that has begun gets no other room, whichever of the two kinds comes second") {
  Requests requests(3, 1, {.largest_bytes = 100, .content_number = 9});
  const std::uint32_t number = begin(requests);
  const bool is_refused_first = GENERATE(true, false);
  if (is_refused_first) {
    REQUIRE(requests.refusal_room(kOne, number, 1) != nullptr);
  } else {
    REQUIRE(requests.room(kOne, number, 100, 0) != nullptr);
  }
  CHECK(requests.room(kOne, number, 100, 0) == nullptr);
  CHECK(requests.refusal_room(kOne, number, 1) == nullptr);
  requests.arrived(kOne, number);
  std::vector<std::uint8_t> buffer;
  const auto answer = requests.wait(number, kSoon, buffer);
  REQUIRE(answer);
  CHECK(answer->outcome == (is_refused_first ? Outcome::kNotHeld : Outcome::kBytes));
  // The slot is that of a new request, whose answer has not begun.
  CHECK(requests.room(kOne, begin(requests), 100, 0) != nullptr);
}

TEST_CASE(
    "A request that was answered before it was sent is not sent as the next one of its slot") {
  Requests requests(3, 1, {.largest_bytes = 100, .content_number = 9});
  const std::uint32_t first = begin(requests);
  REQUIRE(requests.request(kOne, first));
  CHECK_FALSE(requests.request(2, first));
  REQUIRE(requests.refusal_room(kOne, first, 1) != nullptr);
  requests.arrived(kOne, first);
  std::vector<std::uint8_t> buffer;
  REQUIRE(requests.wait(first, kSoon, buffer));
  const std::uint32_t second = begin(requests, 2);
  CHECK_FALSE(requests.request(kOne, first));
  const auto sent = requests.request(2, second);
  REQUIRE(sent);
  CHECK((sent->sample == 7 && sent->largest_bytes == 100 && sent->content_number == 9));
}

TEST_CASE("An answer that arrives twice does not end the next request of its slot") {
  Requests requests(3, 1, {.largest_bytes = 100, .content_number = 9});
  const std::uint32_t first = begin(requests);
  REQUIRE(requests.refusal_room(kOne, first, 1) != nullptr);
  requests.arrived(kOne, first);
  requests.arrived(kOne, first);  // while the answer waits to be taken
  std::vector<std::uint8_t> buffer;
  REQUIRE(requests.wait(first, kSoon, buffer));
  requests.arrived(kOne, first);  // while the slot is free
  const std::uint32_t second = begin(requests, 2);
  requests.arrived(kOne, first);
  CHECK_FALSE(requests.wait(second, kSoon, buffer));
}

}  // namespace
}  // namespace phub::data
