// What those who fail at a door may cost: each address by itself, and all together.
//
// An address that fails spends its own budget; who comes from it then must show a member's mark at
// once, until time, or a proof from there, has given some back. All failures spend the budget
// of all. When half of that is gone, addresses that have hardly failed still come in; only a flood
// from more addresses than are known apart spends the rest, and makes everybody wait.
//
// The door's one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/token_bucket.h"

namespace phub::server {

// What a failure costs: one that never said a word, and one that had to be read and answered.
inline constexpr double kSilentCost = 1;
inline constexpr double kSpokenCost = 4;

class DoorBudgets {
 public:
  using Clock = TokenBucket::Clock;

  explicit DoorBudgets(Clock::time_point now);

  // Whether who comes from `address` is to be heard, whoever it is.
  bool admits(std::string_view address, Clock::time_point now);
  void charge(std::string_view address, double cost, Clock::time_point now);
  // Somebody there has proven who it is: the address has its whole budget again.
  void prove(std::string_view address);
  // How long nobody at all is to be accepted.
  Clock::duration wait(Clock::time_point now) { return all_.wait(now); }

  std::size_t addresses() const { return found_.size(); }

 private:
  struct Own {
    std::string address;
    TokenBucket budget;
  };
  using Recent = std::list<Own>;

  Recent recent_;  // those that have failed; who failed last comes first
  std::unordered_map<std::string_view, Recent::iterator> found_;
  TokenBucket all_;
};

}  // namespace phub::server
