// How far a pass over a whole set is.
#pragma once

#include <cstdint>
#include <functional>

namespace phub::data {

struct Progress {
  std::uint64_t samples = 0;  // done, those of an earlier run included
  std::uint64_t of = 0;
  std::uint64_t bytes = 0;  // of images, in this run
};

// Called before the first sample, every kSamplesOfProgress and after the last, on the thread that
// makes the pass. False: stop.
using OnProgress = std::function<bool(const Progress&)>;

inline constexpr std::uint64_t kSamplesOfProgress = 256;

inline bool goes_on(const OnProgress& on_progress, const Progress& progress) {
  const bool is_due = progress.samples % kSamplesOfProgress == 0 || progress.samples == progress.of;
  return !on_progress || !is_due || on_progress(progress);
}

}  // namespace phub::data
