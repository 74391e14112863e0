#include "worker/data/formats/shards/kept_index.h"

#include <catch2/catch.hpp>

namespace phub::data {
namespace {

using Entries = std::vector<ShardEntry>;

constexpr std::uint64_t kFileBytes = 1000;

bool is_kept(const Entries& entries) {
  const auto parsed = parse_kept(kept_form(entries), kFileBytes);
  return parsed.has_value() && kept_form(*parsed) == kept_form(entries);
}

TEST_CASE("A shard's samples come back from what is kept of them") {
  CHECK(is_kept({}));
  CHECK(is_kept({{.offset = 0, .bytes = 1, .shard = 7, .label = 9}}));
  CHECK(is_kept({{.offset = 512, .bytes = 100, .shard = 0, .label = 65535},
                 {.offset = 612, .bytes = 388, .shard = 0, .label = 0}}));
}

TEST_CASE("Samples that cannot lie in the file so are not taken") {
  CHECK_FALSE(is_kept({{.offset = 0, .bytes = 0, .shard = 0, .label = 0}}));
  CHECK_FALSE(is_kept({{.offset = 1, .bytes = 1000, .shard = 0, .label = 0}}));
  CHECK_FALSE(is_kept({{.offset = 1001, .bytes = 1, .shard = 0, .label = 0}}));
  CHECK_FALSE(is_kept({{.offset = ~0ULL, .bytes = 1, .shard = 0, .label = 0}}));
  CHECK_FALSE(is_kept({{.offset = 0, .bytes = 10, .shard = 0, .label = 0},
                       {.offset = 9, .bytes = 1, .shard = 0, .label = 0}}));
}

TEST_CASE("What is kept has one length") {
  const auto whole = kept_form(Entries{{.offset = 0, .bytes = 1, .shard = 0, .label = 1},
                                       {.offset = 1, .bytes = 1, .shard = 0, .label = 2}});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CHECK_FALSE(parse_kept(std::span(whole).first(bytes), kFileBytes).has_value());
  }
  auto longer = whole;
  longer.resize(whole.size() + 16);
  CHECK_FALSE(parse_kept(longer, kFileBytes).has_value());
  longer = whole;
  longer[7] = 0x10;  // 2^60 entries more
  CHECK_FALSE(parse_kept(longer, kFileBytes).has_value());
}

}  // namespace
}  // namespace phub::data
