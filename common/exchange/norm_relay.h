// Passes on the norm of all gradients, of jobs that clip over several servers: each core tells the
// squares of its sums, and what every core is told is their sum in the order of the connections
// (server by server, core by core), so that all workers tell the same bits.
//
// Belongs to the Exchange's thread. Nothing allocates after it is made.
#pragma once

#include <cstddef>
#include <vector>

namespace phub::client {

class NormRelay {
 public:
  // At set-up, in order: a connection, and whether its core has chunks, and so a part to tell.
  void add(bool tells) {
    parts_.push_back(tells ? kNotHeard : kNone);
    if (tells) ++missing_;
    if (tells) ++tellers_;
  }
  bool tells(std::size_t connection) const { return parts_[connection] != kNone; }

  // False: the core has told it already, has none, or it is no sum of squares. An infinite one says
  // that something there is not finite.
  bool hear(std::size_t connection, double squares) {
    if (parts_[connection] != kNotHeard || !(squares >= 0.0)) return false;
    parts_[connection] = squares;
    --missing_;
    return true;
  }
  bool is_whole() const { return missing_ == 0; }
  // The next round's parts follow. REQUIRES: is_whole.
  double take_sum() {
    double sum = 0.0;
    for (double& part : parts_) {
      if (part == kNone) continue;
      sum += part;
      part = kNotHeard;
    }
    missing_ = tellers_;
    return sum;
  }

 private:
  static constexpr double kNotHeard = -1.0;
  static constexpr double kNone = -2.0;

  std::vector<double> parts_;  // by connection
  std::size_t tellers_ = 0;
  std::size_t missing_ = 0;
};

}  // namespace phub::client
