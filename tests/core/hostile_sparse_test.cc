// Sparse pushes that are none end their worker's connection, with the right cause, and no sum
// changes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"
#include "tests/support/server/core_rig.h"
#include "tests/support/server/sparse_bytes.h"

namespace phub::testing {
namespace {

struct Hostile {
  std::vector<std::byte> bytes;
  std::string_view reason;
};

constexpr std::uint32_t kElements = 1024;  // of the rig's chunks

std::vector<std::byte> first_elements(std::uint32_t count) {
  std::vector<std::uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0U);
  return sparse_bytes_of(indices);
}

// A job of six workers, two over each transport, in which chunk 3 has initial values.
struct Begun {
  explicit Begun(Encoding encoding) : rig("all", {}, encoding) {
    rig.push_chunk(3);
    rig.run();
    REQUIRE(rig.waiting_replies() == 6);
  }
  // Connections, for what was pushed.
  std::uint64_t ended() {
    for (int i = 0; i < 4; ++i) rig.run();
    return rig.drops(server::Drop::kBadSparse) + rig.drops(server::Drop::kBadLength) +
           rig.drops(server::Drop::kBadFrame);
  }
  CoreRig rig;
};

std::vector<std::byte> random_push(Encoding encoding, std::mt19937& random) {
  std::vector<std::byte> bytes;
  if (encoding == Encoding::kSparse) {
    bytes = first_elements(static_cast<std::uint32_t>(random() % 512));
  } else {
    bytes.resize(kernels::quantised_bytes(kElements, kernels::bits_of(encoding)));
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  }
  if (random() % 2 == 0) bytes.resize(random() % 4200);
  for (std::uint32_t i = random() % 4; i > 0 && bytes.size() >= 4; --i) {
    const std::uint32_t words[] = {
        0, 1, 0xFFFFFFFF, 0x7FC00000, 0x7F800000, kElements, static_cast<std::uint32_t>(random())};
    const std::size_t place = random() % (bytes.size() / 4) * 4;
    std::memcpy(bytes.data() + place, &words[random() % 7], 4);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a sparse push that is none ends its connection with its cause, and the job stops") {
  const std::vector<Hostile> all = {
      {sparse_bytes_of({1024}), "it pushed a sparse chunk with an index outside of the chunk"},
      {sparse_bytes_of({0, 0xFFFFFFFF}),
       "it pushed a sparse chunk with an index outside of the chunk"},
      {sparse_bytes_of({7, 6}), "it pushed a sparse chunk whose indices do not ascend"},
      {sparse_bytes_of({7, 7}), "it pushed a sparse chunk whose indices do not ascend"},
      {with_count(sparse_bytes_of({1, 2}), 1),
       "it pushed a sparse chunk whose count is not that of its length"},
      {with_count(sparse_bytes_of({1, 2}), 0x80000002),
       "it pushed a sparse chunk whose count is not that of its length"}};
  for (const Hostile& each : all) {
    for (const std::uint32_t wrong : {0U, 1U, 2U}) {  // over shm, verbs and tcp
      INFO(wrong << " " << each.reason);
      CoreRig rig("all", {}, Encoding::kSparse);
      rig.push_chunk(3);  // initial parameters
      rig.run();
      REQUIRE(rig.waiting_replies() == 6);
      rig.push_bytes(3, 3, sparse_bytes_of({0, 5, 1023}));
      CHECK(rig.drops(server::Drop::kBadSparse) == 0);
      rig.push_bytes(wrong, 3, each.bytes);
      CHECK(rig.drops(server::Drop::kBadSparse) == 1);
      CHECK(rig.reason() == each.reason);
      rig.push_bytes(4, 3, sparse_bytes_of({0}));  // the job has stopped
      CHECK(rig.drops(server::Drop::kLateWrite) == 1);
    }
  }
}

TEST_CASE(
    "of lengths that no push has, each ends its connection, and the longest sparse one none") {
  for (const std::uint32_t wrong : {0U, 1U, 2U}) {  // over shm, verbs and tcp
    INFO(wrong);
    for (const std::size_t bytes : {1U, 3U, 5U, 4091U, 4097U, 4100U}) {
      INFO(bytes);
      Begun begun(Encoding::kSparse);
      std::vector<std::byte> push = first_elements(512);  // 4100 bytes: a chunk has 4096
      push.resize(bytes);
      begun.rig.push_bytes(wrong, 3, push);
      CHECK(begun.ended() == 1);
    }
    Begun begun(Encoding::kSparse);
    begun.rig.push_bytes(wrong, 3, first_elements(511));
    begun.rig.push_bytes(3 + wrong, 3, first_elements(0));
    CHECK(begun.ended() == 0);
  }
}

TEST_CASE("in few bits any scale is taken, and any other length ends the connection") {
  for (const Encoding encoding : {Encoding::kInt8, Encoding::kInt4}) {
    const std::size_t right = kernels::quantised_bytes(kElements, kernels::bits_of(encoding));
    for (const std::uint32_t who : {0U, 1U, 2U}) {
      INFO(name_of(encoding) << " " << who);
      for (const std::size_t wrong : {right - 1, right + 1, right - 4, right + 4, right / 2}) {
        Begun begun(encoding);
        begun.rig.push_bytes(who, 3, std::vector<std::byte>(wrong));
        CHECK(begun.rig.drops(server::Drop::kBadLength) == 1);
      }
      for (const std::uint32_t scale : {0x7FC00000U, 0xFF800000U, 0x7F800000U, 1U, 0x80000000U}) {
        Begun begun(encoding);
        std::vector<std::byte> push(right, std::byte{0x80});
        std::memcpy(push.data(), &scale, sizeof(scale));
        for (std::uint32_t worker = 0; worker < 6; ++worker) begun.rig.push_bytes(worker, 3, push);
        CHECK(begun.ended() == 0);
        CHECK(begun.rig.waiting_replies() == 6);
      }
    }
  }
}

TEST_CASE("whatever is pushed at random is taken or ends its connection") {
  for (const Encoding encoding : {Encoding::kSparse, Encoding::kInt8, Encoding::kInt4}) {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      INFO(name_of(encoding) << " " << seed);
      std::mt19937 random(seed);
      Begun begun(encoding);
      const auto push = random_push(encoding, random);
      if (push.empty()) continue;
      begun.rig.push_bytes(seed % 3, 3, push);
      const std::uint64_t ended = begun.ended();
      begun.rig.push_bytes(5, 3, std::vector<std::byte>(4 * kElements));
      CHECK(begun.rig.drops(server::Drop::kLateWrite) == ended);
    }
  }
}

TEST_CASE("a short push in a job that is dense, or of initial values, has a wrong size") {
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig dense(transport);
    dense.round();
    dense.push_bytes(0, 3, sparse_bytes_of({0}));
    CHECK(dense.drops(server::Drop::kBadLength) == 1);
    CoreRig initial(transport, {}, Encoding::kSparse);
    initial.push_bytes(0, 3, sparse_bytes_of({0}));
    CHECK(initial.drops(server::Drop::kBadLength) == 1);
  }
}

}  // namespace phub::testing
