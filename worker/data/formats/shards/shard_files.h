// Which files of this machine are the shards of a set. At set-up; any thread.
#pragma once

#include <filesystem>
#include <vector>

#include "worker/data/formats/shards/shard_names.h"

namespace phub::data {

// The shards of a split below `folder`, in the order of their names' bytes. Errors: kNotFound when
// there is none; kInvalidArgument for compressed shards, for two splits that would both do
// (test-* and val-*), and where some of NNNNN-of-NNNNN are missing.
Result<std::vector<std::filesystem::path>> shards_of(const std::filesystem::path& folder,
                                                     Split split, ShardKind kind);

}  // namespace phub::data
