// Racks that do not wait long for each other, driven one by one.
#pragma once

#include <chrono>
#include <cstring>
#include <vector>

#include "tests/support/server/racks/racks_rig.h"

namespace phub::testing {

inline constexpr std::uint32_t kOpenSteps = 3;
inline constexpr std::uint32_t kNever = 600'000;  // ms
inline constexpr std::uint32_t kSoon = 20;

inline RacksOptions open_racks(std::uint32_t quorum, std::uint32_t wait_ms) {
  return {.workers = {1, 1},
          .rule = RuleKind::kSgd,
          .keys = 3,
          .key_elements = 1500,
          .rack_local = {.steps = kOpenSteps,
                         .learning_rate = 1.0F,
                         .momentum = 0.0F,
                         .quorum = quorum,
                         .wait_ms = wait_ms}};
}

inline const server::OuterRounds& rounds_of(RacksRig& rig, std::uint32_t rack) {
  return rig.job(rack).shard.open->rounds;
}

// Runs one rack, while the others' threads have other work, until `is_over`.
template <typename Is>
void run_alone(RacksRig& rig, std::uint32_t rack, Is is_over) {
  const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
  while (!is_over()) {
    rig.core(rack).run_once();
    for (std::uint32_t index = 0; index < rig.workers(rack); ++index)
      rig.worker(rack, index).poll();
    PHUB_CHECK(std::chrono::steady_clock::now() < deadline, "the rack goes on by itself");
  }
}

// The rack's workers make `rounds` rounds.
inline void train_alone(RacksRig& rig, std::uint32_t rack, std::uint32_t rounds) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::size_t due = rig.worker(rack, 0).replies + rig.plan->chunks.size();
    for (std::uint32_t slot = 0; slot < rig.plan->chunks.size(); ++slot) rig.push(rack, slot);
    run_alone(rig, rack, [&] { return rig.worker(rack, 0).replies == due; });
  }
}

// Takes what other racks have sent, and makes the outer steps for which the time is over.
inline void rest(RacksRig& rig, std::uint32_t rack) {
  for (int i = 0; i < 200; ++i) rig.core(rack).run_once();
  run_alone(rig, rack, [&] { return rounds_of(rig, rack).waits.empty(); });
}

inline void fill_gradients(RacksRig& rig, std::uint32_t rack, float value) {
  for (std::uint32_t index = 0; index < rig.workers(rack); ++index) {
    auto& gradients = rig.worker(rack, index).gradients;
    std::vector<float> wide(gradients.size() / sizeof(float), 0.0F);
    for (std::size_t i = rack; i < wide.size(); i += 4) wide[i] = value;
    std::memcpy(gradients.data(), wide.data(), gradients.size());
  }
}

}  // namespace phub::testing
