#include "common/protocol/priority_set.h"

#include <bit>

#include "common/base/check.h"

namespace phub {
namespace {

constexpr std::uint32_t kWordShift = 6;  // 64 bits in a word

std::uint64_t bit_of(std::uint32_t value) { return std::uint64_t{1} << (value & 63U); }

// REQUIRES: it is there.
void take_out(std::uint32_t value, const std::vector<std::size_t>& levels,
              std::vector<std::uint64_t>& words) {
  for (const std::size_t first : levels) {
    std::uint64_t& word = words[first + (value >> kWordShift)];
    word &= ~bit_of(value);
    if (word != 0) break;
    value >>= kWordShift;
  }
}

}  // namespace

PrioritySet::PrioritySet(std::uint32_t capacity) : capacity_(capacity) {
  std::size_t bits = capacity;
  std::size_t words = 0;
  do {
    levels_.push_back(words);
    bits = (bits + 63) / 64;
    words += bits;
  } while (bits > 1);
  words_.resize(words);
}

bool PrioritySet::insert(std::uint32_t value) {
  PHUB_DCHECK(value < capacity_, "value out of range");
  if ((words_[value >> kWordShift] & bit_of(value)) != 0) return false;
  ++size_;
  for (const std::size_t first : levels_) {
    std::uint64_t& word = words_[first + (value >> kWordShift)];
    const bool was_empty = word == 0;
    word |= bit_of(value);
    if (!was_empty) break;
    value >>= kWordShift;
  }
  return true;
}

bool PrioritySet::contains(std::uint32_t value) const {
  PHUB_DCHECK(value < capacity_, "value out of range");
  return (words_[value >> kWordShift] & bit_of(value)) != 0;
}

std::uint32_t PrioritySet::min() const {
  PHUB_DCHECK(!empty(), "min of an empty set");
  std::uint32_t index = 0;
  for (std::size_t level = levels_.size(); level-- > 0;) {
    const std::uint64_t word = words_[levels_[level] + index];
    index = (index << kWordShift) | static_cast<std::uint32_t>(std::countr_zero(word));
  }
  return index;
}

std::uint32_t PrioritySet::pop_min() {
  const std::uint32_t value = min();
  --size_;
  take_out(value, levels_, words_);
  return value;
}

}  // namespace phub
