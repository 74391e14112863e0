// What the names of shards say. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/formats/sample_set.h"

namespace phub::data {

inline constexpr std::uint64_t kMaxShards = 1ULL << 16U;

enum class ShardKind { kTar, kTfRecord };

// "train"; or "test", "val" and "validation".
std::vector<std::string> words_of(Split split);

// "x.tar"; or "x.tfrecord" and "x-NNNNN-of-NNNNN".
bool is_shard_name(std::string_view name, ShardKind kind);

// Error: kInvalidArgument for "x.tar.gz" and its like. `shown`: the shard, for the message.
Status check_not_compressed(std::string_view name, ShardKind kind, const std::string& shown);

// Shards that say how many there are must all be there. `shown`: the first one. Error:
// kInvalidArgument.
Status check_complete(const std::vector<std::string>& names, const std::string& shown);

}  // namespace phub::data
