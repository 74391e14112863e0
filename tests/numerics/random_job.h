// A random job that the table of contradictions takes, what its workers push, and on which servers:
// racks have other numbers of cores. A seed decides all of it.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "common/job/check.h"
#include "tests/support/server/random_spec.h"
#include "worker/client/phub.h"

namespace phub::testing {

struct RandomJob {
  std::uint64_t seed = 0;
  JobSpec spec;
  std::uint32_t servers = 1;      // of each rack
  std::uint32_t cores = 1;        // of each server
  std::uint32_t other_cores = 1;  // of the second rack's
  std::string transport = "tcp";
  std::string rack_transport = "tcp";
  std::uint32_t rounds = 4;  // after the initial one

  bool is_ordered() const { return spec.rounds.waits_for_all(); }
  bool votes() const { return spec.loss_scale.kind == LossScaling::kVoted; }

  // In round 2 the last worker votes that a gradient overflowed. Racks that make rounds by
  // themselves leave it out by themselves.
  bool is_skipped(std::uint32_t round, std::uint32_t rack) const {
    const bool concerns = !spec.rack_local.is_on() || rack + 1 == spec.racks.size();
    return votes() && round == 2 && concerns;
  }
  // Returns the loss scale of the worker's gradients. Racks that make rounds by themselves have
  // scales of their own.
  float scale(std::uint32_t round, std::uint32_t worker) const {
    const std::uint32_t own = spec.rack_local.is_on() ? rack_of(worker) : 0;
    return votes() ? static_cast<float>(1U << ((round + own) % 3)) : spec.loss_scale.factor;
  }
  // The worker's rack; 0 where there is one.
  std::uint32_t rack_of(std::uint32_t worker) const {
    std::uint32_t rack = 0;
    while (rack < spec.racks.size() && worker >= spec.racks[rack].workers) {
      worker -= spec.racks[rack++].workers;
    }
    return rack;
  }
  std::uint32_t first_worker(std::uint32_t rack) const {
    std::uint32_t first = 0;
    for (std::uint32_t i = 0; i < rack; ++i) first += spec.racks[i].workers;
    return first;
  }
  // The worker whose hyper-parameters hold for this one.
  std::uint32_t leader_of(std::uint32_t worker) const {
    return spec.rack_local.is_on() ? first_worker(rack_of(worker)) : 0;
  }
  // Worker 0 says another one in the last round.
  float rate(std::uint32_t round) const {
    return round + 1 < rounds ? spec.hyper.learning_rate : spec.hyper.learning_rate / 2;
  }

  // Exact in 16 bits, and so are their sums.
  double parameter(std::uint64_t i) const {
    return static_cast<double>(static_cast<std::int64_t>(i % 15) - 7) / 8.0;
  }
  // A unit that an encoding's scale for a block of 64 divides: what is 0 stays 0, whatever a rule
  // divides by. Sums of int8's have up to ten bits, which racks that send bfloat16 round
  // (roots_oracle.h).
  double unit() const {
    if (spec.encoding == Encoding::kInt8) return 127.0 / 1024.0;
    return spec.encoding == Encoding::kInt4 ? 7.0 / 64.0 : 1.0 / 8.0;
  }
  // Exact in each encoding: of a block all have one magnitude, or are 0. With a sparse one fewer
  // elements are not 0 than it carries.
  double gradient(std::uint32_t worker, std::uint64_t i, std::uint32_t round) const {
    const bool is_sparse = spec.encoding == Encoding::kSparse || spec.rack_compress.is_on();
    if (is_sparse && i % 16 != round % 16) return 0.0;
    if (i % 5 == 3) return 0.0;
    const std::uint32_t magnitude = is_ordered() ? 1U << ((worker + round) % 3) : 1;
    const bool is_negative = (i / 7 + (is_ordered() ? worker : 0)) % 2 == 1;
    return static_cast<double>(magnitude) * (is_negative ? -1.0 : 1.0) * unit();
  }
  double pushed(std::uint32_t worker, std::uint64_t i, std::uint32_t round) const {
    return is_elastic(spec.rule) ? parameter(i + 1 + worker) : gradient(worker, i, round);
  }
};

inline RandomJob random_job(std::uint64_t seed) {
  RandomSpec specs(seed);
  std::mt19937_64 random(seed);
  const auto pick = [&random](std::uint32_t count) {
    return static_cast<std::uint32_t>(random() % count);
  };
  RandomJob job;
  job.seed = seed;
  do {
    job.spec = specs.next();
    job.spec.name = "random-" + std::to_string(seed);
    job.spec.keys = {{"a", 1 + pick(9000)}, {"b", 1 + pick(300)}, {"c", 1 + pick(9000)}};
    // Differences of parameters have no zeros, so that they go whole here.
    if (job.spec.rack_local.is_on() && job.spec.rack_compress.is_on()) {
      job.spec.rack_compress.dense_below = 1U << 20U;
    }
    // Racks that go on by themselves have exact parameters here as long as none is late.
    if (job.spec.rack_local.goes_on()) {
      job.spec.rack_local.wait_ms = kGraceMsMax;
      job.spec.rounds = {};
    }
    // Where time decides which pushes a round has, a mean of equal ones is known all the same.
    const bool is_ordered = job.spec.rounds.waits_for_all();
    if (!is_ordered) job.spec.hyper.gradient_scale = 0.0F;
    if (!is_ordered && job.spec.rounds.late == LatePushes::kDrop) {
      job.spec.rounds.patience_ms = 100;
    }
    const bool decays = is_ordered && has_parameters(job.spec.rule) && !is_elastic(job.spec.rule);
    for (KeySpec& key : job.spec.keys) {
      if (decays && pick(2) == 0) key.weight_decay = 0.0625F;
      if (needs_whole_keys(job.spec.rule)) key.exclude_from_lars = pick(2) == 0;
    }
  } while (!validate(job.spec).ok());
  job.servers = job.spec.rounds.hogwild ? 1 : 1 + pick(2);
  job.cores = 1 + pick(2);
  job.rounds = 3 + pick(3);
  job.other_cores = 1 + pick(3);
  if (job.spec.rounds.hogwild || (job.spec.tcp_streams == 1 && pick(2) == 0)) job.transport = "shm";
  // Racks that do not wait for each other are joined by tcp.
  const bool has_tcp_alone = job.spec.rack_local.goes_on() || job.other_cores != job.cores;
  if (!has_tcp_alone && pick(2) == 0) job.rack_transport = "shm";
  return job;
}

inline ClientOptions options_of(const RandomJob& job) {
  ClientOptions options;
  options.job = job.spec;
  options.transport = job.transport;
  options.compress = {.encoding = job.spec.encoding, .density = 0.25F, .dense_below = 100};
  return options;
}

}  // namespace phub::testing
