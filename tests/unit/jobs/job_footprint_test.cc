// What admission counts for a job's tables covers what is allocated for them, and is not far above.
#include <malloc.h>

#include <catch2/catch.hpp>

#include "server/connections/connection.h"
#include "server/job/buffer_pool.h"
#include "server/job/footprint.h"
#include "server/job/memory.h"

namespace phub::server {
namespace {

JobLayout layout_of(std::uint64_t elements, std::uint32_t chunk_bytes, std::uint32_t workers,
                    RuleKind rule) {
  JobLayout layout;
  layout.workers = workers;
  layout.rule = rule;
  layout.weight_decay = {0.0F};
  PlanInput input{.key_elements = {elements}, .chunk_bytes = chunk_bytes, .cores_per_server = {1}};
  input.whole_keys = needs_whole_keys(rule);
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
  return layout;
}

// Of the heap, small blocks and large ones.
std::size_t allocated() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// What its only core and its connections allocate, the plan included.
std::size_t tables_of(std::uint64_t elements, std::uint32_t chunk_bytes, std::uint32_t workers,
                      RuleKind rule, const RoundPolicy& rounds = {}) {
  const std::size_t before = allocated();
  JobLayout layout = layout_of(elements, chunk_bytes, workers, rule);
  layout.rounds = rounds;
  const auto memory = std::move(*JobMemory::create(layout));  // mapped: not of the heap
  const auto on_core = std::move(*JobOnCore::create(layout, 0, memory));
  std::vector<std::unique_ptr<Connection>> connections;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    connections.push_back(std::make_unique<Connection>(on_core.get(), worker));
  }
  return allocated() - before;
}

}  // namespace

TEST_CASE("tables by chunk, by push and by connection are counted") {
  for (const RuleKind rule : {RuleKind::kSum, RuleKind::kLars, RuleKind::kLamb}) {
    for (const std::uint32_t workers : {1U, 8U, 64U}) {
      for (const std::uint32_t chunk_bytes : {4096U, 32768U}) {
        INFO("workers " << workers << ", chunks of " << chunk_bytes << ", " << name_of(rule));
        const std::size_t used = tables_of(4 << 20, chunk_bytes, workers, rule);
        const JobLayout layout = layout_of(4 << 20, chunk_bytes, workers, rule);
        CHECK(bytes_of_bookkeeping(layout) >= used);
        CHECK(bytes_of_bookkeeping(layout) <= 3 * used);
      }
    }
  }
}

TEST_CASE("tables of rounds with a quorum are counted") {
  for (const std::uint32_t workers : {2U, 8U, 64U, 1024U}) {
    for (const std::uint32_t staleness : {0U, kAnyStaleness}) {
      INFO("workers " << workers << ", staleness " << staleness);
      const std::uint64_t elements = workers > 64 ? 1 << 16 : 4 << 20;
      const RoundPolicy rounds{.quorum = 1, .staleness = staleness};
      const std::size_t used = tables_of(elements, 4096, workers, RuleKind::kSum, rounds);
      JobLayout layout = layout_of(elements, 4096, workers, RuleKind::kSum);
      layout.rounds = rounds;
      CHECK(bytes_of_bookkeeping(layout) >= used);
      CHECK(bytes_of_bookkeeping(layout) <= 4 * used);
    }
  }
}

TEST_CASE("tables of racks are counted, whatever they send each other") {
  for (const std::uint32_t workers : {1U, 8U}) {
    for (const int kind : {0, 1, 2, 3}) {
      INFO("workers " << workers << ", kind " << kind);
      const std::size_t before = allocated();
      JobLayout layout = layout_of(4 << 20, 4096, workers, RuleKind::kSgd);
      layout.rack = {3, 0, make_rack_trees({"a", "b", "c"}, RackShape::kSpread)};
      if (kind % 2 == 1) layout.rack_compress.density = 0.01F;
      if (kind == 1) layout.loss_scale.kind = LossScaling::kVoted;
      if (kind >= 2) layout.rack_local.steps = 10;
      const auto memory = std::move(*JobMemory::create(layout));
      const auto on_core = std::move(*JobOnCore::create(layout, 0, memory));
      const std::size_t used = allocated() - before;
      CHECK(bytes_of_bookkeeping(layout) >= used);
      CHECK(bytes_of_bookkeeping(layout) <= 5 * used);
    }
  }
}

