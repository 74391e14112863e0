// Opens and checks a set by its path alone.
//
// At set-up; any thread. Errors: those of sample_set.h; kInvalidArgument where a path has more than
// one format, kNotFound where it has none.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "worker/data/formats/check.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

enum class SampleFormat { kPacked, kWebDataset, kTfRecord, kFolder };

std::string_view name_of(SampleFormat format);

// By what is in the folder `path`; kPacked for a file. A URL of a shard ends as shards do, any
// other one is of a packed set.
Result<SampleFormat> detect(const std::filesystem::path& path, Split split);

Result<std::unique_ptr<SampleSet>> open_sample_set(const std::filesystem::path& path, Split split,
                                                   const OpenOptions& options = {});

// check() of the set at `path`.
Result<CheckReport> check(const std::filesystem::path& path, Split split,
                          const OnProgress& on_progress = {});

}  // namespace phub::data
