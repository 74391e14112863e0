// Gradients that are pushed larger than they are, so that what is small survives 16 bits, and what
// becomes of a round in which one was too large for that.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

enum class LossScaling : std::uint8_t {
  kNone,    // gradients are pushed as they are; what is not finite goes into the parameters
            // (rule lars leaves such keys out, whatever the scale)
  kStatic,  // one factor for the whole job; an update with what is not finite is left out
  kVoted,   // a factor of each round, told by a Vote of every worker: all updates of a round are
            // made, or none
};

// Of a factor: what fp32 gradients can be multiplied by and still mean something.
inline constexpr float kLossScaleMin = 1.0F / 1024.0F;
inline constexpr float kLossScaleMax = 16'777'216.0F;  // 2^24

struct LossScale {
  LossScaling kind = LossScaling::kNone;
  float factor = 1.0F;  // kStatic: gradients are pushed so many times too large
  bool operator==(const LossScale&) const = default;
};

// What a worker says after its last gradient of a round, to every core that has chunks of the job.
struct Vote {
  float loss_scale = 1.0F;  // its gradients are so many times too large; the same for all workers
  std::uint32_t overflow = 0;  // 1: one of its gradients is not finite in the wire type; else 0
};
static_assert(sizeof(Vote) == 8, "Vote is a wire format");

inline constexpr Words<LossScaling, 3> kLossScalingWords = {{"none", "static", "voted"}};
constexpr std::string_view name_of(LossScaling kind) { return kLossScalingWords.of(kind); }

}  // namespace phub
