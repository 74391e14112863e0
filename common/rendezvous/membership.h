// A worker's membership of its job at every server, from the join to the leave.
//
// Functions of the thread that owns it. Each asks all servers at once, without threads, so that one
// that replies late delays no other. Their errors name the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/plan/plan.h"
#include "common/rendezvous/rendezvous.h"

namespace phub::client {

struct Membership {
  std::vector<std::unique_ptr<Rendezvous>> servers;  // in the order of the addresses
  std::vector<JoinInfo> joined;                      // entry s: what server s answered
};

// Joins server 0 first, which gives the worker its index where that is -1, then all others with
// that index. Everything happens within `timeout`; after an error the servers joined so far are
// left again. `base`: of the job, on the same servers, that the keys are added to; null: of none.
// `stop` is every Rendezvous's. `after_first`: JoinsWhen's; worker 0 then joins server 0 last,
// and the others wait for it there.
Result<Membership> join_all(const std::vector<std::string>& addresses, const JobSpec& job,
                            std::chrono::milliseconds timeout, const ClientSecurity& security = {},
                            std::int32_t worker_index = -1, const Membership* base = nullptr,
                            const std::stop_token& stop = {}, bool after_first = false);

// The plan of the job on the servers' cores, which every server then holds.
Result<std::shared_ptr<const Plan>> agree_on_plan(const Membership& membership, const JobSpec& job,
                                                  std::chrono::milliseconds timeout);

// Rendezvous::start at all of them; `transport_reasons`: server by server. Error:
// kFailedPrecondition when only some restored the job, or of different rounds: it would go on from
// parts that do not belong together.
Status start_all(const Membership& membership, const std::string& job,
                 const std::vector<std::string>& transport_reasons,
                 std::chrono::milliseconds timeout);

// Says at all of them what the job uses of its samples. The first error is returned when all have
// answered.
Status note_samples_all(const Membership& membership, const SampleLedger& ledger,
                        std::chrono::milliseconds timeout);

// Calls Rendezvous::snapshot at all servers at once, since the other workers wait meanwhile.
// Returns "FILE at ADDRESS" of each, in their order, each followed by those of other racks. The
// first error is returned when all have answered; then what the others took is deleted.
Result<std::vector<std::string>> snapshot_all(const Membership& membership, std::uint64_t round,
                                              std::chrono::milliseconds timeout);

// A server that cannot be left notices by heartbeat.
// With a reason: this worker has failed, and its job, if it has a quorum, has lost it.
void leave_all(const Membership& membership, const std::string& reason = {});

}  // namespace phub::client
