// Who gets the core when, over tcp: nobody is kept from it by how many others there are, by how
// little they send at a time, or by what has been held back.
#include <catch2/catch.hpp>

#include "tests/support/server/streams_rig.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kLarge = 32 * 1024;

}  // namespace

TEST_CASE("every stream that has something is read, however many they are") {
  struct Crowd {
    std::uint32_t jobs;
    std::uint32_t workers;
  };
  for (const auto& [jobs, workers] :
       {Crowd{2, 64}, Crowd{3, 32}, Crowd{4, 32}, Crowd{8, 16}, Crowd{16, 8}}) {
    INFO(jobs << " jobs of " << workers << " workers");
    constexpr std::uint32_t kChunks = 64;  // more than are read at a time: no stream is empty soon
    StreamsRig rig;
    std::vector<StreamsJob*> all;
    for (std::uint32_t tenant = 0; tenant < jobs; ++tenant) {
      all.push_back(&rig.add({.workers = workers, .chunks = kChunks, .tenant = tenant}));
    }
    for (StreamsJob* job : all) {
      for (std::uint32_t worker = 0; worker < workers; ++worker) {
        for (std::uint32_t slot = 0; slot < kChunks; ++slot) job->push(worker, slot);
      }
    }
    CHECK(rig.run());
    std::size_t complete = 0;
    for (StreamsJob* job : all) complete += job->replies(workers - 1);
    CHECK(complete == std::size_t{jobs} * kChunks);
  }
}

TEST_CASE("a worker that sends a byte at a time takes nobody's turn") {
  constexpr std::uint32_t kChunks = 256;
  StreamsRig rig;
  StreamsJob& trickle =
      rig.add({.workers = 1, .chunks = 1, .chunk_bytes = kMaxChunkBytes, .tenant = 1});
  StreamsJob& other =
      rig.add({.workers = 1, .chunks = kChunks, .chunk_bytes = kLarge, .tenant = 2});
  trickle.push_later(0, 0);
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) other.push_later(0, slot);
  std::size_t replies = 0;
  int rounds = 0;
  for (; replies < kChunks && rounds < 4000; ++rounds) {
    trickle.pump(0, 1);
    other.pump(0);
    rig.core->run_once();
    replies += other.replies(0);
  }
  CHECK(replies == kChunks);
  // As many at a time as fit into its stream, while the other's byte is read in between.
  CHECK(rounds < 2000);
}

TEST_CASE("a worker that is ahead is held back until the slowest has caught up") {
  constexpr std::uint32_t kChunks = 400;
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 2, .chunks = kChunks, .chunk_bytes = kLarge});
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) {
    job.push_later(0, slot, 1.0F);
    job.push_later(1, slot, 2.0F);
  }
  std::size_t left = 0;
  for (int rounds = 0; rounds < 1000; ++rounds) {
    left = job.pump(0);
    rig.core->run_once();
  }
  CHECK(left > kChunks / 2 * std::size_t{kLarge});  // it was not read
  CHECK(job.on_core->staging->in_use() < kChunks / 2);
  std::vector<StreamsJob::Reply> replies;
  for (int rounds = 0; rounds < 100'000 && replies.size() < kChunks; ++rounds) {
    job.pump(0);
    job.pump(1);
    rig.core->run_once();
    job.take_replies(0);
    for (const auto& reply : job.take_replies(1)) replies.push_back(reply);
    CHECK(job.on_core->staging->in_use() < kChunks / 2);
  }
  REQUIRE(replies.size() == kChunks);
  for (const auto& reply : replies) CHECK((reply.is_even && reply.value == 3.0F));
  CHECK(job.on_core->staging->in_use() == 0);
}

// The first pushes everything and waits; the other pulls from the last key down, and what it waits
// for is behind the rest in a stream that is not read.
TEST_CASE("a worker that is ahead is not held back while the slowest waits for it") {
  constexpr std::uint32_t kChunks = 400;
  for (const bool is_beside_another : {false, true}) {
    StreamsRig rig;
    StreamsJob& job = rig.add({.workers = 2, .chunks = kChunks, .chunk_bytes = kLarge});
    StreamsJob& busy = rig.add({.workers = 1, .chunks = 1, .tenant = 1});
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) job.push_later(0, slot);
    std::uint32_t pulled = 0;
    bool is_waiting = false;
    for (int rounds = 0; rounds < 100'000 && pulled < kChunks; ++rounds) {
      if (!is_waiting) job.push_later(1, kChunks - 1 - pulled);
      is_waiting = true;
      job.pump(0);
      job.pump(1);
      if (is_beside_another && busy.pump(0) == 0) busy.push_later(0, 0);
      rig.core->run_once();
      job.take_replies(0);
      busy.take_replies(0);
      for (const auto& reply : job.take_replies(1)) {
        CHECK(reply.slot == kChunks - 1 - pulled);
        ++pulled;
        is_waiting = false;
      }
    }
    CHECK(pulled == kChunks);
    // Later it is held back again.
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) job.push_later(0, slot);
    for (int rounds = 0; rounds < 1000; ++rounds) {
      job.pump(0);
      rig.core->run_once();
    }
    CHECK(job.on_core->staging->in_use() < kChunks / 2);
  }
}

// It is let go by a few buffers at a time: what the other waits for is near the front of its
// stream, and the rest is not read for that.
TEST_CASE("staging grows by little more than the slowest waits for") {
  constexpr std::uint32_t kChunks = 400;
  constexpr std::uint32_t kBudget = 20;
  constexpr std::uint32_t kReadAtOnce = 32;  // at most, of a stream before it is held back
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 2, .chunks = kChunks, .chunk_bytes = 4096});
  job.on_core->limit_staging(kBudget);
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) job.push_later(0, slot);
  for (const std::uint32_t wanted : {10U, 60U, 100U}) {
    job.push_later(1, wanted);
    std::size_t replies = 0;
    for (int rounds = 0; rounds < 2000; ++rounds) {
      job.pump(0);
      job.pump(1);
      rig.core->run_once();
      job.take_replies(0);
      replies += job.replies(1);
    }
    CHECK(replies == 1);
    CHECK(job.on_core->staging->in_use() < std::max(kBudget, wanted) + kReadAtOnce);
  }
  // When it has caught up the other is held back where it was at first.
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) {
    if (slot != 10 && slot != 60 && slot != 100) job.push_later(1, slot);
  }
  for (int rounds = 0;
       rounds < 100'000 && job.on_core->shard.updates.chunks_completed.value() < kChunks;
       ++rounds) {
    for (const std::uint32_t worker : {0U, 1U}) {
      job.pump(worker);
      job.take_replies(worker);
    }
    rig.core->run_once();
  }
  REQUIRE(job.on_core->shard.updates.chunks_completed.value() == kChunks);
  for (std::uint32_t slot = 0; slot < kChunks; ++slot) job.push_later(0, slot);
  for (int rounds = 0; rounds < 2000; ++rounds) {
    job.pump(0);
    rig.core->run_once();
  }
  CHECK(job.on_core->staging->in_use() < kBudget + kReadAtOnce);
}

}  // namespace phub::testing
