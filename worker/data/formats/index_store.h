// Where the indexes of far shards are kept from run to run. The set knows nothing of what keeps
// them (worker/data/cache does).
//
// Any thread. What cannot be kept or found is no error: the shard is read again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace phub::data {

class IndexStore {
 public:
  virtual ~IndexStore() = default;

  // What was kept of the shard, in `buffer`. Nothing: it was not, or it is damaged.
  virtual std::optional<std::span<const std::uint8_t>> find(
      std::uint64_t shard, std::vector<std::uint8_t>& buffer) const = 0;
  virtual void keep(std::uint64_t shard, std::span<const std::uint8_t> content) = 0;
};

// Opens the store of a set with `shards` shards. Another `number` is another set, or another version
// of its files. Errors name the field and the cure.
using OpenIndexStore =
    std::function<Result<std::unique_ptr<IndexStore>>(std::uint64_t shards, std::uint64_t number)>;

}  // namespace phub::data
