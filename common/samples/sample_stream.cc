#include "common/samples/sample_stream.h"

#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/samples/random.h"

namespace phub {
namespace {

// Fisher and Yates.
std::vector<std::uint32_t> permutation_of(std::uint64_t samples, std::uint64_t seed,
                                          std::uint64_t epoch) {
  std::vector<std::uint32_t> permutation(samples);
  CounterRandom random(seed, Purpose::kPermutation, epoch, 0);
  std::iota(permutation.begin(), permutation.end(), 0U);
  for (std::size_t left = permutation.size(); left > 1; --left) {
    std::swap(permutation[left - 1], permutation[random.below(left)]);
  }
  return permutation;
}

}  // namespace

SampleStream::SampleStream(std::uint64_t samples, std::uint64_t seed)
    : samples_(samples), seed_(seed) {
  PHUB_CHECK(samples > 0 && samples <= kSamplesMax, "a stream has samples, fewer than 2^32");
}

std::uint32_t SampleStream::at(std::uint64_t position) const {
  return epoch(epoch_of(position))->permutation[position % samples_];
}

std::shared_ptr<const SampleStream::Epoch> SampleStream::epoch(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  if (newest_ && newest_->number == number) return newest_;
  if (before_ && before_->number == number) return before_;
  before_ = std::exchange(newest_, std::make_shared<const Epoch>(
                                       Epoch{number, permutation_of(samples_, seed_, number)}));
  return newest_;
}

}  // namespace phub
