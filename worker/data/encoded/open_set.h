// Opens a set of encoded images by its format's name in configurations. At set-up; any thread.
#pragma once

#include <filesystem>
#include <memory>

#include "common/config/data_format.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

// REQUIRES: is_encoded(format). Errors: those of the format.
Result<std::unique_ptr<SampleSet>> open_set(DataFormat format, const std::filesystem::path& path,
                                            Split split, const OpenOptions& options = {});

}  // namespace phub::data
