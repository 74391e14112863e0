// The format of a sparse push: what was written is read, and what is wrong is named.
#include "common/protocol/sparse_push.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

namespace phub::wire {
namespace {

constexpr std::uint32_t kElements = 100;

struct alignas(64) Bytes {
  std::array<std::byte, 512> data = {};
};

// Returns its bytes.
std::span<const std::byte> write(Bytes& bytes, DataType type,
                                 const std::vector<std::uint32_t>& indices) {
  const SparsePlace to =
      begin_sparse(bytes.data.data(), static_cast<std::uint32_t>(indices.size()));
  std::copy(indices.begin(), indices.end(), to.indices);
  for (std::size_t i = 0; i < indices.size() * size_of(type); ++i) to.values[i] = std::byte(i + 1);
  return {bytes.data.data(), sparse_bytes(indices.size(), type)};
}

SparseFault fault_of(std::span<const std::byte> bytes, DataType type = DataType::kFloat32) {
  return parse_sparse(bytes, type, kElements).fault;
}

TEST_CASE("a sparse push that was written is read as it was") {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (const std::vector<std::uint32_t>& indices :
         {std::vector<std::uint32_t>{}, {0}, {99}, {0, 1, 2, 98, 99}}) {
      Bytes bytes;
      const auto all = write(bytes, type, indices);
      const ParsedPush parsed = parse_sparse(all, type, kElements);
      REQUIRE(parsed.fault == SparseFault::kNone);
      REQUIRE(parsed.push.count == indices.size());
      const SparsePush again = sparse_at(all.data());
      for (std::uint32_t i = 0; i < indices.size(); ++i) {
        CHECK(parsed.push.indices[i] == indices[i]);
        CHECK(again.indices[i] == indices[i]);
      }
      for (std::size_t i = 0; i < indices.size() * size_of(type); ++i) {
        CHECK(parsed.push.values[i] == std::byte(i + 1));
      }
    }
  }
}

TEST_CASE("a count that is not the length's is found") {
  Bytes bytes;
  const auto all = write(bytes, DataType::kFloat32, {1, 2, 3});
  CHECK(fault_of(all.first(0)) == SparseFault::kCount);
  CHECK(fault_of(all.first(3)) == SparseFault::kCount);
  CHECK(fault_of(all.first(4)) == SparseFault::kCount);
  CHECK(fault_of(all.first(all.size() - 1)) == SparseFault::kCount);
  CHECK(fault_of(all, DataType::kFloat16) == SparseFault::kCount);
  for (const std::uint32_t count : {2U, 4U, 0xFFFFFFFFU, 0x80000003U}) {
    std::memcpy(bytes.data.data(), &count, sizeof(count));
    CHECK(fault_of(all) == SparseFault::kCount);
  }
}

TEST_CASE("an index outside of the chunk is found") {
  Bytes bytes;
  CHECK(fault_of(write(bytes, DataType::kFloat32, {100})) == SparseFault::kRange);
  CHECK(fault_of(write(bytes, DataType::kFloat32, {1, 99, 100})) == SparseFault::kRange);
  CHECK(fault_of(write(bytes, DataType::kFloat32, {0xFFFFFFFF})) == SparseFault::kRange);
}

TEST_CASE("indices that do not ascend are found, and those that are there twice") {
  Bytes bytes;
  CHECK(fault_of(write(bytes, DataType::kFloat32, {2, 1})) == SparseFault::kOrder);
  CHECK(fault_of(write(bytes, DataType::kFloat32, {1, 1})) == SparseFault::kOrder);
  CHECK(fault_of(write(bytes, DataType::kFloat32, {0, 5, 4, 6})) == SparseFault::kOrder);
  CHECK(fault_of(write(bytes, DataType::kFloat32, {0, 5, 6, 6})) == SparseFault::kOrder);
}

TEST_CASE("a sparse push is smaller than its chunk, or is not made") {
  CHECK(is_smaller_sparse(0, 2, DataType::kFloat32));
  CHECK(!is_smaller_sparse(0, 1, DataType::kFloat32));
  CHECK(is_smaller_sparse(49, 100, DataType::kFloat32));
  CHECK(!is_smaller_sparse(50, 100, DataType::kFloat32));
  CHECK(is_smaller_sparse(32, 100, DataType::kFloat16));
  CHECK(!is_smaller_sparse(33, 100, DataType::kBfloat16));
}

}  // namespace
}  // namespace phub::wire
