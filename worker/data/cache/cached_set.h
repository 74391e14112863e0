// A set whose samples are kept on a local disk when they are read first, and read from there then.
// `deliver_anew` replaces a copy.
//
// Any thread may read, as sample_set.h says.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/data/cache/store.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data::cache {

// `store` is of the set's fingerprint. Labels, classes and names are the set's own.
std::unique_ptr<SampleSet> cached_set(std::unique_ptr<SampleSet> set,
                                      std::unique_ptr<SampleStore> store);

}  // namespace phub::data::cache