TEST_CASE("workers of a quorum may push again while their pushes are in sums") {
  for (const std::uint32_t workers : {2U, 4U, 16U}) {
    JobLayout layout = layout_of(1 << 20, 4096, workers, RuleKind::kSgd);
    layout.rounds = {.quorum = 1, .late = LatePushes::kAdd};
    const std::size_t chunks = layout.plan->core_chunks[0][0].size();
    const std::size_t on_their_way = workers;
    CHECK(staging_buffers(layout, 0) >= chunks * workers + chunks + on_their_way);
  }
}

TEST_CASE("what sparse replies take is counted") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    JobLayout layout = layout_of(1 << 20, 32768, 2, RuleKind::kSgd);
    layout.wire_type = type;
    const std::uint64_t dense = bytes_needed(layout);
    layout.encoding = Encoding::kSparse;
    CHECK(bytes_needed(layout) == dense + (1U << 20U) * size_of(type));
    const auto memory = std::move(*JobMemory::create(layout));
    CHECK(memory->arena.elements() * memory->element_bytes() >= bytes_needed(layout));
  }
  const std::size_t before = allocated();
  JobLayout layout = layout_of(4 << 20, 32768, 1, RuleKind::kSgd);
  layout.encoding = Encoding::kSparse;
  const auto memory = std::move(*JobMemory::create(layout));
  const auto on_core = std::move(*JobOnCore::create(layout, 0, memory));
  const Connection connection(on_core.get(), 0);
  CHECK(bytes_of_bookkeeping(layout) >= allocated() - before);
}

TEST_CASE("before a job is planned the least that it takes is known") {
  for (const RuleKind rule : {RuleKind::kSum, RuleKind::kSgd, RuleKind::kLars}) {
    for (const std::uint32_t workers : {1U, 64U}) {
      for (const auto& cores : {std::vector<std::uint32_t>{3}, std::vector<std::uint32_t>{3, 2}}) {
        INFO("workers " << workers << ", servers " << cores.size() << ", " << name_of(rule));
        PlanInput input{.key_elements = {4 << 20, 10, 20},
                        .chunk_bytes = 4096,
                        .cores_per_server = cores,
                        .whole_keys = needs_whole_keys(rule)};
        const Offered offered{.windows = true, .sealing = true, .staging = false};
        JobLayout layout;
        layout.workers = workers;
        layout.rule = rule;
        const std::uint64_t least = bytes_at_least(layout, input, offered);
        layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
        if (cores.size() == 1) CHECK(least == bytes_pinned(layout, offered));
        CHECK(least <= bytes_pinned(layout, offered));
        CHECK(least >= layout.plan->chunks.size() * (sizeof(Chunk) + sizeof(Segment)));
      }
    }
  }
}

TEST_CASE("many workers of a job of one chunk are counted") {
  const std::size_t used = tables_of(1 << 10, 4096, 1024, RuleKind::kSum);
  const std::uint64_t counted =
      bytes_of_bookkeeping(layout_of(1 << 10, 4096, 1024, RuleKind::kSum));
  INFO(used << " bytes are allocated, " << counted << " are counted");
  CHECK(counted >= used);
  CHECK(counted <= 4 * used);
}

TEST_CASE("small chunks and many workers count as what they cost") {
  const JobLayout few = layout_of(64 << 18, 32768, 1, RuleKind::kSum);
  const JobLayout many = layout_of(64 << 18, 4096, 64, RuleKind::kSum);
  const std::uint64_t model = std::uint64_t{64} << 20U;
  CHECK(bytes_needed(few) == model);
  CHECK(bytes_needed(many) == model);
  CHECK(bytes_pinned(few, {}) < model + model / 20);
  CHECK(bytes_pinned(many, {}) > model + model);
}

TEST_CASE("a moving average counts as an array of state, in memory and in a snapshot") {
  JobLayout layout = layout_of(1 << 20, 32768, 2, RuleKind::kAdam);
  const std::uint64_t without = bytes_needed(layout);
  const std::uint64_t copied = bytes_copied(layout);
  layout.ema_decay = 0.9;
  CHECK(bytes_needed(layout) == without + (4U << 20U));
  CHECK(bytes_copied(layout) == copied + (4U << 20U));
  CHECK(bytes_needed(layout) == 4 * (4U << 20U));
  CHECK((*JobMemory::create(layout))->state->size() == 3 * (4U << 20U));
}

