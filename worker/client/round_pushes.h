// Which keys a worker has pushed in the round that it is going to vote on.
//
// Belongs to the Client's thread.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/client/phub.h"

namespace phub::client {

class RoundPushes {
 public:
  void begin(std::size_t keys) {
    pushed_.assign(keys, false);
    missing_ = keys;
  }
  void push(KeyId key) {
    if (!pushed_[key]) --missing_;
    pushed_[key] = true;
  }
  std::size_t missing() const { return missing_; }
  bool any() const { return missing_ < pushed_.size(); }

 private:
  std::vector<bool> pushed_;  // by key
  std::size_t missing_ = 0;
};

}  // namespace phub::client
