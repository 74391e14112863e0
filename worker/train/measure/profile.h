// Where a training step goes: time by layer and pass, memory by purpose, operations against a peak.
//
// Steps are those of a training, on one batch of noise: forward, loss, backward; each key is pushed
// as soon as its gradient is there and waited for when the next forward needs it, in this process
// or through servers. A function; the calling thread becomes the compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"
#include "worker/train/backends.h"
#include "worker/train/session.h"

namespace phub::train {

struct ProfileOptions {
  ExecutorOptions executor{.batch = 64};
  std::uint32_t warm_up = 2;  // steps that are not timed
  std::uint32_t steps = 10;
  std::uint64_t seed = 1;
  double peak_flops = 0.0;  // operations a second that the machine could do; 0: measured
};

// Medians over the steps, in seconds.
struct LayerProfile {
  std::string name;
  std::string kind;
  double forward = 0.0;
  double backward = 0.0;            // with the adding up of gradients by its inputs
  double push = 0.0;                // handing its gradients over; without servers the update itself
  double wait = 0.0;                // for its parameters, before its forward
  std::uint64_t forward_flops = 0;  // of the batch
  std::uint64_t backward_flops = 0;
  std::vector<std::uint64_t> key_bytes = {};  // of its gradients in fp32, key by key
};

// Bytes, split as in Zhu et al., "Benchmarking and analyzing deep neural network training" (TBD),
// 2018, section 3.4.
struct MemoryProfile {
  std::uint64_t weights = 0;       // parameters and running statistics
  std::uint64_t gradients = 0;     // of the parameters
  std::uint64_t feature_maps = 0;  // layers' outputs and the gradients by them
  // What else the backend allocated when the network was made: scratch memory, masks, copies of
  // weights in its own layouts.
  std::uint64_t workspace = 0;
  // The optimizer's state, where it is in this process, and the batch on its way in.
  std::uint64_t dynamic = 0;
};

// A piece of the time line.
struct ProfileSpan {
  enum class Kind { kForward, kBackward, kPush, kWait, kLoss };
  Kind kind;
  std::size_t layer;  // of kLoss: none
  double start;       // seconds since the first timed step began
  double seconds;
};

struct Profile {
  std::vector<LayerProfile> layers;
  double step = 0.0;  // medians of whole steps
  double loss = 0.0;
  MemoryProfile memory;
  double peak_flops = 0.0;
  bool peak_is_measured = false;
  std::vector<ProfileSpan> spans;

  std::uint64_t flops() const;  // of a step
  double utilisation() const { return static_cast<double>(flops()) / step / peak_flops; }
};

// `on_step` is called after each step, with its number from 1, those of the warm-up included.
// Errors name the option; the exchange's.
Result<Profile> profile(const nn::Graph& graph, const ProfileOptions& options,
                        const ExchangeFactory& factory,
                        const std::function<void(std::uint32_t)>& on_step);

}  // namespace phub::train
