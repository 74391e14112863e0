// The norm of all gradients of a job on several servers, as one core finds it.
//
// When a core has all its sums of a round it asks: it tells each worker the sum of their squares,
// in the order of its slots. A worker that has heard all cores tells each of them the sum of what
// it heard, in the order of the plan's cores (common/exchange/norm_relay.h). All workers must tell
// the same bits, so who tells another number is found. Its core's thread only; nothing grows.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

enum class NormOutcome {
  kAccepted,
  kKnown,    // the last word: all are equal
  kUnasked,  // the job does not ask, or not now
  kMalformed,
  kDuplicate,
  kDifferent,  // the last word, and `odd_one` tells another number than most
  kStopped
};

class NormWords {
 public:
  // `line`: where workers' replies may have it, sizeof(double) bytes; outlives this. `landing`:
  // where a worker has a place for it, in bytes from its parameters on.
  NormWords(std::uint32_t workers, std::size_t chunks, std::byte* line, std::uint64_t landing)
      : squares_(chunks), words_(workers), told_(1, workers), line_(line), landing_(landing) {}

  // What is told to each worker, and where it lands.
  std::span<const std::byte> line() const { return {line_, sizeof(own_)}; }
  std::uint64_t landing() const { return landing_; }
  // Whether `line` is to be told to all workers, since this was asked last.
  bool take_question() { return std::exchange(asks_, false); }

  void set(std::uint32_t slot, double squares) { squares_[slot] = squares; }
  // All are set: `line` is their sum. Infinite: something is not finite.
  void ask() {
    own_ = 0.0;
    for (const double squares : squares_) own_ += squares;
    if (!std::isfinite(own_)) own_ = std::numeric_limits<double>::infinity();
    std::memcpy(line_, &own_, sizeof(own_));
    is_asked_ = true;
    asks_ = true;
  }

  // REQUIRES: a worker's number.
  NormOutcome add(std::uint32_t worker, double squares) {
    if (!is_asked_ || is_known()) return NormOutcome::kUnasked;
    if (!(squares >= own_))
      return NormOutcome::kMalformed;  // its part is ours, and none is below 0
    if (!told_.insert(0, worker)) return NormOutcome::kDuplicate;
    words_[worker] = squares;
    if (++count_ < words_.size()) return NormOutcome::kAccepted;
    return odd_one() == words_.size() ? NormOutcome::kKnown : NormOutcome::kDifferent;
  }
  bool is_known() const { return count_ == words_.size(); }
  // REQUIRES: is_known.
  double sum() const { return words_.front(); }
  // The first worker whose word is not what most say; where no number is said by most, not worker
  // 0's. The number of workers: there is none. REQUIRES: is_known.
  std::uint32_t odd_one() const {
    double candidate = words_.front();
    std::size_t lead = 0;  // of it: Boyer and Moore's
    for (const double word : words_) {
      if (lead == 0) candidate = word;
      word == candidate ? ++lead : --lead;
    }
    std::size_t count = 0;
    for (const double word : words_) count += word == candidate ? 1 : 0;
    if (2 * count <= words_.size()) candidate = words_.front();
    std::uint32_t worker = 0;
    while (worker < words_.size() && words_[worker] == candidate) ++worker;
    return worker;
  }
  // The round is over.
  void end() {
    is_asked_ = false;
    count_ = 0;
    told_.clear(0);
  }

 private:
  std::vector<double> squares_;  // by slot
  std::vector<double> words_;    // by worker
  WorkerSets told_;              // one set: who has
  std::size_t count_ = 0;        // of words
  std::byte* const line_;
  const std::uint64_t landing_;
  double own_ = 0.0;       // what was told
  bool is_asked_ = false;  // of this round
  bool asks_ = false;      // and nobody has taken the question yet
};

}  // namespace phub::server
