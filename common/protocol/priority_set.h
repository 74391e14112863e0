// A set of small integers that hands out its smallest: what the next forward needs first.
//
// A bitmap of several levels, 64-ary: a bit of an upper level says that a word below is not zero.
// Every operation costs one step per level (three levels for 262,144 values). Belongs to one
// thread. Nothing allocates after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phub {

class PrioritySet {
 public:
  // Holds values from 0 to capacity - 1.
  explicit PrioritySet(std::uint32_t capacity);

  // REQUIRES: value < capacity(). True if it was not there.
  bool insert(std::uint32_t value);
  bool contains(std::uint32_t value) const;

  // The smallest value. REQUIRES: not empty.
  std::uint32_t min() const;
  std::uint32_t pop_min();

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::uint32_t capacity() const { return capacity_; }

 private:
  std::uint32_t capacity_;
  std::size_t size_ = 0;
  std::vector<std::size_t> levels_;   // first word of each; the lowest level, a bit a value, first
  std::vector<std::uint64_t> words_;  // of all levels; the last is the root
};

}  // namespace phub
