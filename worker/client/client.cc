// Agrees with the servers, has JobLinks connect, then pushes, waits, votes and snapshots.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/connect/job_links.h"
#include "common/exchange/driver.h"
#include "common/rendezvous/heartbeat_thread.h"
#include "worker/client/client_options.h"
#include "worker/client/failure.h"
#include "worker/client/phub.h"
#include "worker/client/shared_steps.h"
#include "worker/compress/compressor.h"

namespace phub {

using client::ExchangeDriver;
using client::HeartbeatThread;
using client::JobLinks;
using client::Membership;

namespace {

constexpr std::chrono::milliseconds kServerDeadline{5000};
constexpr std::chrono::milliseconds kLeaveGrace{1000};

}  // namespace

struct Client::State {
  // Joins, agrees with the servers, connects and waits for the other workers.
  Status set_up(const std::vector<KeySpec>& job_keys);
  Status check_key(KeyId key) const;
  Status check_push(KeyId key) const;
  Status start_push(KeyId key);
  // Of rounds.hogwild: what the server does otherwise.
  void step_shared(KeyId key);
  void say(Hyper hyper);
  // Whether what is waited for cannot come any more. The caller's thread, while it waits.
  bool hopeless();
  Status wait_whole(std::optional<KeyId> key);
  // Whether it is there. A slice that follows one that ended too early goes on with its wait.
  Result<bool> wait_slice(std::optional<KeyId> key, std::chrono::milliseconds slice);
  // What was sent in vain of a key that is ready (nothing: of all) is kept back again.
  void keep_unused(std::optional<KeyId> key);

  // Which keys a worker has pushed in the round that it is going to vote on.
  class RoundPushes {
   public:
    void begin(std::size_t key_count) {
      pushed_.assign(key_count, false);
      missing_ = key_count;
    }
    void push(KeyId key) {
      if (!pushed_[key]) --missing_;
      pushed_[key] = true;
    }
    std::size_t missing() const { return missing_; }
    bool any() const { return missing_ < pushed_.size(); }

   private:
    std::vector<bool> pushed_;  // by key
    std::size_t missing_ = 0;
  };

  ClientOptions options;
  Hyper said;  // last, or the job's
  std::vector<KeySpec> keys;
  Membership membership;
  std::unique_ptr<HeartbeatThread> heartbeat;
  std::unique_ptr<JobLinks> links;
  std::optional<compress::Compressor> compressor;  // of gradients; nothing: they are pushed whole
  std::unique_ptr<ExchangeDriver> driver;
  bool initialising = false;  // until all initial values are there
  std::uint64_t rounds = 0;
  RoundPushes pushes;  // since the last vote, where there are votes
  struct Unfinished {
    std::optional<KeyId> key;
  };
  std::optional<Unfinished> unfinished;  // the wait whose slice has just ended too early
  std::chrono::steady_clock::time_point wait_start;
  std::chrono::steady_clock::time_point last_bytes;  // that came, while it waits
  std::uint64_t bytes_received = 0;                  // by then
  std::chrono::nanoseconds waited{0};
  std::string failure;  // of a wait; empty: all have ended well
};

Status Client::State::set_up(const std::vector<KeySpec>& job_keys) {
  keys = job_keys;
  said = options.hyper;
  const JobSpec job = client::describe_job(options, keys);
  PHUB_ASSIGN_OR_RETURN(membership, client::join_all(options.servers, job, options.timeout,
                                                     options.security, options.worker_index));
  heartbeat = std::make_unique<HeartbeatThread>(membership, kServerDeadline);
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
      JobLinks::create({.membership = membership,
                        .heartbeat = *heartbeat,
                        .plan = std::move(plan),
                        .wire_type = options.wire_type,
                        .congestion_control = congestion_control,
                        .tcp_delay = options.links.tcp_delay,
                        .timeout = options.timeout,
                        .has_quorum = !options.rounds.waits_for_all(),
                        .checksums = options.checksums,
                        .has_sparse_pushes = options.compress.encoding == Encoding::kSparse,
                        .hogwild = options.rounds.hogwild,
                        .passes_norms = options.clip_norm > 0.0F && options.servers.size() > 1},
                       std::move(transports)));
  PHUB_RETURN_IF_ERROR(client::start_all(membership, options.job, reasons, options.timeout));
  pushes.begin(keys.size());
  if (options.compress.is_on()) {
    compressor.emplace(links->plan(), keys, options.wire_type, options.compress);
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
    hyper.gradient_scale = 1.0F / static_cast<float>(options.workers);
  }
  if (hyper.samples == 0.0F) hyper.samples = said.samples;
  said = hyper;
  driver->set_hyper(hyper);
}

