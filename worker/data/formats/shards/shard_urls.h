// Which URLs are the shards of a set. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/data/formats/shards/shard_names.h"

namespace phub::data {

// What the ending of the first URL says; nothing for another one. `path` is a text of url_list.h.
std::optional<ShardKind> kind_of_urls(const std::string& path);

// The shards of a split, in the order of their URLs' bytes. The last of the words `train`, `test`,
// `val` and `validation` that stands alone in a URL's path says which split it is of; behind a '#'
// such a word says it instead, and is not in what is returned. Errors: kNotFound when there is
// none; kInvalidArgument for a URL without such a word, for one that is no shard, that comes twice,
// and what shards_of refuses.
Result<std::vector<std::string>> shard_urls(const std::string& path, Split split, ShardKind kind);

}  // namespace phub::data
