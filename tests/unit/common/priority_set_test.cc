#include "common/protocol/priority_set.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace phub {
namespace {

TEST_CASE("a new priority set is empty and contains nothing") {
  const PrioritySet set(100);
  CHECK(set.empty());
  CHECK(set.size() == 0);
  CHECK(set.capacity() == 100);
  for (std::uint32_t value = 0; value < 100; ++value) CHECK_FALSE(set.contains(value));
}

TEST_CASE("inserting twice changes nothing and says so") {
  PrioritySet set(4097);
  CHECK(set.insert(4096));
  CHECK_FALSE(set.insert(4096));
  CHECK(set.size() == 1);
  CHECK(set.min() == 4096);
  CHECK(set.pop_min() == 4096);
  CHECK(set.empty());
}

TEST_CASE("values come out of a priority set in ascending order") {
  const std::uint32_t capacity = GENERATE(1U, 2U, 63U, 64U, 65U, 4095U, 4096U, 4097U, 262145U);
  PrioritySet set(capacity);
  for (std::uint32_t value = capacity; value-- > 0;) set.insert(value);
  bool ascending = true;
  for (std::uint32_t value = 0; value < capacity; ++value) ascending &= set.pop_min() == value;
  CHECK(ascending);
  CHECK(set.empty());
}

TEST_CASE("a priority set agrees with std::set under random operations") {
  const std::uint32_t capacity = GENERATE(1U, 64U, 100U, 4096U, 5000U, 300000U);
  std::mt19937 random(capacity);
  PrioritySet set(capacity);
  std::set<std::uint32_t> model;
  bool agrees = true;
  for (int step = 0; step < 20000 && agrees; ++step) {
    const auto value = static_cast<std::uint32_t>(random() % capacity);
    switch (random() % 4) {
      case 0:
      case 1:
        agrees = set.insert(value) == model.insert(value).second;
        break;
      case 2:
        agrees = set.contains(value) == (model.count(value) == 1);
        break;
      default:
        if (!model.empty()) {
          agrees = set.pop_min() == *model.begin();
          model.erase(model.begin());
        }
    }
    agrees = agrees && set.size() == model.size() && set.empty() == model.empty() &&
             set.contains(value) == model.contains(value) &&
             (model.empty() || set.min() == *model.begin());
  }
  CHECK(agrees);
}

}  // namespace
}  // namespace phub
