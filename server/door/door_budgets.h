// What those who fail at a door may cost: each address by itself, and all together.
//
// An address that fails spends its own budget; who comes from it is in doubt then until time, or a
// proof from there, has given some back. It also spends what all addresses have together, but of
// that only its share, which no proof gives back: a member may prove and fail by turns. When half
// of what all have is gone, addresses that have hardly failed still come in; only a flood from many
// addresses spends the rest, and puts everybody in doubt.
//
// The door's one thread.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/process/token_bucket.h"

namespace phub::server {

// What a failure costs: one that never said a word, and one that had to be read and answered.
inline constexpr double kSilentCost = 1;
inline constexpr double kSpokenCost = 4;

class DoorBudgets {
 public:
  using Clock = TokenBucket::Clock;

  explicit DoorBudgets(Clock::time_point now);

  // Whether who comes from `address` is to be heard, whoever it is; else it is in doubt.
  bool admits(std::string_view address, Clock::time_point now);
  void charge(std::string_view address, double cost, Clock::time_point now);
  // Somebody there has proven who it is: the address has its whole budget again.
  void prove(std::string_view address, Clock::time_point now);

  std::size_t addresses() const { return found_.size(); }

 private:
  struct Own {
    std::string address;
    TokenBucket budget;
    TokenBucket share;  // of what all have
  };
  using Recent = std::list<Own>;

  static TokenBucket fresh(Clock::time_point now);

  Recent recent_;  // those that have failed; who failed last comes first
  std::unordered_map<std::string_view, Recent::iterator> found_;
  TokenBucket all_;
};

}  // namespace phub::server
