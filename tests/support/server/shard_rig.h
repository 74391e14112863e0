// A Shard without a network: pushes of chosen values, in any order, staged or in place.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "common/protocol/crc32c.h"
#include "kernels/reference.h"
#include "server/chunks/shard.h"
#include "server/job/footprint.h"
#include "tests/support/rule_specification.h"

namespace phub::testing {

// A job with a sliced key between small ones, on one core. `plan` is made from the layout.
inline server::JobLayout deferred_layout(RuleKind rule, std::uint32_t workers, DataType type) {
  server::JobLayout layout;
  layout.workers = workers;
  layout.wire_type = type;
  layout.rule = rule;
  layout.hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};
  layout.weight_decay = {0.1F, 0.01F, 0.0F, 0.1F, 0.0F};
  layout.lars = {.coefficient = 0.02F, .epsilon = 1e-6F};
  layout.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
  layout.exclude_from_lars = {false, false, true, false, true};
  layout.plan =
      std::make_shared<const Plan>(std::move(*make_plan({.key_elements = {3, 5000, 17, 2000, 1},
                                                         .wire_type = type,
                                                         .chunk_bytes = 4096,
                                                         .cores_per_server = {1},
                                                         .whole_keys = needs_whole_keys(rule)})));
  return layout;
}

class ShardRig {
 public:
  using Value = RuleSpecification::Value;

  explicit ShardRig(const server::JobLayout& of)
      : layout(of),
        memory(std::move(*server::JobMemory::create(layout))),
        staging(std::move(*server::BufferPool::create(server::staging_buffers(layout, 0),
                                                      server::staging_buffer_bytes(layout)))) {
    shard = std::make_unique<server::Shard>(layout, 0, memory, *staging);
    in_place_.resize(layout.workers * shard->chunks());
  }

  server::PushResult push(std::uint32_t worker, std::uint32_t slot, bool staged,
                          const Value& value) {
    const Plan& plan = *layout.plan;
    const Chunk& chunk = plan.chunks[plan.core_chunks[0][0][slot]];
    std::vector<float> values;
    for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
      const Segment& segment = plan.segments[chunk.first_segment + s];
      for (std::uint64_t i = 0; i < segment.elements; ++i) {
        values.push_back(value(worker, segment.key, segment.key_offset + i));
      }
    }
    const std::uint32_t bytes = shard->push_bytes(slot);
    std::byte* place = nullptr;
    if (staged) {
      place = staging->take_for_push();
      REQUIRE(place != nullptr);
    } else {
      auto& kept = in_place_[slot * layout.workers + worker];
      kept.resize(bytes + sizeof(std::uint32_t));
      place = kept.data();
    }
    kernels::reference::convert(place, layout.wire_type,
                                reinterpret_cast<const std::byte*>(values.data()),
                                DataType::kFloat32, values.size());
    return arrive(worker, slot, {place, bytes}, staged);
  }

  // Of a job with checksums the push has room behind it for one.
  server::PushResult arrive(std::uint32_t worker, std::uint32_t slot, std::span<std::byte> push,
                            bool staged) {
    if (layout.checksums) {
      const std::uint32_t checksum = crc32c(push);
      std::memcpy(push.data() + push.size(), &checksum, sizeof(checksum));
      if (on_checked) on_checked(worker, slot, push);
    }
    return shard->on_push({.worker = worker,
                           .slot = slot,
                           .data = push.data(),
                           .bytes = static_cast<std::uint32_t>(push.size()),
                           .staged = staged,
                           .hyper = &layout.hyper});
  }

  // Every push of a round in a random order, each staged or not; what is due is updated between.
  void push_all(std::mt19937& random, const Value& value) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pushes;
    for (std::uint32_t w = 0; w < layout.workers; ++w) {
      for (std::uint32_t slot = 0; slot < shard->chunks(); ++slot) pushes.emplace_back(w, slot);
    }
    std::shuffle(pushes.begin(), pushes.end(), random);
    for (const auto& [worker, slot] : pushes) {
      const server::PushResult result = push(worker, slot, random() % 2 == 0, value);
      if (result == server::PushResult::kCompleted) ++completed;
      if (random() % 3 == 0) update_due(1 + static_cast<std::uint32_t>(random() % 4));
    }
  }

  // So many at most; which.
  std::vector<std::uint32_t> update_due(std::uint32_t count) {
    std::vector<std::uint32_t> slots;
    while (slots.size() < count && shard->updates.has_due())
      slots.push_back(shard->updates.update_due().first);
    completed += slots.size();
    return slots;
  }
  void update_all_due() {
    while (shard->updates.has_due()) update_due(3);
  }

  std::vector<float> reply(std::uint32_t slot) const {
    const auto bytes = shard->updates.replies.whole(slot);
    std::vector<float> values(bytes.size() / size_of(layout.wire_type));
    kernels::reference::convert(reinterpret_cast<std::byte*>(values.data()), DataType::kFloat32,
                                bytes.data(), layout.wire_type, values.size());
    return values;
  }

  // Whether every reply has the specification's bits.
  bool agrees(const RuleSpecification& specification) const {
    const Plan& plan = *layout.plan;
    for (std::uint32_t slot = 0; slot < shard->chunks(); ++slot) {
      const Chunk& chunk = plan.chunks[plan.core_chunks[0][0][slot]];
      const std::vector<float> values = reply(slot);
      for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
        const Segment& segment = plan.segments[chunk.first_segment + s];
        for (std::uint64_t i = 0; i < segment.elements; ++i) {
          const float wanted = specification.parameter(segment.key, segment.key_offset + i);
          if (values[segment.chunk_offset + i] != wanted) return false;
        }
      }
    }
    return true;
  }

  server::JobLayout layout;
  std::shared_ptr<server::JobMemory> memory;
  std::unique_ptr<server::BufferPool> staging;
  std::unique_ptr<server::Shard> shard;
  std::size_t completed = 0;  // chunks, since the test last looked
  // Called when a push has its checksum, before it is pushed; may change it.
  std::function<void(std::uint32_t worker, std::uint32_t slot, std::span<std::byte> push)>
      on_checked;

 private:
  std::vector<std::vector<std::byte>> in_place_;  // by chunk and worker
};

// Values of both signs that differ by worker, key, element and round.
inline RuleSpecification::Value noise(std::uint32_t round, float size = 1.0F) {
  return [=](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
    const auto mixed =
        static_cast<std::uint32_t>(i * 2654435761U + worker * 40503U + key * 9973U + round * 7919U);
    return size * (static_cast<float>((mixed >> 8) % 2001) - 1000.0F) / 1000.0F;
  };
}

// The specification of the rig's job, when both have the same initial values.
inline RuleSpecification initialised(ShardRig& rig, std::mt19937& random) {
  RuleSpecification specification(rig.layout);
  specification.initialise(noise(0));
  rig.push_all(random, noise(0));
  return specification;
}

}  // namespace phub::testing
