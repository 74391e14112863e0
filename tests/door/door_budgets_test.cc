#include "server/door/door_budgets.h"

#include <catch2/catch.hpp>
#include <string>

namespace phub::server {
namespace {

using namespace std::chrono_literals;
using Clock = DoorBudgets::Clock;

constexpr Clock::time_point kStart{};

// Comes so often, and fails whenever it is let in; how often it was.
int storm(DoorBudgets& budgets, const std::string& address, int times, Clock::time_point now) {
  int heard = 0;
  for (int i = 0; i < times; ++i) {
    if (!budgets.admits(address, now)) continue;
    budgets.charge(address, kSpokenCost, now);
    ++heard;
  }
  return heard;
}

TEST_CASE("An address that fails spends its own budget, and another comes in at once") {
  DoorBudgets budgets(kStart);
  CHECK(storm(budgets, "a", 10'000, kStart) == 500);
  CHECK_FALSE(budgets.admits("a", kStart));
  CHECK(budgets.admits("b", kStart));
  CHECK(storm(budgets, "a", 10'000, kStart + 1s) == 250);
}

TEST_CASE("A proof gives its address the whole budget again, and no other one") {
  DoorBudgets budgets(kStart);
  storm(budgets, "a", 10'000, kStart);
  storm(budgets, "b", 10'000, kStart);
  budgets.prove("a", kStart);
  budgets.prove("never seen", kStart);
  CHECK(budgets.admits("a", kStart));
  CHECK_FALSE(budgets.admits("b", kStart));
}

TEST_CASE("When many addresses fail, those that have hardly failed come in, the others do not") {
  DoorBudgets budgets(kStart);
  budgets.charge("late once", kSpokenCost, kStart);
  for (int i = 0; i < 6; ++i) storm(budgets, "flood " + std::to_string(i), 251, kStart);
  CHECK_FALSE(budgets.admits("flood 0", kStart));
  CHECK(budgets.admits("late once", kStart));
  CHECK(budgets.admits("new", kStart));
  CHECK(budgets.admits("flood 0", kStart + 2s));
}

TEST_CASE("A flood from ever new addresses puts all in doubt, for half a second at most") {
  DoorBudgets budgets(kStart);
  for (int i = 0; i < 10'000; ++i) budgets.charge(std::to_string(i), kSpokenCost, kStart);
  CHECK_FALSE(budgets.admits("new", kStart));
  CHECK(budgets.admits("new", kStart + 501ms));
  CHECK(budgets.addresses() == 4096);
}

TEST_CASE(
    "An address that proves and fails by turns spends its part of what all have, and no more") {
  DoorBudgets budgets(kStart);
  for (int i = 0; i < 100; ++i) {
    storm(budgets, "a", 10'000, kStart);
    budgets.prove("a", kStart);
  }
  storm(budgets, "b", 249, kStart);
  CHECK(budgets.admits("b", kStart));
  CHECK(budgets.admits("new", kStart));
}

TEST_CASE("An address that is heard in doubt and fails costs the others nothing") {
  DoorBudgets budgets(kStart);
  for (int i = 0; i < 10'000; ++i) budgets.charge("a", kSpokenCost, kStart);
  CHECK_FALSE(budgets.admits("a", kStart));
  CHECK(budgets.admits("new", kStart));
}

}  // namespace
}  // namespace phub::server
