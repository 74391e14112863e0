// Exchanges for workers that make steps of their own between exchanges: each has parameters and an
// optimizer of its own, and what goes to the servers is no gradient.
//
// They stand between the trainer and two other exchanges: `own`, in this process, makes the local
// steps; `outer` is what the workers share. The trainer sees the worker's own parameters. Belongs
// to the trainer's thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/base/words.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/outer_schedule.h"

namespace phub::train {

enum class Payload : std::uint8_t {
  kGradient,  // one step for all: no local steps
  kDelta,     // how far the worker has moved from the shared parameters
  kWeights,   // the worker's own parameters
};
inline constexpr Words<Payload, 3> kPayloadWords = {{"gradient", "delta", "weights"}};
constexpr auto parse_payload(std::string_view word) { return kPayloadWords.parse(word); }

struct LocalStepsParts {
  std::unique_ptr<GradientExchange> own;    // make_local_exchange
  std::unique_ptr<GradientExchange> outer;  // of keys without weight decay
};

struct DeltaOptions {
  OuterScheduleOptions schedule = {};
  std::vector<std::uint32_t> fragments = {};  // by key: fragments_of
  Hyper hyper = {};                           // of the outer rule; gradient_scale 0: 1 / workers
  // A worker takes (1 - mix) of the new shared parameters and keeps mix of its own. 0: all.
  float mix = 0.0F;
};

// DiLoCo (Douillard et al., arXiv 2311.08105), with fragments, overlap and mixing as in Streaming
// DiLoCo (arXiv 2501.18512). After H local steps a key's delta, shared - own, is pushed as if it
// were a gradient; the outer rule makes new shared parameters of all workers' mean, which take the
// place of the worker's own. With H = 1, sgd at both ends and a rate of 1 at the outer one that is
// training by gradients, but for rounding.
std::unique_ptr<GradientExchange> make_delta_exchange(LocalStepsParts parts,
                                                      const DeltaOptions& options);

struct ElasticOptions {
  // overlap_steps: from the push, before the first of them, to when the reply is needed; up to
  // local_steps.
  OuterScheduleOptions schedule = {};
  std::vector<std::uint32_t> fragments = {};  // by key: fragments_of
  // learning_rate is the elasticity, at both ends; gradient_scale 0: 1 / workers.
  Hyper hyper = {};
};

// The EASGD family (Zhang et al., arXiv 1412.6651; You, Buluc, Demmel, SC 2017): every local_steps
// steps a worker pushes its parameters, and both they and the centre move to each other. `own` is
// any rule: sgd is EASGD, momentum MEASGD. `outer` has rule elastic. The overlap changes no bit
// where rounds have every worker's push.
std::unique_ptr<GradientExchange> make_elastic_exchange(LocalStepsParts parts,
                                                        const std::vector<KeySpec>& keys,
                                                        const ElasticOptions& options);

// The same keys as the servers see them: decay is the local steps'.
std::vector<KeySpec> outer_keys(std::vector<KeySpec> keys);

}  // namespace phub::train
