// The single causes that explain() looks for. Each is nothing where it does not hold.
//
// Pure functions; any thread. REQUIRES everywhere: the job has a timing.
#pragma once

#include <cstdint>
#include <optional>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

// Fewer rounds than these do not tell the slowest worker: the first steps are like no others.
constexpr std::uint64_t kRoundsToBlame = 10;

// Between the looks, which lie several rounds apart, no chunk was completed.
std::optional<Reason> standstill(const control::JobInfo& job, const Looks& server);

// One worker is the last in most rounds, by at least a twentieth of a round.
std::optional<Reason> straggler(const control::JobInfo& job);

// The wait for the slowest is long, and no single worker is to blame.
std::optional<Reason> uneven_work(const control::JobInfo& job);

// Cores that have the job's chunks are nearly always busy, and not with waiting for work.
std::optional<Reason> core_saturation(const control::JobInfo& job, const Looks& server);

// Pushes wait because other jobs have their turn.
std::optional<Reason> fair_share_queue(const control::JobInfo& job,
                                       const control::ServerInfo& server);

// Workers that move their gradients by tcp while that costs.
std::optional<Reason> slow_transport(const control::JobInfo& job);

// RDMA ports that are not active or count errors.
std::optional<Reason> network_port(const control::JobInfo& job, const control::ServerInfo& server);

// Rounds are so short that waking a core that sleeps is a part of them.
std::optional<Reason> sleeping_cores(const control::JobInfo& job,
                                     const control::ServerInfo& server);

// More steps or updates left out, because gradients were not finite, than finding a loss scale
// needs.
std::optional<Reason> skipped_steps(const control::JobInfo& job);

// The workers compute most of the time. The backward pass overlaps the pushes: where nothing else
// explains these (`push_is_compute`), they are its.
std::optional<Reason> compute_bound(const control::JobInfo& job, bool push_is_compute);

}  // namespace phub::phubctl
