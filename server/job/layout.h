// A job as the data plane sees it: its plan, its rule and its members.
//
// A value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/encoding.h"
#include "common/base/loss_scale.h"
#include "common/base/round_policy.h"
#include "common/base/rule.h"
#include "common/plan/plan.h"
#include "common/protocol/sparse_push.h"
#include "common/protocol/watch_values.h"
#include "server/job/copy.h"
#include "server/job/rack_place.h"

namespace phub::server {

struct JobLayout {
  std::uint64_t job_id = 0;
  std::string tenant = "default";
  std::uint32_t tenant_id = 0;  // 0: the default tenant
  std::uint32_t weight = 1;     // the tenant's share of a core beside other tenants' shares
  std::uint32_t epoch = 1;
  std::uint32_t workers = 1;      // of this rack; at most kMaxWorkers
  std::uint32_t job_workers = 1;  // of all racks
  DataType wire_type = DataType::kFloat32;
  RuleKind rule = RuleKind::kSum;
  Hyper hyper;
  bool deterministic = true;
  std::vector<float> weight_decay;           // per key
  LarsOptions lars = {};                     // of rule lars
  AdaptiveOptions adaptive = {};             // of rules adam, adamw, adagrad and lamb: what holds
  std::vector<bool> exclude_from_lars = {};  // per key, of lars and lamb: at trust 1; empty: none
  float clip_norm = 0.0F;  // of all keys' averaged gradients at most; 0: they are not clipped
  double ema_decay = 0.0;  // of the moving average of parameters; 0: there is none
  LossScale loss_scale = {};
  std::shared_ptr<const Plan> plan;
  std::uint32_t server_index = 0;                    // which server of the plan this daemon is
  std::shared_ptr<const JobCopy> initial = nullptr;  // a restored job's
  std::uint64_t rounds_before = 0;                   // that a restored job had behind it
  std::vector<std::uint64_t> core_load_bytes = {};   // of this server, that it was planned with
  RackPlace rack = {};
  DataType rack_wire_type = DataType::kFloat32;  // of what goes to the racks above
  RackCompress rack_compress = {};
  RackLocal rack_local = {};
  Encoding encoding = Encoding::kDense;
  RoundPolicy rounds = {};
  WatchValues watch_values = WatchValues::kOff;
  bool checksums = false;         // of each pushed chunk
  std::uint32_t tcp_streams = 1;  // of each worker that comes by tcp, to each core
  bool whole_replies = false;     // also where what changed would do
};

// Whether a rack has a residual of its sums: the elements that rack_compress does not send, or what
// rounding to 16 bits cuts off.
inline bool keeps_rack_rest(bool has_racks, const RackCompress& compress, DataType rack_wire_type) {
  return has_racks && (compress.is_on() || rack_wire_type != DataType::kFloat32);
}
inline bool keeps_rack_rest(const JobLayout& layout) {
  return keeps_rack_rest(!layout.rack.is_alone(), layout.rack_compress, layout.rack_wire_type);
}

// Whether all racks' sum goes down, and each rack applies a rule to it.
inline bool combines_sums(const JobLayout& layout) {
  return layout.rack_compress.is_on() || layout.rack_local.is_on();
}

// fp32 arrays beside the parameters: its rule's, then the moving average, then what racks had
// together last and the outer momentum, then the residual of the rack's sums. Memory, quotas,
// copies, snapshots and restores have all of them: what decides later rounds belongs here, or in
// the table of the room's README.
inline unsigned state_arrays(RuleKind rule, double ema_decay, bool is_local = false,
                             bool rack_rest = false) {
  return state_arrays(rule) + (ema_decay > 0.0 ? 1 : 0) + (is_local ? 2 : 0) + (rack_rest ? 1 : 0);
}
inline unsigned state_arrays(const JobLayout& layout) {
  return state_arrays(layout.rule, layout.ema_decay, layout.rack_local.is_on(),
                      keeps_rack_rest(layout));
}
// As a shard holds them: the residual twice, as it was and as the round under way leaves it.
inline unsigned arrays_in_memory(const JobLayout& layout) {
  return state_arrays(layout) + (keeps_rack_rest(layout) ? 1 : 0);
}

// Of members: this rack's workers, and the other racks.
inline std::uint32_t seats(const JobLayout& layout) {
  return layout.workers + layout.rack.racks() - 1;
}

// Whether replies over tcp and verbs may have only what changed: where a round has every worker's
// push, so that each has had all replies before, and where an update may leave something as it was.
inline bool has_sparse_replies(const JobLayout& layout) {
  return layout.encoding == Encoding::kSparse && layout.rounds.waits_for_all() &&
         layout.rack.is_alone() && !layout.whole_replies &&
         wire::may_reply_sparse(layout.rule, layout.wire_type);
}

// Whether a chunk's sum waits for its update: until the whole key's is there, until the
// workers have voted, until the norm of all is known, or to see whether it is finite.
inline bool sums_wait(const JobLayout& layout) {
  return needs_whole_keys(layout.rule) || layout.loss_scale.kind != LossScaling::kNone ||
         layout.clip_norm > 0.0F;
}

// Whether the norm comes from the cores of several servers, by way of the workers.
inline bool clips_over_servers(const JobLayout& layout) {
  return layout.clip_norm > 0.0F && layout.plan && layout.plan->core_chunks.size() > 1;
}

// Whether many sums wait at once; a static scale looks at one and lets it go.
inline bool defers_updates(const JobLayout& layout) {
  return needs_whole_keys(layout.rule) || layout.loss_scale.kind == LossScaling::kVoted ||
         layout.clip_norm > 0.0F;
}

}  // namespace phub::server
