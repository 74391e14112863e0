#include "worker/client/client_state.h"

#include <algorithm>

#include "worker/client/client_options.h"
#include "worker/client/failure.h"
#include "worker/client/shared_steps.h"

namespace phub {

using client::ExchangeDriver;
using client::Heartbeats;
using client::JobLinks;
using client::Membership;

namespace {

constexpr std::chrono::milliseconds kServerDeadline{5000};
constexpr std::chrono::milliseconds kLeaveGrace{1000};

}  // namespace

Status Client::State::set_up(const std::vector<KeySpec>& job_keys, const Membership* base) {
  keys = job_keys;
  said = options.job.hyper;
  const JobSpec job = client::describe_job(options, keys);
  const auto interrupt = [this] { interruption.request_stop(); };
  on_stop.emplace(options.stop, interrupt);
  const std::stop_callback while_joining(options.stop_joining, interrupt);
  PHUB_ASSIGN_OR_RETURN(membership,
                        client::join_all(options.servers, job, options.timeout, options.security,
                                         options.worker_index, base, interruption.get_token(),
                                         base == nullptr && options.joins_after_first));
  for (const auto& server : membership.servers) {
    server->share(&planned_end, server == membership.servers.front());
    server->report(&recent_steps);
  }
  if (base == nullptr) membership.servers.front()->listen_for_peers(options.peers);
  heartbeat = std::make_unique<Heartbeats>(membership, kServerDeadline);
  PHUB_ASSIGN_OR_RETURN(auto transports,
                        client::choose_transports(options.transport, options.links, membership,
                                                  options.security.require_encryption));
  std::vector<std::string> reasons;
  for (const auto& choice : transports.by_server) reasons.push_back(choice.reason);
  PHUB_ASSIGN_OR_RETURN(auto plan, client::agree_on_plan(membership, job, options.timeout));
  PHUB_ASSIGN_OR_RETURN(auto congestion_control,
                        transport::CongestionControl::parse(options.links.tcp_congestion_control));
  congestion_control.bound_buffers(options.links.tcp_buffer_kib);
  PHUB_ASSIGN_OR_RETURN(
      links,
      JobLinks::create(
          {.membership = membership,
           .heartbeat = *heartbeat,
           .plan = std::move(plan),
           .wire_type = options.job.wire_type,
           .congestion_control = congestion_control,
           .tcp_streams = options.job.tcp_streams,
           .tcp_front = options.links.tcp_front,
           .timeout = options.timeout,
           .has_quorum = !options.job.rounds.waits_for_all(),
           .all_may_lead = !options.job.rounds.waits_for_all() || options.job.rack_local.is_on(),
           .checksums = options.job.checksums,
           .has_sparse_replies = has_sparse_replies(job),
           .hogwild = options.job.rounds.hogwild,
           .passes_norms = options.job.clip_norm > 0.0F && options.servers.size() > 1},
          std::move(transports)));
  PHUB_RETURN_IF_ERROR(client::start_all(membership, options.job.name, reasons, options.timeout));
  pushes.begin(keys.size());
  if (options.compress.is_on()) {
    compressor.emplace(links->plan(), keys, options.job.wire_type, options.compress,
                       options.job.loss_scale.kind == LossScaling::kVoted);
    links->exchange().push_only(compressor->push_bytes());
  }
  PHUB_ASSIGN_OR_RETURN(
      driver, ExchangeDriver::create(links->exchange(), keys.size(), links->transports().any("tcp"),
                                     [this] { return hopeless(); }));
  return {};
}

// REQUIRES: every push has been waited for.
void Client::State::say(Hyper hyper) {
  if (hyper.gradient_scale == 0.0F) {
    hyper.gradient_scale = 1.0F / static_cast<float>(options.job.workers);
  }
  if (hyper.samples == 0.0F) hyper.samples = said.samples;
  said = hyper;
  told = hyper;
  driver->set_hyper(hyper);
}

Status Client::State::check_key(KeyId key) const {
  if (!driver) return {Code::kFailedPrecondition, "register_keys has not succeeded"};
  if (key >= keys.size()) {
    const std::size_t count = keys.size() + (added ? added->key_count() : 0);
    return {Code::kInvalidArgument,
            "key " + std::to_string(key) + " does not exist: there are " + std::to_string(count)};
  }
  return {};
}

Status Client::State::check_push(KeyId key) const {
  PHUB_RETURN_IF_ERROR(check_key(key));
  if (!driver->ready(key)) {
    return {Code::kFailedPrecondition,
            "key " + keys[key].name + " was pushed already: wait for it first"};
  }
  return heartbeat->failed() ? heartbeat->failure() : Status();
}

Status Client::State::start_push(KeyId key) {
  PHUB_RETURN_IF_ERROR(check_push(key));
  if (key == 0) ++rounds;
  pushes.push(key);
  if (options.job.rounds.hogwild && !initialising) step_shared(key);
  driver->push(key);
  return {};
}

void Client::State::step_shared(KeyId key) {
  const std::uint64_t offset = links->plan().key_offset[key];
  auto* const shared = reinterpret_cast<float*>(links->shared_parameters()) + offset;
  const auto* const own = reinterpret_cast<const float*>(links->gradients()) + offset;
  client::step_shared(options, keys[key], said, {shared, keys[key].elements}, own);
}

bool Client::State::hopeless() {
  if (options.stop.stop_requested() || heartbeat->failed()) return true;
  if (!heartbeat->someone_left() || goes_on_without_leavers()) return false;
  // Replies to rounds that the leaver took part in are under way, for long where another rack's
  // uplink is slow; later rounds never complete.
  const auto now = std::chrono::steady_clock::now();
  const std::uint64_t received = links->exchange().bytes_received();
  if (std::exchange(bytes_received, received) != received) last_bytes = now;
  return now - std::max(wait_start, last_bytes) > kLeaveGrace;
}

// Only workers of other racks have left, and rounds up to the next exchange need nothing of them.
bool Client::State::goes_on_without_leavers() const {
  if (!options.job.rack_local.is_on()) return false;
  const auto [first, end] = own_rack();
  return !heartbeat->has_left(first, end);
}

// The first worker of this one's rack, and the first behind them.
std::pair<std::uint32_t, std::uint32_t> Client::State::own_rack() const {
  const std::uint32_t own = membership.joined.front().worker_index;
  std::uint32_t first = 0;
  for (const RackSpec& rack : options.job.racks) {
    if (own < first + rack.workers) return {first, first + rack.workers};
    first += rack.workers;
  }
  return {0, options.job.workers};
}

void Client::State::begin_wait(std::optional<KeyId> key) {
  wait_start = std::chrono::steady_clock::now();
  unfinished = Unfinished{key};
}

Status Client::State::wait_whole(std::optional<KeyId> key) {
  unfinished.reset();
  const auto there = wait_slice(key, options.timeout);
  return there ? Status() : there.error();
}

Result<bool> Client::State::wait_slice(std::optional<KeyId> key, std::chrono::milliseconds slice) {
  PHUB_RETURN_IF_ERROR(check_key(key.value_or(0)));
  const auto begin = std::chrono::steady_clock::now();
  if (!unfinished || unfinished->key != key) wait_start = begin;
  unfinished.reset();
  const auto deadline = wait_start + options.timeout;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - begin);
  const ExchangeDriver::End end = driver->wait(key, std::min(slice, left));
  const auto now = std::chrono::steady_clock::now();
  waited += now - begin;
  switch (end) {
    case ExchangeDriver::End::kReady:
      if (compressor) keep_unused(key);
      return true;
    case ExchangeDriver::End::kFailed:
      if (options.stop.stop_requested()) return Status(Code::kAborted, "interrupted");
      return client::explain_failure(*driver, *heartbeat, membership);
    case ExchangeDriver::End::kTimeout: {
      if (now < deadline) {
        unfinished = Unfinished{key};
        return false;
      }
      const Status timeout = client::explain_timeout({.options = options,
                                                      .keys = keys,
                                                      .plan = links->plan(),
                                                      .driver = *driver,
                                                      .key = key,
                                                      .owes_vote = pushes.any()});
      failure = timeout.message();
      if (heartbeat->someone_left()) return heartbeat->leavers();
      return timeout;
    }
  }
  return true;
}

// With a quorum a reply need not be of the round that has the push.
void Client::State::keep_unused(std::optional<KeyId> key) {
  const bool is_of_push = options.job.rounds.waits_for_all();
  const auto end = key ? *key + 1 : static_cast<KeyId>(keys.size());
  for (KeyId each = key.value_or(0); each < end; ++each) {
    compressor->replied(each, links->gradients(), [&](std::uint32_t chunk) {
      return is_of_push && links->exchange().chunk_was_skipped(chunk);
    });
  }
}

}  // namespace phub
