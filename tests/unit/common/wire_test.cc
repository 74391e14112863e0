// The words and places that both ends of the data plane agree on.
#include "common/protocol/wire.h"

#include <catch2/catch.hpp>

#include "common/protocol/window_layout.h"
#include "common/transport/tcp/frame.h"

namespace phub {

TEST_CASE("an immediate holds any slot with the low bits of any epoch") {
  for (const std::uint32_t slot : {0U, 1U, 12'345U, wire::kNormSlot, wire::kVoteSlot, wire::kHyperSlot}) {
    for (const std::uint32_t epoch : {0U, 1U, 255U, 256U, 70'001U}) {
      const std::uint32_t word = wire::immediate(slot, epoch);
      CHECK(wire::slot_of(word) == slot);
      CHECK(wire::epoch_of(word) == epoch % 256);
      CHECK(wire::same_epoch(word, epoch));
      CHECK(wire::same_epoch(word, epoch + 256));
      CHECK_FALSE(wire::same_epoch(word, epoch + 1));
      CHECK_FALSE(wire::same_epoch(word, epoch + 128));
    }
  }
}

TEST_CASE("control words and the mark of a skipped update are no chunk's slot") {
  CHECK(wire::is_control(wire::kHyperSlot));
  CHECK(wire::is_control(wire::kVoteSlot));
  CHECK(wire::is_control(wire::kNormSlot));
  CHECK_FALSE(wire::is_control(wire::kNormSlot - 1));
  CHECK(wire::kHyperSlot != wire::kVoteSlot);
  CHECK(wire::kVoteSlot != wire::kNormSlot);
  for (const std::uint32_t slot : {0U, 7U, kMaxCoreChunks - 1}) {
    for (const bool skipped : {false, true}) {
      const std::uint32_t word = wire::reply(slot, 9, skipped);
      CHECK(wire::reply_slot_of(word) == slot);
      CHECK_FALSE(wire::is_control(wire::slot_of(word)));
      CHECK(wire::was_skipped(word) == skipped);
      CHECK(wire::same_epoch(word, 9));
    }
  }
}

TEST_CASE("the control lines of a worker's connections lie in whole pages of their own") {
  CHECK(wire::hyper_bytes(0) == 0);
  for (const std::size_t connections : {1U, 63U, 64U, 65U, 129U}) {
    const std::size_t bytes = wire::hyper_bytes(connections);
    CHECK(bytes % 4096 == 0);
    CHECK(bytes >= connections * wire::kHyperStride);
    CHECK(bytes < connections * wire::kHyperStride + 4096);
  }
}

TEST_CASE("a frame's check sees any bit that flips in its immediate or its length") {
  const std::uint32_t immediate = 0x01000007;
  const std::uint32_t bytes = 32 * 1024;
  const std::uint32_t check = transport::frame_check(immediate, bytes);
  CHECK(check != 0);
  for (unsigned bit = 0; bit < 32; ++bit) {
    CHECK(transport::frame_check(immediate ^ (1U << bit), bytes) != check);
    CHECK(transport::frame_check(immediate, bytes ^ (1U << bit)) != check);
  }
  CHECK(transport::frame_check(bytes, immediate) != check);
}

TEST_CASE("pushes land on lines of their own, after the control words, in whole pages") {
  const Plan plan =
      make_plan({.key_elements = {100'000, 17, 33, 5'000}, .cores_per_server = {2, 1}}).value();
  for (const std::size_t element_bytes : {4U, 2U}) {
    for (const auto& [server, core] : {std::pair(0U, 0U), {0U, 1U}, {1U, 0U}}) {
      const WindowLayout landing = make_window_layout(plan, server, core, element_bytes);
      const auto& chunks = plan.core_chunks[server][core];
      REQUIRE(landing.slots.size() == chunks.size());
      CHECK(WindowLayout::kVote >= WindowLayout::kHyper + sizeof(Hyper));
      std::uint64_t end = WindowLayout::kVote + sizeof(Vote);
      for (std::size_t slot = 0; slot < chunks.size(); ++slot) {
        CHECK(landing.slots[slot] % 64 == 0);
        CHECK(landing.slots[slot] >= end);
        CHECK(landing.slots[slot] < end + 64);
        end = landing.slots[slot] + plan.chunks[chunks[slot]].elements * element_bytes;
      }
      CHECK(landing.bytes % 4096 == 0);
      CHECK(landing.bytes >= end);
      CHECK(landing.bytes < end + 4096);
    }
  }
}

}  // namespace phub
