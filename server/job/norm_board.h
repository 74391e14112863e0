// What the cores of a server tell each other of a job whose gradients are clipped by their global
// norm: the squares of each chunk's sum, round by round.
//
// All cores add up the same numbers in the plan's order, so all find the same norm, whichever has
// which chunks. A core writes its own chunks and then its own line. There are two places for each:
// a core that has posted round r + 2 has seen all post round r + 1, which each does only after it
// has read round r.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/plan/plan.h"

namespace phub::server {

class NormBoard {
 public:
  // Of this server's part of a plan.
  NormBoard(const Plan& plan, std::uint32_t server)
      : squares_{std::vector<double>(plan.chunks.size()), std::vector<double>(plan.chunks.size())},
        lines_(plan.core_chunks[server].size()) {
    for (std::size_t core = 0; core < lines_.size(); ++core) {
      lines_[core].has_chunks = !plan.core_chunks[server][core].empty();
    }
  }
  // At set-up: what ends the sleep of cores.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  // ---- a core's thread ----
  // Of one of its chunks, by the chunk's number in the plan.
  void set(std::uint64_t round, std::uint32_t chunk, double squares) {
    squares_[round % 2][chunk] = squares;
  }
  // All of its chunks are set. Wakes the cores if it is the last: of two that post at once one sees
  // the other, for these are sequentially consistent.
  void post(std::uint64_t round, std::uint32_t core) {
    lines_[core].posted[round % 2].store(round, std::memory_order_seq_cst);
    if (wake_ && is_whole(round)) wake_();
  }
  // Whether all cores have posted the round.
  bool is_whole(std::uint64_t round) const {
    for (const Line& line : lines_) {
      const auto& posted = line.posted[round % 2];
      if (line.has_chunks && posted.load(std::memory_order_seq_cst) != round) return false;
    }
    return true;
  }
  // REQUIRES: is_whole. Rounds of gradients count from 1.
  double sum(std::uint64_t round) const {
    double sum = 0.0;
    for (const double squares : squares_[round % 2]) sum += squares;
    return sum;
  }

 private:
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, 2> posted = {};  // the last round of each place
    bool has_chunks = false;
  };

  std::array<std::vector<double>, 2> squares_;  // by chunk
  std::vector<Line> lines_;                     // by core
  std::function<void()> wake_;
};

}  // namespace phub::server
