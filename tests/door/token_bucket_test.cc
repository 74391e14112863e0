#include "server/process/token_bucket.h"

#include <catch2/catch.hpp>

namespace phub::server {
namespace {

using namespace std::chrono_literals;
using Clock = TokenBucket::Clock;

TEST_CASE("A bucket lets a burst through, then one act after the other") {
  const Clock::time_point start{};
  TokenBucket bucket(10, 3, start);
  for (int i = 0; i < 3; ++i) {
    CHECK(bucket.wait(start) == 0s);
    bucket.take(start);
  }
  CHECK(bucket.wait(start) == 100ms);
  CHECK(bucket.wait(start + 60ms) == 40ms);
  CHECK(bucket.wait(start + 100ms) == 0s);
}

TEST_CASE("A bucket does not fill beyond its burst") {
  const Clock::time_point start{};
  TokenBucket bucket(10, 2, start);
  const Clock::time_point later = start + 1h;
  bucket.take(later);
  bucket.take(later);
  CHECK(bucket.wait(later) > 0s);
}

TEST_CASE("Acts that nobody could hold back are a debt") {
  const Clock::time_point start{};
  TokenBucket bucket(10, 1, start);
  for (int i = 0; i < 6; ++i) bucket.take(start);
  CHECK(bucket.wait(start) == 600ms);
}

TEST_CASE("A debt has a bound where one is given") {
  const Clock::time_point start{};
  TokenBucket bucket(10, 1, start, 4);
  bucket.take(start, 1000);
  CHECK(bucket.wait(start) == 500ms);
}

TEST_CASE("A clock that stands still or goes back adds nothing") {
  const Clock::time_point start{1h};
  TokenBucket bucket(10, 1, start);
  bucket.take(start);
  CHECK(bucket.wait(start - 1min) == 100ms);
}

}  // namespace
}  // namespace phub::server
