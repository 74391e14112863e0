// The words and places that both ends of the data plane agree on.
#include "common/protocol/wire.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "common/protocol/crc32c.h"
#include "common/protocol/window_layout.h"
#include "common/transport/tcp/frame.h"

namespace phub {

TEST_CASE("an immediate holds any slot with the low bits of any epoch") {
  for (const std::uint32_t slot :
       {0U, 1U, 12'345U, wire::kNormSlot, wire::kVoteSlot, wire::kHyperSlot}) {
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
      std::uint64_t end = 0;
      for (const std::uint32_t word : {wire::kHyperSlot, wire::kVoteSlot, wire::kNormSlot}) {
        CHECK(wire::offset_in_line(word) >= end);
        end = wire::offset_in_line(word) + wire::word_bytes(word);
      }
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

namespace {

std::uint32_t crc_bit_by_bit(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
  }
  return ~crc;
}

std::vector<std::byte> some_bytes(std::size_t size) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("a crc32c has the values of RFC 3720") {
  CHECK(crc32c({}) == 0);
  CHECK(crc32c(std::as_bytes(std::span(std::string_view("123456789")))) == 0xE3069283U);
  std::vector<std::byte> bytes(32);
  CHECK(crc32c(bytes) == 0x8A9136AAU);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
  CHECK(crc32c(bytes) == 0x62A8AB43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(crc32c(bytes) == 0x46DD794EU);
}

TEST_CASE("a crc32c is that of its definition, whatever the length and the place") {
  const std::vector<std::byte> bytes = some_bytes(70'000);
  for (std::size_t start = 0; start < 4; ++start) {
    for (std::size_t size = 0; size <= 1100; ++size) {
      const auto part = std::span(bytes).subspan(start, size);
      REQUIRE(crc32c(part) == crc_bit_by_bit(part));
    }
  }
  for (const std::size_t size : {4095U, 4096U, 8193U, 32'768U, 32'770U, 65'536U, 69'999U}) {
    REQUIRE(crc32c(std::span(bytes).first(size)) == crc_bit_by_bit(std::span(bytes).first(size)));
  }
}

TEST_CASE("every single bit of a chunk is found") {
  std::vector<std::byte> bytes = some_bytes(512);
  const std::uint32_t right = crc32c(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    REQUIRE(crc32c(bytes) != right);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace phub
