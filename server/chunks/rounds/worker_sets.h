// Sets of a job's workers, one for each of so many things: a bit for each worker.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace phub::server {

class WorkerSets {
 public:
  WorkerSets() = default;
  WorkerSets(std::size_t sets, std::uint32_t workers)
      : words_((workers + 63) / 64), bits_(sets * words_) {}

  // False: it was there.
  bool insert(std::size_t set, std::uint32_t worker) {
    std::uint64_t& word = bits_[set * words_ + worker / 64];
    const std::uint64_t bit = std::uint64_t{1} << (worker % 64);
    if ((word & bit) != 0) return false;
    word |= bit;
    return true;
  }
  void erase(std::size_t set, std::uint32_t worker) {
    bits_[set * words_ + worker / 64] &= ~(std::uint64_t{1} << (worker % 64));
  }
  bool contains(std::size_t set, std::uint32_t worker) const {
    return (bits_[set * words_ + worker / 64] >> (worker % 64) & 1U) != 0;
  }
  std::uint32_t size(std::size_t set) const {
    int size = 0;
    for (std::size_t i = set * words_; i < (set + 1) * words_; ++i) size += std::popcount(bits_[i]);
    return static_cast<std::uint32_t>(size);
  }
  // 64 workers of a set, from 64 * index on.
  std::uint64_t word(std::size_t set, std::size_t index) const {
    return bits_[set * words_ + index];
  }
  std::size_t words() const { return words_; }  // of a set
  void clear(std::size_t set) {
    for (std::size_t i = set * words_; i < (set + 1) * words_; ++i) bits_[i] = 0;
  }

 private:
  std::size_t words_ = 0;  // of a set
  std::vector<std::uint64_t> bits_;
};

}  // namespace phub::server
