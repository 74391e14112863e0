// Replies that have only what changed of a chunk: what a worker takes, and what it does not.
#include "common/exchange/due_replies.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "common/protocol/wire.h"
#include "tests/support/server/sparse_bytes.h"

namespace phub::client {
namespace {

using transport::Loss;

// A worker that waits for the reply to its only chunk.
struct Waiting {
  static constexpr std::uint32_t kElements = 64;

  Waiting()
      : plan(*make_plan(
            {.key_elements = {kElements}, .chunk_bytes = 4096, .cores_per_server = {1}})),
        replies(plan, DataType::kFloat32),
        arena(kElements, 7.0F),
        sparse(kElements, 0.0F) {
    replies.land_in(reinterpret_cast<std::byte*>(arena.data()));
    replies.push(0, [](const Chunk&) {});
  }
  void accept_sparse() { replies.land_sparse_in(reinterpret_cast<std::byte*>(sparse.data())); }

  Loss reply(const std::vector<std::byte>& bytes) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    const std::uint32_t immediate = wire::reply(0, 1, false);
    std::byte* const place = replies.place(plan.core_chunks[0][0], immediate, size);
    if (place == nullptr) return Loss::kRefused;
    std::memcpy(place, bytes.data(), bytes.size());
    return replies.take(plan.core_chunks[0][0], {.kind = transport::CompletionKind::kArrived,
                                                 .peer = 0,
                                                 .immediate = immediate,
                                                 .bytes = size,
                                                 .data = place});
  }

  Plan plan;
  DueReplies replies;
  std::vector<float> arena, sparse;
};

TEST_CASE("what changed is written where it is, and nothing else is touched") {
  Waiting worker;
  worker.accept_sparse();
  CHECK(worker.reply(testing::sparse_bytes_of({0, 5, 63}, 2.0F)) == Loss::kNone);
  CHECK(worker.replies.ready(0));
  for (std::uint32_t i = 0; i < Waiting::kElements; ++i) {
    CHECK(worker.arena[i] == (i == 0 || i == 5 || i == 63 ? 2.0F : 7.0F));
  }
  worker.replies.push(0, [](const Chunk&) {});
  CHECK(worker.reply(testing::sparse_bytes_of({}, 0.0F)) == Loss::kNone);
  worker.replies.push(0, [](const Chunk&) {});
  const std::vector<std::byte> whole(Waiting::kElements * sizeof(float));
  CHECK(worker.reply(whole) == Loss::kNone);
  CHECK(worker.arena == std::vector<float>(Waiting::kElements));
}

TEST_CASE("what is no reply changes no parameter") {
  const std::vector<std::vector<std::byte>> wrong = {
      std::vector<std::byte>(3),  // has no count
      std::vector<std::byte>(5),  // a count of 0, and more
      testing::sparse_bytes_of({5, 5}, 2.0F), testing::sparse_bytes_of({6, 5}, 2.0F),
      testing::sparse_bytes_of({Waiting::kElements}, 2.0F)};
  for (const auto& bytes : wrong) {
    Waiting worker;
    worker.accept_sparse();
    CHECK(worker.reply(bytes) == Loss::kBadLength);
    CHECK_FALSE(worker.replies.ready(0));
    CHECK(worker.arena == std::vector<float>(Waiting::kElements, 7.0F));
  }
}

TEST_CASE("replies of a job without sparse pushes are whole") {
  Waiting worker;
  CHECK(worker.reply(testing::sparse_bytes_of({1}, 2.0F)) == Loss::kRefused);
  worker.accept_sparse();
  CHECK(worker.reply(std::vector<std::byte>(Waiting::kElements * sizeof(float) + 4)) ==
        Loss::kRefused);
  // One that lies elsewhere, as over shm, is whole too.
  std::vector<std::byte> bytes = testing::sparse_bytes_of({1}, 2.0F);
  CHECK(worker.replies.take(worker.plan.core_chunks[0][0],
                            {.kind = transport::CompletionKind::kArrived,
                             .peer = 0,
                             .immediate = wire::reply(0, 1, false),
                             .bytes = static_cast<std::uint32_t>(bytes.size()),
                             .data = bytes.data()}) == Loss::kBadLength);
}

TEST_CASE("until it is pushed again a chunk has one reply") {
  Waiting worker;
  worker.accept_sparse();
  CHECK(worker.reply(testing::sparse_bytes_of({1}, 2.0F)) == Loss::kNone);
  CHECK(worker.reply(testing::sparse_bytes_of({1}, 3.0F)) == Loss::kRefused);
  CHECK(worker.arena[1] == 2.0F);
}

}  // namespace
}  // namespace phub::client
