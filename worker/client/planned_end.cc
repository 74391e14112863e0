// How workers stop together: what a Client says and asks of a planned end.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "worker/client/client_state.h"
#include "worker/client/phub.h"

namespace phub {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTellTimeout{1000};
constexpr milliseconds kAskPause{20};

// Returns the last step of a job whose worker 0 has made `steps`. Another rack may be ahead by the
// rounds from one exchange to the next, unless racks end by themselves. The job then ends with an
// exchange.
std::uint64_t last_step_of(const JobSpec& job, std::uint64_t steps, std::uint32_t ahead) {
  if (!job.rack_local.is_on()) return steps + ahead;
  const std::uint64_t apart = job.rack_local.steps;
  const std::uint64_t others_ahead = job.rack_local.goes_on() ? 0 : apart;
  return (steps + ahead + others_ahead + apart - 1) / apart * apart;
}

bool have_left(const std::vector<std::uint32_t>& left, std::uint32_t first, std::uint32_t behind) {
  return std::ranges::any_of(
      left, [&](std::uint32_t worker) { return worker >= first && worker < behind; });
}

}  // namespace

Status Client::end(const std::string& reason) {
  if (!state_->heartbeat) return {Code::kFailedPrecondition, "register_keys has not succeeded"};
  state_->planned_end.want(reason.empty() ? "no reason" : reason);
  // A server that does not reply now hears it with a later heartbeat.
  static_cast<void>(state_->membership.servers.front()->heartbeat(kTellTimeout));
  return {};
}

std::string Client::ending() const { return state_->planned_end.reason(); }

std::optional<std::uint64_t> Client::last_step() const {
  const std::uint64_t step = state_->planned_end.last_step();
  return step == 0 ? std::nullopt : std::optional(step);
}

Result<bool> Client::is_last(std::uint64_t steps, std::uint32_t ahead) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  client::PlannedEnd& end = state_->planned_end;
  if (end.reason().empty()) return false;
  if (state_->options.job.workers == 1 || !state_->options.job.rounds.waits_for_all()) return true;
  if (end.last_step() != 0) return steps >= end.last_step();
  // Racks that do not wait for each other end each by itself.
  const bool by_rack = state_->options.job.rack_local.goes_on();
  const auto [first_worker, behind] =
      by_rack ? state_->own_rack() : std::pair(0U, state_->options.job.workers);
  if (worker_index() != first_worker) return false;
  end.propose(last_step_of(state_->options.job, steps, ahead));
  // Others say that they know it by their heartbeats, one a second at least.
  const auto deadline = std::chrono::steady_clock::now() + state_->options.timeout;
  client::Rendezvous& first = *state_->membership.servers.front();
  while (!state_->heartbeat->failed() && !state_->heartbeat->has_left(first_worker, behind)) {
    const auto beat = first.heartbeat(kTellTimeout);
    if (beat && (!beat->running || have_left(beat->left, first_worker, behind))) break;
    if (end.all_know()) return steps >= end.last_step();
    if (std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(kAskPause);
  }
  return true;
}

}  // namespace phub
