// The value of a result that a test needs; without it the test ends, with the reason.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace phub::testing {

inline void require(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

template <typename T>
T require(Result<T> result) {
  INFO((result ? std::string() : result.error().message()));
  REQUIRE(result);
  return std::move(*result);
}

}  // namespace phub::testing