Status Client::State::check_key(KeyId key) const {
  if (!driver) return {Code::kFailedPrecondition, "register_keys has not succeeded"};
  if (key >= keys.size()) {
    return {Code::kInvalidArgument, "key " + std::to_string(key) + " does not exist: there are " +
                                        std::to_string(keys.size())};
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
  if (options.rounds.hogwild && !initialising) step_shared(key);
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
  if (heartbeat->failed()) return true;
  if (!heartbeat->someone_left()) return false;
  // Replies to rounds that the leaver took part in are under way, for long where another rack's
  // uplink is slow; later rounds never complete.
  const auto now = std::chrono::steady_clock::now();
  const std::uint64_t received = links->exchange().bytes_received();
  if (std::exchange(bytes_received, received) != received) last_bytes = now;
  return now - std::max(wait_start, last_bytes) > kLeaveGrace;
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
      return timeout;
    }
  }
  return true;
}

// With a quorum a reply need not be of the round that has the push.
void Client::State::keep_unused(std::optional<KeyId> key) {
  const bool is_of_push = options.rounds.waits_for_all();
  const auto end = key ? *key + 1 : static_cast<KeyId>(keys.size());
  for (KeyId each = key.value_or(0); each < end; ++each) {
    compressor->replied(each, links->gradients(), [&](std::uint32_t chunk) {
      return is_of_push && links->exchange().chunk_was_skipped(chunk);
    });
  }
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options) {
  PHUB_RETURN_IF_ERROR(client::check_options(options));
  return std::unique_ptr<Client>(new Client(options));
}

Client::Client(const ClientOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
}

Client::~Client() {
  // Leave first: a connection that closes without it ends the job for everybody.
  if (state_->heartbeat && !state_->heartbeat->failed()) {
    client::leave_all(state_->membership, state_->failure);
  }
  state_->driver.reset();
  state_->heartbeat.reset();
}

Status Client::register_keys(const std::vector<KeySpec>& keys) {
  if (state_->heartbeat) return {Code::kFailedPrecondition, "keys are registered already"};
  if (keys.empty()) return {Code::kInvalidArgument, "keys: empty"};
  PHUB_RETURN_IF_ERROR(client::check_keys(state_->options, keys));
  return state_->set_up(keys);
}

std::span<std::byte> Client::gradient_bytes(KeyId key) {
  PHUB_CHECK(state_->links && key < state_->keys.size(),
             "gradient of a key that is not registered");
  const std::size_t width = size_of(state_->options.wire_type);
  return {state_->links->gradients() + state_->links->plan().key_offset[key] * width,
          state_->keys[key].elements * width};
}

std::span<const std::byte> Client::parameter_bytes(KeyId key) const {
  PHUB_CHECK(state_->links && key < state_->keys.size(), "parameter of an unregistered key");
  const std::size_t width = size_of(state_->options.wire_type);
  return {state_->links->parameters() + state_->links->plan().key_offset[key] * width,
          state_->keys[key].elements * width};
}

ArrayLayout Client::layout() const {
  PHUB_CHECK(state_->links != nullptr, "the layout of keys that are not registered");
  const Plan& plan = state_->links->plan();
  const std::size_t width = size_of(state_->options.wire_type);
  ArrayLayout layout{.offsets = {}, .bytes = plan.arena_elements * width};
  for (const std::uint64_t offset : plan.key_offset) layout.offsets.push_back(offset * width);
  return layout;
}

Result<std::string> Client::push_from(ExportedMemoryPointer gpu) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (!state_->driver->idle()) {
    return Status(Code::kFailedPrecondition, "push_from: wait for every push first");
  }
  if (state_->compressor) {
    return Status(Code::kFailedPrecondition,
                  "push_from: options.compress works on the host's memory; leave one of them out");
  }
  return state_->links->push_from(std::move(gpu));
}

bool Client::was_skipped(KeyId key) const {
  PHUB_CHECK(state_->links && key < state_->keys.size(), "a key that is not registered");
  return state_->links->exchange().was_skipped(key);
}

KeptBack Client::kept_back(KeyId key) {
  PHUB_CHECK(state_->links && key < state_->keys.size(), "a key that is not registered");
  return state_->compressor ? state_->compressor->kept_back(key) : KeptBack();
}

