// A Shard of a job with a quorum, without a network: one chunk, all of whose elements are alike.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "server/chunks/shard.h"
#include "server/job/footprint.h"

namespace phub::server {

using Workers = std::vector<std::uint32_t>;

struct QuorumRig {
  JobLayout layout;
  std::unique_ptr<BufferPool> staging;
  std::unique_ptr<Shard> shard;
  std::vector<std::vector<float>> memory;  // by worker, of pushes in place

  QuorumRig(std::uint32_t workers, const RoundPolicy& policy, RuleKind rule = RuleKind::kSum,
            DataType type = DataType::kFloat32)
      : memory(workers, std::vector<float>(100)) {
    PlanInput input;
    input.key_elements = {100};
    input.wire_type = type;
    input.cores_per_server = {1};
    layout.workers = workers;
    layout.wire_type = type;
    layout.rule = rule;
    layout.hyper = {.learning_rate = 1.0F, .gradient_scale = 1.0F};
    layout.deterministic = false;
    layout.rounds = policy;
    layout.weight_decay = {0.0F};
    layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    make_shard();
  }
  void make_shard() {
    shard.reset();
    staging =
        std::move(*BufferPool::create(staging_buffers(layout, 0), staging_buffer_bytes(layout)));
    shard = std::make_unique<Shard>(layout, 0, std::move(*JobMemory::create(layout)), *staging);
  }

  PushResult push(std::uint32_t worker, float value, bool staged = true, float samples = 0.0F) {
    Hyper hyper = layout.hyper;
    hyper.samples = samples;
    std::vector<float>& values = memory[worker];
    std::fill(values.begin(), values.end(), value);
    auto* place = reinterpret_cast<std::byte*>(values.data());
    if (staged || layout.wire_type != DataType::kFloat32) {
      place = staging->take();
      kernels::convert(place, layout.wire_type, reinterpret_cast<std::byte*>(values.data()),
                       DataType::kFloat32, values.size());
    }
    return shard->on_push({.worker = worker,
                           .slot = 0,
                           .data = place,
                           .bytes = shard->push_bytes(0),
                           .staged = place != reinterpret_cast<std::byte*>(values.data()),
                           .hyper = &hyper});
  }
  // The worker has sent hyper-parameters; push() has the layout's.
  void hears_from(std::uint32_t worker) { shard->members.rounds()->hypers.heard_from(worker); }
  // Who is replied to.
  Workers released() const {
    const auto released = shard->members.rounds()->released();
    return {released.begin(), released.end()};
  }
  float result() const {
    std::vector<float> values(100);
    kernels::convert(reinterpret_cast<std::byte*>(values.data()), DataType::kFloat32,
                     shard->updates.replies.whole(0).data(), layout.wire_type, values.size());
    for (const float value : values) REQUIRE(value == values[0]);
    return values[0];
  }
  void start_grace() { shard->members.rounds()->graces.push(0, 7); }
  const LateCounters& late(std::uint32_t worker) const {
    return shard->members.rounds()->late()[worker];
  }
};

inline RoundPolicy backup_workers(std::uint32_t quorum) { return {.quorum = quorum}; }
inline RoundPolicy asynchronous(std::uint32_t staleness = kAnyStaleness) {
  return {.quorum = 1, .staleness = staleness, .late = LatePushes::kAdd};
}

}  // namespace phub::server
