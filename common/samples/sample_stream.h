// The samples of a training, one after another.
//
// The stream is endless. Each epoch is a seeded permutation of all samples, and epochs follow each
// other without a gap. So what a run has used is one number: it has used the stream up to there.
// The order is that of Fisher and Yates, with the numbers of CounterRandom. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace phub {

class SampleStream {
 public:
  static constexpr std::uint64_t kSamplesMax = 0xFFFF'FFFF;

  // REQUIRES: 0 < samples <= kSamplesMax.
  SampleStream(std::uint64_t samples, std::uint64_t seed);

  std::uint64_t samples() const { return samples_; }
  std::uint64_t epoch_of(std::uint64_t position) const { return position / samples_; }
  // The sample at a position of the stream.
  std::uint32_t at(std::uint64_t position) const;

 private:
  struct Epoch {
    std::uint64_t number = 0;
    std::vector<std::uint32_t> permutation{};
  };

  std::shared_ptr<const Epoch> epoch(std::uint64_t number) const;

  std::uint64_t samples_, seed_;
  mutable std::mutex mutex_;
  // The newest two: who reads ahead is in the next one already.
  mutable std::shared_ptr<const Epoch> newest_, before_;
};

}  // namespace phub
