// Replies to sparse pushes over each transport: what changed alone over tcp and verbs, all over
// shm, and to a worker whose window has no place for what changed.
#include <catch2/catch.hpp>
#include <cstring>

#include "common/protocol/sparse_push.h"
#include "common/protocol/window_layout.h"
#include "tests/support/server/core_rig.h"
#include "tests/support/server/sparse_bytes.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kSlot = 3;
const std::vector<std::uint32_t> kPushed = {0, 5, 1023};

// Six workers, two over each transport, of whose chunk all have initial values.
struct Answered {
  explicit Answered(bool have_place)
      : rig("all", {}, Encoding::kSparse, 0.0F, false,
            {.rule = RuleKind::kSgd, .have_place = have_place}) {
    rig.send_hyper(0, {.learning_rate = 1.0F, .gradient_scale = 1.0F});
    rig.push_chunk(kSlot);
    rig.run();
    REQUIRE(rig.waiting_replies() == 6);
  }
  // By worker, the bytes of its reply.
  std::vector<std::uint32_t> round() {
    for (std::uint32_t worker = 0; worker < 6; ++worker) {
      rig.push_bytes(worker, kSlot, testing::sparse_bytes_of(kPushed, 1.0F));
    }
    rig.run();
    std::vector<std::uint32_t> bytes;
    for (std::uint32_t worker = 0; worker < 6; ++worker) {
      const auto replies = rig.take_waiting(worker);
      REQUIRE(replies.size() == 1);
      CHECK(wire::reply_slot_of(replies[0].immediate) == kSlot);
      bytes.push_back(replies[0].bytes);
    }
    return bytes;
  }
  CoreRig rig;
};

}  // namespace

TEST_CASE("over tcp and verbs a reply has what changed, over shm all of the chunk") {
  Answered job(true);
  const auto some = static_cast<std::uint32_t>(wire::sparse_bytes(3, DataType::kFloat32));
  for (int round = 1; round <= 3; ++round) {
    CHECK(job.round() == std::vector<std::uint32_t>{4096, some, some, 4096, some, some});
    for (const std::uint32_t worker : {1U, 4U}) {  // over verbs
      const std::byte* const window = job.rig.worker(worker).parameters->data();
      const std::byte* const landed =
          window + changes_offset(job.rig.plan(), sizeof(float), false) + kSlot * 4096;
      const auto parsed = wire::parse_sparse({landed, some}, DataType::kFloat32, 1024);
      REQUIRE(parsed.fault == wire::SparseFault::kNone);
      REQUIRE(parsed.push.count == kPushed.size());
      for (std::uint32_t i = 0; i < parsed.push.count; ++i) {
        float value = 0.0F;
        std::memcpy(&value, parsed.push.values + i * sizeof(value), sizeof(value));
        CHECK(parsed.push.indices[i] == kPushed[i]);
        CHECK(value == -6.0F * static_cast<float>(round));
      }
    }
  }
}

TEST_CASE("a window without a place for what changed is written whole chunks") {
  Answered job(false);
  const auto some = static_cast<std::uint32_t>(wire::sparse_bytes(3, DataType::kFloat32));
  CHECK(job.round() == std::vector<std::uint32_t>{4096, 4096, some, 4096, 4096, some});
  for (const std::uint32_t worker : {1U, 4U}) {
    float value = 0.0F;
    std::memcpy(&value, job.rig.worker(worker).parameters->data() + kSlot * 4096, sizeof(value));
    CHECK(value == -6.0F);
  }
}

}  // namespace phub::testing