Status Client::push(KeyId key) {
  if (state_->initialising) {
    return {Code::kFailedPrecondition,
            "push: initial values are not all there yet; call initialise again"};
  }
  if (state_->compressor) {
    // What start_push refuses is refused before the gradient is another.
    PHUB_RETURN_IF_ERROR(state_->check_push(key));
    state_->compressor->compress(key, state_->links->gradients());
  }
  return state_->start_push(key);
}

Result<std::vector<std::string>> Client::snapshot() {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  for (KeyId key = 0; key < state_->keys.size(); ++key) {
    if (state_->driver->ready(key)) continue;
    return Status(Code::kFailedPrecondition,
                  "snapshot: key " + state_->keys[key].name + " is under way: wait for it first");
  }
  return client::snapshot_all(state_->membership, rounds_before() + state_->rounds,
                              state_->options.timeout);
}

Status Client::initialise() {
  if (!has_parameters(state_->options.rule)) {
    return {Code::kFailedPrecondition, "rule " + std::string(name_of(state_->options.rule)) +
                                           " has no parameters to initialise"};
  }
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  state_->initialising = true;
  // What a GPU is to push is gradients: initial values come from the host all the same.
  state_->links->push_from_host(true);
  for (KeyId key = 0; key < state_->keys.size(); ++key)
    PHUB_RETURN_IF_ERROR(state_->start_push(key));
  state_->pushes.begin(state_->keys.size());  // nobody votes on initial values
  PHUB_RETURN_IF_ERROR(wait_all());
  state_->links->push_from_host(false);
  state_->initialising = false;
  return {};
}

Status Client::set_hyper(const Hyper& hyper) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (!state_->driver->idle()) {
    return {Code::kFailedPrecondition, "set_hyper: wait for every push first"};
  }
  PHUB_RETURN_IF_ERROR(client::check_hyper(state_->options, hyper));
  state_->say(hyper);
  return {};
}

Status Client::set_samples(float samples) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (state_->options.rounds.weight != PushWeight::kSamples) {
    return {Code::kFailedPrecondition,
            "set_samples: the job's rounds do not weigh by samples; join with a quorum and the "
            "weight \"samples\" (rounds.weight; of C and Python push_weight)"};
  }
  if (!state_->driver->idle()) {
    return {Code::kFailedPrecondition, "set_samples: wait for every push first"};
  }
  if (!are_samples(samples)) {
    return {Code::kInvalidArgument,
            "set_samples: " + std::to_string(samples) + " is not from 2^-24 to 2^24"};
  }
  Hyper hyper = state_->said;
  hyper.samples = samples;
  state_->say(hyper);
  return {};
}

Status Client::vote(const Vote& vote) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  PHUB_RETURN_IF_ERROR(client::check_vote(state_->options, vote));
  if (state_->pushes.missing() > 0) {
    return {Code::kFailedPrecondition, "vote: push every key first; " +
                                           std::to_string(state_->pushes.missing()) +
                                           " are not pushed"};
  }
  if (state_->heartbeat->failed()) return state_->heartbeat->failure();
  state_->driver->vote(vote);
  state_->pushes.begin(state_->keys.size());
  return {};
}

Status Client::wait(KeyId key) { return state_->wait_whole(key); }
Status Client::wait_all() { return state_->wait_whole(std::nullopt); }
Result<bool> Client::wait_for(std::optional<KeyId> key, std::chrono::milliseconds slice) {
  return state_->wait_slice(key, slice);
}

std::uint64_t Client::rounds_before() const {
  const auto& servers = state_->membership.servers;
  return servers.empty() ? 0 : servers.front()->rounds_before();
}

std::uint32_t Client::worker_index() const {
  const auto& joined = state_->membership.joined;
  return joined.empty() ? 0 : joined.front().worker_index;
}

std::uint32_t Client::workers() const { return state_->options.workers; }

std::string_view Client::transport() const {
  return state_->links ? std::string_view(state_->links->transports().name) : "";
}

std::string_view Client::transport_reason() const {
  return state_->links ? std::string_view(state_->links->transports().reason) : "";
}

ClientStatistics Client::statistics() const {
  if (!state_->links) return {};
  return {.bytes_pushed = state_->links->exchange().bytes_pushed(),
          .bytes_received = state_->links->exchange().bytes_received(),
          .rounds = state_->rounds,
          .wait_seconds = std::chrono::duration<double>(state_->waited).count()};
}

}  // namespace phub