TEST_CASE("what a rack keeps back of its sums is there twice, and what it sends is counted") {
  JobLayout layout = layout_of(1 << 20, 32768, 2, RuleKind::kMomentum);
  layout.rack = {2, 0, make_rack_trees({"a", "b"}, RackShape::kSpread)};
  const std::uint64_t whole = bytes_needed(layout);
  const std::uint64_t copied = bytes_copied(layout);
  layout.rack_wire_type = DataType::kBfloat16;
  CHECK(bytes_needed(layout) == whole + 2 * (4U << 20U));
  CHECK(bytes_copied(layout) == copied + (4U << 20U));
  CHECK((*JobMemory::create(layout))->state->size() == 3 * (4U << 20U));
  layout.rack_wire_type = DataType::kFloat32;
  layout.rack_compress.density = 0.01F;
  CHECK(bytes_needed(layout) == whole + 2 * (4U << 20U));
  CHECK(bytes_copied(layout) == copied + (4U << 20U));
  CHECK((*JobMemory::create(layout))->state->size() == 3 * (4U << 20U));
  CHECK(staging_buffer_bytes(layout) == 32768 + sizeof(Hyper));
}

TEST_CASE("a snapshot takes as much as its copy") {
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kMomentum, RuleKind::kAdam}) {
    const JobLayout layout = layout_of(1 << 20, 32768, 2, rule);
    const auto copy = std::move(*JobCopy::create(*layout.plan, 0, state_arrays(rule)));
    const std::size_t state = copy->state ? copy->state->size() : 0;
    CHECK(bytes_copied(layout) == copy->parameters->size() + state);
  }
}

// A sixteenth of it, by arithmetic: all tables are by chunk, by push, or small.
TEST_CASE("a model of 400 GB in chunks of 32 KiB with 8 workers has tables of a few percent") {
  JobLayout layout;
  layout.workers = 8;
  PlanInput input{.key_elements = std::vector<std::uint64_t>(25, 250'000'000),
                  .chunk_bytes = 32768,
                  .cores_per_server = {4}};
  layout.weight_decay.assign(25, 0.0F);
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
  CHECK(layout.plan->chunks.size() * 16 <= kMaxChunks);
  CHECK(bytes_of_bookkeeping(layout) * 16 < 15'000'000'000);
}

TEST_CASE("staging counts where tcp is offered, up to where workers are held back") {
  const JobLayout small = layout_of(1 << 10, 4096, 2, RuleKind::kSum);
  CHECK(bytes_of_staging(small) == 2 * BufferPool::stride_of(4096));
  const JobLayout alone = layout_of(64 << 18, 32768, 1, RuleKind::kSum);
  CHECK(bytes_of_staging(alone) == 32 * BufferPool::stride_of(32768));  // read, and not served yet
  const JobLayout large = layout_of(64 << 18, 32768, 4, RuleKind::kSum);
  const std::size_t budget = (4U << 20U) / 32768 + 4 * kChunksAhead;
  CHECK(bytes_of_staging(large) == (budget + 15 + 4 * 17) * BufferPool::stride_of(32768));
  CHECK(bytes_pinned(large, {.staging = true}) ==
        bytes_pinned(large, {}) + bytes_of_staging(large));
}

TEST_CASE("where pushes are not dense all of them may be staged, whatever brings them") {
  for (const Encoding encoding : {Encoding::kSparse, Encoding::kInt8, Encoding::kInt4}) {
    JobLayout layout = layout_of(64 << 18, 32768, 4, RuleKind::kSum);
    const std::uint64_t dense = bytes_pinned(layout, {});
    layout.encoding = encoding;
    CHECK(bytes_of_staging(layout) >=
          layout.plan->chunks.size() * (4 - 1) * BufferPool::stride_of(32768));
    CHECK(bytes_pinned(layout, {}) == dense + bytes_of_staging(layout));
  }
}

TEST_CASE("with a quorum a sum of each chunk may be staged, whatever brings its pushes") {
  JobLayout layout = layout_of(64 << 18, 32768, 4, RuleKind::kSum);
  layout.rounds = {.quorum = 3};
  const std::size_t chunks = layout.plan->chunks.size();
  const std::size_t buffer = BufferPool::stride_of(32768);
  CHECK(bytes_of_staging(layout) == (chunks + 15 + 4 * 17) * buffer);
  const std::uint64_t dense = bytes_pinned(layout, {});
  CHECK(bytes_pinned(layout, {.staging = true}) - dense == (15 + 4 * 17) * buffer);
  layout.encoding = Encoding::kSparse;
  CHECK(bytes_of_staging(layout) == (chunks + 15 + 4 * 17) * buffer);
  CHECK(bytes_pinned(layout, {}) - dense == (15 + 4 * 17) * buffer);
  layout.rounds = {};
  layout.encoding = Encoding::kDense;
  CHECK(dense - bytes_pinned(layout, {}) >= chunks * buffer);
}

}  // namespace phub::server
