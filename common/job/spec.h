// What a job is: everything two joins of one job must agree on.
//
// Plain values, without protobuf; pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/encoding.h"
#include "common/base/loss_scale.h"
#include "common/base/round_policy.h"
#include "common/base/rule.h"
#include "common/plan/plan.h"
#include "common/plan/rack_trees.h"
#include "common/protocol/keys.h"
#include "common/protocol/watch_values.h"

namespace phub {

// The workers of one rack: those of the racks before it have the indexes before theirs.
struct RackSpec {
  std::string name;  // as its servers' configuration has it
  std::uint32_t workers = 0;
  bool operator==(const RackSpec&) const = default;
};

struct JobSpec {
  std::string name = "default";
  std::uint32_t workers = 1;
  DataType wire_type = DataType::kFloat32;
  RuleKind rule = RuleKind::kSum;
  bool deterministic = true;
  std::uint32_t chunk_bytes = 32 * 1024;
  Hyper hyper{.gradient_scale = 0.0F};    // gradient_scale 0: 1 / workers
  LarsOptions lars{.coefficient = 0.0F};  // coefficient 0: the default
  AdaptiveOptions adaptive = {};          // of rules adam, adamw, adagrad, lamb
  float clip_norm = 0.0F;                 // of all keys' averaged gradients at most; 0: no bound
  double ema_decay = 0.0;                 // of the parameters' moving average; 0: there is none
  LossScale loss_scale = {};
  std::vector<KeySpec> keys = {};    // in forward order
  std::vector<RackSpec> racks = {};  // whose workers are all workers; empty: one rack
  RackShape rack_shape = RackShape::kSpread;
  std::uint64_t rack_hybrid_bytes = 0;  // of kHybrid: the largest key that goes as in kSpread
  DataType rack_wire_type = DataType::kFloat32;  // of the sums that racks push to each other
  RackCompress rack_compress = {};               // what of these sums goes up
  RackLocal rack_local = {};                     // rounds that each rack makes by itself
  Encoding encoding = Encoding::kDense;          // of workers' pushes
  RoundPolicy rounds = {};
  WatchValues watch_values = WatchValues::kOff;
  bool checksums = false;         // of each pushed chunk
  std::uint32_t tcp_streams = 1;  // of each worker that comes by tcp, to each core
  bool whole_replies = false;     // also where what changed would do
};

// The scale that the summed gradient is multiplied with: 1 for sum, 1 / workers unless set. With a
// quorum 1 / workers says that each round's sum is divided by the pushes that are in it: a mean
// over all workers is one over those who came.
float gradient_scale_of(const JobSpec& spec);

// The trust coefficient that holds.
LarsOptions lars_of(const JobSpec& spec);

std::vector<std::string> rack_names_of(const JobSpec& spec);
// The options of its adaptive rule that hold.
AdaptiveOptions adaptive_of(const JobSpec& spec);

// Whether replies over tcp and verbs may have only what changed: where a round has every worker's
// push, so that each has had all replies before, and where an update may leave something as it was.
bool has_sparse_replies(const JobSpec& spec);

// How the job's racks are joined; nothing for a job of one rack.
std::vector<RackTree> rack_trees_of(const JobSpec& spec);

// The plan's input for this job on these servers. Of a job of several racks each has the same plan,
// so what other jobs have on the cores of one is left out.
PlanInput plan_input(const JobSpec& spec, const std::vector<std::uint32_t>& cores_per_server,
                     const std::vector<std::uint64_t>& core_load_bytes = {});

}  // namespace phub
