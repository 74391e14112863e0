// What a hostile worker of a job with checksums may do: end its job by name. Not: name another, get
// into a sum, or get around being compared.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/server/core_rig.h"

namespace phub::testing {
namespace {

using server::Drop;

CoreRig rig_of(const std::string& transport) {
  return CoreRig(transport, {}, Encoding::kDense, 0.0F, true);
}

void sum_up(CoreRig& rig, std::uint32_t workers) {
  for (std::uint32_t w = 0; w < workers; ++w) rig.worker(w).sum_up();
}

// Every worker pushes every chunk, and has the replies.
void round(CoreRig& rig) {
  sum_up(rig, rig.workers());
  for (std::uint32_t slot = 0; slot < CoreRig::kChunks; ++slot) {
    rig.push_chunk(slot);
    rig.run();
    REQUIRE(rig.reason().empty());
    REQUIRE(rig.drops(Drop::kBadChecksum) == 0);
    REQUIRE(rig.waiting_replies() == rig.workers());
  }
}

std::uint64_t found_of(CoreRig& rig, std::uint32_t worker) {
  return rig.shard().reader.checks()->workers()[worker].pushes;
}

TEST_CASE("honest rounds are complete, whatever the transport") {
  for (const char* transport : {"shm", "verbs", "all"}) {
    CAPTURE(transport);
    CoreRig rig = rig_of(transport);
    for (std::uint32_t i = 0; i < 3; ++i) {
      for (std::uint32_t w = 0; w < rig.workers(); ++w) {
        rig.worker(w).chunk(i)[w] ^= std::byte{0x11};
      }
      round(rig);
    }
    CHECK(rig.shard().reader.checks()->findings.value() == 0);
    CHECK(rig.reason().empty());
  }
}

TEST_CASE("a worker that lies about a checksum is the one that is found") {
  for (const char* transport : {"shm", "verbs", "all"}) {
    for (std::uint32_t liar = 0; liar < CoreRig::kWorkers; ++liar) {
      CAPTURE(transport, liar);
      CoreRig rig = rig_of(transport);
      round(rig);
      const std::uint64_t completed = rig.shard().updates.chunks_completed.value();
      rig.worker(liar).checksums()[5] ^= 1;
      rig.push_chunk(5);
      rig.run();
      CHECK(rig.drops(Drop::kBadChecksum) == 1);
      CHECK(rig.shard().stopped());
      CHECK(rig.shard().updates.chunks_completed.value() == completed);
      CHECK(rig.waiting_replies() == 0);
      for (std::uint32_t w = 0; w < rig.workers(); ++w)
        CHECK(found_of(rig, w) == (w == liar ? 1U : 0U));
      CHECK(rig.shard().reader.checks()->workers()[liar].round == 1);
      CHECK(rig.reason().empty());  // nobody lost its connection: the control plane ends the job
      rig.push_chunk(6);
      rig.run();
      CHECK(rig.drops(Drop::kBadChecksum) == 1);
      CHECK(rig.drops(Drop::kLateWrite) >= rig.workers());
    }
  }
}

TEST_CASE("who pushes a chunk twice is dropped, right checksum or wrong") {
  for (const char* transport : {"shm", "verbs", "all"}) {
    for (const bool is_right : {true, false}) {
      CoreRig rig = rig_of(transport);
      round(rig);
      rig.push_slot(2, 7);
      if (!is_right) rig.worker(2).checksums()[7] ^= 1;
      rig.push_slot(2, 7);
      CHECK(rig.drops(Drop::kDuplicatePush) == 1);
      CHECK(rig.reason() == "it pushed a chunk twice in one round");
      CHECK(rig.shard().reader.checks()->findings.value() == 0);
    }
  }
}

TEST_CASE("who writes to its memory while it is read harms only itself") {
  CoreRig rig = rig_of("shm");
  round(rig);
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    volatile auto* const bytes = reinterpret_cast<unsigned char*>(rig.worker(1).chunk(0).data());
    for (std::size_t i = 0; !ends.load(std::memory_order_relaxed); ++i) {
      const std::size_t at = i * 61 % (std::size_t{CoreRig::kChunks} * RigWorker::kChunkBytes);
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ 0x10U);
    }
  });
  for (std::uint32_t slot = 0; slot < CoreRig::kChunks && !rig.shard().stopped(); ++slot) {
    rig.worker(1).checksums()[slot] = crc32c(rig.worker(1).chunk(slot));
    rig.push_chunk(slot);
    rig.run();
  }
  ends = true;
  writer.join();
  for (std::uint32_t w = 0; w < rig.workers(); ++w) {
    if (w != 1) CHECK(found_of(rig, w) == 0);
  }
  CHECK(rig.drops(Drop::kBadChecksum) == found_of(rig, 1));
  CHECK(rig.reason().empty());
}

}  // namespace
}  // namespace phub::testing
