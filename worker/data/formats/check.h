// Reads every sample of a set once, and says which are damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "worker/data/formats/progress.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

struct CheckReport {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;                // of images that were read
  std::vector<std::uint64_t> by_class{};  // samples of each class, damaged ones too
  std::uint64_t damaged = 0;
  // What is wrong with the first kMaxDamages of them; each names its sample.
  std::vector<std::string> damages{};
};
inline constexpr std::uint64_t kMaxDamages = 100;

// Looks into the bytes of a sample, for example by decoding them. Its errors do not name the
// sample.
using Look = std::function<Status(std::span<const std::uint8_t>)>;

// A sample is damaged where it cannot be read, has a wrong checksum, begins neither as JPEG nor as
// PNG, or where `look`, if there is one, says so. Errors: kAborted when on_progress stops it,
// kUnavailable when the set's server cannot be reached.
Result<CheckReport> check(const SampleSet& set, const OnProgress& on_progress = {},
                          const Look& look = {});

}  // namespace phub::data
