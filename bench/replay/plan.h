// What a replay's workers do: the layers of one training step, how long each computes, and the keys
// whose gradients it exchanges.
//
// Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/simulate/schedule.h"
#include "bench/simulate/trace.h"
#include "common/base/dtype.h"
#include "common/base/status.h"

namespace phub::bench::replay {

using simulate::Policy;

// What a client can really do; the others of simulate's policies merge messages, which it does not.
inline constexpr std::string_view kPolicies[] = {"priority", "wfbp", "bsp"};
// REQUIRES: one of kPolicies.
Policy policy_of(std::string_view word);

struct ReplayLayer {
  std::string name;
  double forward = 0.0;               // seconds
  double backward = 0.0;              // seconds
  std::vector<std::uint64_t> keys{};  // elements of each of its gradients
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReplayLayer, name, forward, backward, keys)

struct ReplayPlan {
  std::string network;  // a model, or a trace's file
  std::string times;    // where its times are from, in words
  double shrink = 1.0;  // every key is this many times smaller than the network's
  double loss = 0.0;    // seconds between forward and backward
  Policy policy = Policy::kPriority;
  std::vector<ReplayLayer> layers{};  // in forward order

  std::vector<std::uint64_t> keys() const;  // elements, in forward order
  std::uint64_t elements() const;
  double compute() const;  // seconds of an iteration
  // What simulate predicts an iteration from.
  simulate::LayerTrace trace(DataType wire) const;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReplayPlan, network, times, shrink, loss, policy, layers)

// What the times of a built-in network are shared out by.
inline constexpr std::string_view kSpreads[] = {"flops", "bytes"};

// A trace's file, or the name of a built-in network and the times of all its layers.
struct PlanSource {
  std::string trace{};         // see simulate/trace.h; a key for each layer with gradients
  double forward_ratio = 0.0;  // of backward, where the trace has no forward
  std::string model{};         // see worker/nn/models; its real keys
  double forward = 0.0;        // seconds, of `model`
  double backward = 0.0;
  std::string spread = "flops";  // one of kSpreads
  double shrink = 1.0;           // at least 1
  Policy policy = Policy::kPriority;
};

// Errors: kInvalidArgument (kNotFound: no such file) names the file and its line, the models there
// are, or what cannot be exchanged.
Result<ReplayPlan> plan_of(const PlanSource& source);

// The layers of a network that have parameters or operations. Forward and backward seconds are
// shared out over them in proportion to their operations (a multiply-add is two; backward has up to
// twice forward's), or to their parameters' bytes. REQUIRES: spread of kSpreads.
Result<std::vector<ReplayLayer>> model_layers(const PlanSource& source);

}  // namespace phub::bench::replay
