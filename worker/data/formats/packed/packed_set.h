// Opens one packed file (pack_format.h). At set-up; any thread.
#pragma once

#include <filesystem>
#include <memory>

#include "worker/data/formats/sample_set.h"

namespace phub::data {

// PATH/train.phub or PATH/test.phub; where PATH is a file, that file for both splits. PATH may be a
// URL of http or https, which is a file's where it ends in .phub. Reading a sample compares its
// CRC32C. Errors: those of sample_set.h.
Result<std::unique_ptr<SampleSet>> open_packed(const std::filesystem::path& path, Split split);

// Where it is looked for.
std::filesystem::path packed_file(const std::filesystem::path& path, Split split);

}  // namespace phub::data
