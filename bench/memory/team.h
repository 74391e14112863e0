// Pinned threads that do one thing together, over and over, and sleep in between.
//
// Belongs to the thread that creates it, which is member 0 and gets pinned to the first CPU.
#pragma once

#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/status.h"

namespace phub::bench {

// Floats in a cache line: what members share out begins at one.
inline constexpr std::uint64_t kLine = 16;

class Team {
 public:
  // Error: kInvalidArgument when the machine has not a CPU for each thread.
  static Result<std::unique_ptr<Team>> create(unsigned threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls work(member) on every member; returns when the last has returned.
  void run(const std::function<void(unsigned)>& work);
  // Inside `work`: returns when all members have come here.
  void meet() { all_.arrive_and_wait(); }

  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }

 private:
  explicit Team(unsigned threads) : all_(threads) {}

  const std::function<void(unsigned)>* work_ = nullptr;  // null when all have come: stop
  std::barrier<> all_;
  std::vector<std::jthread> threads_;
};

}  // namespace phub::bench
