// Packs a set of any format into one file.
#pragma once

#include <filesystem>

#include "worker/data/formats/progress.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

struct PackOptions {
  bool resume = true;  // go on where an earlier run of the same set stopped
};
struct PackReport {
  std::uint64_t samples = 0;
  std::uint64_t kept = 0;   // of them by an earlier run
  std::uint64_t bytes = 0;  // of images, in this run
};

// Writes all samples of `set` in their order to `path`, which is replaced when all are written.
// Stops at a sample that cannot be read. Errors: those of the set and of PackWriter; kAborted when
// on_progress stops it. After each of them a further call goes on.
Result<PackReport> pack(const SampleSet& set, const std::filesystem::path& path,
                        const PackOptions& options = {}, const OnProgress& on_progress = {});

}  // namespace phub::data
