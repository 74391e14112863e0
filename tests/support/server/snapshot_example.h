// A job to take snapshots of, for tests of their files.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "server/snapshot/file.h"
#include "server/snapshot/store.h"

namespace phub::testing {

using namespace server;  // NOLINT(google-build-using-namespace): what the tests are about

inline TensorFile whole(const SnapshotParts& parts) {
  TensorFile file{.tensors = {}, .metadata = parts.metadata};
  for (const TensorView& tensor : parts.tensors) {
    file.tensors.push_back({.name = tensor.name,
                            .shape = tensor.shape,
                            .values = {tensor.values, tensor.values + tensor.elements}});
  }
  return file;
}

// A job whose parameters are the arena's element numbers, plus a part that 16 bits cannot hold;
// what one of its servers has of it.
struct Example {
  explicit Example(std::vector<std::uint32_t> cores = {1}, DataType wire = DataType::kFloat32,
                   std::uint32_t server = 0, RuleKind rule = RuleKind::kMomentum,
                   double ema_decay = 0.0) {
    spec.name = "demo";
    spec.wire_type = wire;
    spec.rule = rule;
    spec.ema_decay = ema_decay;
    spec.keys = {{"a", 50'000}, {"b", 7}, {"c", 20'001}};
    auto made = std::make_shared<Plan>(std::move(*make_plan(plan_input(spec, cores))));
    copied.layout.plan = made;
    copied.layout.rule = spec.rule;
    copied.layout.ema_decay = ema_decay;
    auto filled = std::move(*JobCopy::create(*made, server, state_arrays(rule, ema_decay)));
    filled->round = 7;
    for (const Chunk& chunk : made->chunks) {
      if (chunk.server == server) fill(*filled, chunk);
    }
    values = filled;
    copied.copy = filled;
  }
  static void fill(const JobCopy& copy, const Chunk& chunk) {
    for (std::uint64_t i = chunk.arena_offset; i < chunk.arena_offset + chunk.elements; ++i) {
      *copy.parameters_at(i) = static_cast<float>(i) + 0.25F;
      for (unsigned array = 0; array < copy.state_arrays; ++array) {
        *copy.state_at(i, array) = state_of(i, array);
      }
    }
  }
  static float state_of(std::uint64_t element, unsigned array) {
    return -static_cast<float>(element) - 0.0625F * static_cast<float>(array + 1);
  }
  const Plan& plan() const { return *copied.layout.plan; }
  SnapshotHead head() const {
    return {.spec = spec, .tenant = "red", .round = 7, .created = "now", .sha256 = {}};
  }
  TensorFile file(std::uint32_t server = 0) const {
    return whole(*snapshot_parts(head(), *copied.copy, plan(), server));
  }
  JobSpec spec;
  std::shared_ptr<JobCopy> values;
  CopiedJob copied;  // of these
};

inline bool has_all(const JobCopy& copy, const Plan& plan, std::uint32_t server) {
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server != server) continue;
    for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
      const Segment& segment = plan.segments[chunk.first_segment + i];
      for (std::uint64_t e = 0; e < segment.elements; ++e) {
        const std::uint64_t at = plan.key_offset[segment.key] + segment.key_offset + e;
        if (*copy.parameters_at(at) != static_cast<float>(at) + 0.25F) return false;
        for (unsigned array = 0; array < copy.state_arrays; ++array) {
          if (*copy.state_at(at, array) != Example::state_of(at, array)) return false;
        }
      }
    }
  }
  return true;
}

inline std::unique_ptr<SnapshotStore> store_in(const std::filesystem::path& folder,
                                               std::uint32_t kept) {
  return std::move(*SnapshotStore::create({.folder = folder, .kept = kept}));
}

}  // namespace phub::testing
