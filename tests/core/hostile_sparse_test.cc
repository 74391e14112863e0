// Sparse pushes that are none end their worker's connection, with the right cause, and no sum
// changes.
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "tests/support/server/core_rig.h"

namespace phub::testing {
namespace {

std::vector<std::byte> sparse(const std::vector<std::uint32_t>& indices) {
  std::vector<std::byte> bytes(wire::sparse_bytes(indices.size(), DataType::kFloat32));
  const auto to = wire::begin_sparse(bytes.data(), static_cast<std::uint32_t>(indices.size()));
  std::memcpy(to.indices, indices.data(), indices.size() * sizeof(std::uint32_t));
  return bytes;
}

std::vector<std::byte> with_count(std::vector<std::byte> bytes, std::uint32_t count) {
  std::memcpy(bytes.data(), &count, sizeof(count));
  return bytes;
}

struct Hostile {
  std::vector<std::byte> bytes;
  std::string_view reason;
};

}  // namespace

TEST_CASE("a sparse push that is none ends its connection with its cause, and the job stops") {
  const std::vector<Hostile> all = {
      {sparse({1024}), "it pushed a sparse chunk with an index outside of the chunk"},
      {sparse({0, 0xFFFFFFFF}), "it pushed a sparse chunk with an index outside of the chunk"},
      {sparse({7, 6}), "it pushed a sparse chunk whose indices do not ascend"},
      {sparse({7, 7}), "it pushed a sparse chunk whose indices do not ascend"},
      {with_count(sparse({1, 2}), 1),
       "it pushed a sparse chunk whose count is not that of its length"},
      {with_count(sparse({1, 2}), 0x80000002),
       "it pushed a sparse chunk whose count is not that of its length"}};
  for (const Hostile& each : all) {
    for (const std::uint32_t wrong : {0U, 1U, 2U}) {  // over shm, verbs and tcp
      INFO(wrong << " " << each.reason);
      CoreRig rig("all", {}, Encoding::kSparse);
      rig.push_chunk(3);  // initial parameters
      rig.run();
      REQUIRE(rig.waiting_replies() == 6);
      rig.push_bytes(3, 3, sparse({0, 5, 1023}));
      CHECK(rig.drops(server::Drop::kBadSparse) == 0);
      rig.push_bytes(wrong, 3, each.bytes);
      CHECK(rig.drops(server::Drop::kBadSparse) == 1);
      CHECK(rig.reason() == each.reason);
      rig.push_bytes(4, 3, sparse({0}));  // the job has stopped
      CHECK(rig.drops(server::Drop::kLateWrite) == 1);
    }
  }
}

TEST_CASE("a short push in a job that is dense, or of initial values, has a wrong size") {
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig dense(transport);
    dense.round();
    dense.push_bytes(0, 3, sparse({0}));
    CHECK(dense.drops(server::Drop::kBadLength) == 1);
    CoreRig initial(transport, {}, Encoding::kSparse);
    initial.push_bytes(0, 3, sparse({0}));
    CHECK(initial.drops(server::Drop::kBadLength) == 1);
  }
}

}  // namespace phub::testing
