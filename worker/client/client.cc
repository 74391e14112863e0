// Pushes, waits, votes and snapshots; hands on what is of keys that were added.
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/client/client_options.h"
#include "worker/client/client_state.h"
#include "worker/client/phub.h"

namespace phub {

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options) {
  PHUB_RETURN_IF_ERROR(client::check_options(options));
  return std::unique_ptr<Client>(new Client(options));
}

Client::Client(const ClientOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
}

Client::~Client() {
  state_->added.reset();
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
  return state_->set_up(keys, nullptr);
}

Status Client::add_keys(const std::vector<KeySpec>& keys) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  PHUB_RETURN_IF_ERROR(client::AddedKeys::check_options(state_->options));
  if (state_->pushes_from_gpu) {
    return {Code::kFailedPrecondition,
            "add_keys: push_from has an array for the keys that are there; register all keys with "
            "register_keys, or leave push_from out"};
  }
  if (state_->heartbeat->failed()) return state_->heartbeat->failure();
  if (!state_->added) state_->added = std::make_unique<client::AddedKeys>(*this);
  return state_->added->add(keys);
}

std::span<std::byte> Client::gradient_bytes(KeyId key) {
  if (const auto added = state_->added_key(key)) return added->client.gradient_bytes(added->key);
  PHUB_CHECK(state_->links && key < state_->keys.size(),
             "gradient of a key that is not registered");
  const std::size_t width = size_of(state_->options.job.wire_type);
  return {state_->links->gradients() + state_->links->plan().key_offset[key] * width,
          state_->keys[key].elements * width};
}

std::span<const std::byte> Client::parameter_bytes(KeyId key) const {
  if (const auto added = state_->added_key(key)) return added->client.parameter_bytes(added->key);
  PHUB_CHECK(state_->links && key < state_->keys.size(), "parameter of an unregistered key");
  const std::size_t width = size_of(state_->options.job.wire_type);
  return {state_->links->parameters() + state_->links->plan().key_offset[key] * width,
          state_->keys[key].elements * width};
}

ArrayLayout Client::layout() const {
  PHUB_CHECK(state_->links != nullptr, "the layout of keys that are not registered");
  const Plan& plan = state_->links->plan();
  const std::size_t width = size_of(state_->options.job.wire_type);
  ArrayLayout layout{.offsets = {}, .bytes = plan.arena_elements * width};
  for (const std::uint64_t offset : plan.key_offset) layout.offsets.push_back(offset * width);
  return layout;
}

Result<std::string> Client::push_from(ExportedMemoryPointer gpu) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (!state_->driver->idle()) {
    return Status(Code::kFailedPrecondition, "push_from: wait for every push first");
  }
  if (state_->added && state_->added->key_count() > 0) {
    return Status(Code::kFailedPrecondition,
                  "push_from: keys were added, which have arrays of their own; register all keys "
                  "with register_keys");
  }
  if (state_->compressor) {
    return Status(Code::kFailedPrecondition,
                  "push_from: options.compress works on the host's memory; leave one of them out");
  }
  auto how = state_->links->push_from(std::move(gpu));
  state_->pushes_from_gpu = state_->pushes_from_gpu || how.has_value();
  return how;
}

bool Client::was_skipped(KeyId key) const {
  if (const auto added = state_->added_key(key)) return added->client.was_skipped(added->key);
  PHUB_CHECK(state_->links && key < state_->keys.size(), "a key that is not registered");
  return state_->links->exchange().was_skipped(key);
}

KeptBack Client::kept_back(KeyId key) {
  if (const auto added = state_->added_key(key)) return added->client.kept_back(added->key);
  PHUB_CHECK(state_->links && key < state_->keys.size(), "a key that is not registered");
  return state_->compressor ? state_->compressor->kept_back(key) : KeptBack();
}

Status Client::push(KeyId key) {
  if (const auto added = state_->added_key(key)) {
    if (has_parameters(state_->options.job.rule) && !added->client.state_->has_initialised) {
      return added->in_its_set(
          {Code::kFailedPrecondition, "push: its keys have no values yet; call initialise first"});
    }
    return added->in_its_set(added->client.push(added->key));
  }
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
  if (state_->added && state_->added->key_count() > 0) {
    return Status(Code::kFailedPrecondition,
                  "snapshot: keys were added, and a snapshot is of the job without them; register "
                  "all keys with register_keys, or keep a checkpoint");
  }
  for (KeyId key = 0; key < state_->keys.size(); ++key) {
    if (state_->driver->ready(key)) continue;
    return Status(Code::kFailedPrecondition,
                  "snapshot: key " + state_->keys[key].name + " is under way: wait for it first");
  }
  return client::snapshot_all(state_->membership, rounds_before() + state_->rounds,
                              state_->options.timeout);
}

Status Client::check_snapshots() const {
  const client::Membership& membership = state_->membership;
  for (std::size_t i = 0; i < membership.joined.size(); ++i) {
    const std::string& why = membership.joined[i].no_snapshots;
    if (why.empty()) continue;
    return {Code::kFailedPrecondition, "server " + membership.servers[i]->address() + ": " + why};
  }
  return {};
}

Status Client::initialise() {
  if (!has_parameters(state_->options.job.rule)) {
    return {Code::kFailedPrecondition, "rule " + std::string(name_of(state_->options.job.rule)) +
                                           " has no parameters to initialise"};
  }
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (state_->added && state_->has_initialised) return state_->added->initialise();
  state_->initialising = true;
  // What a GPU is to push is gradients: initial values come from the host all the same.
  state_->links->push_from_host(true);
  for (KeyId key = 0; key < state_->keys.size(); ++key)
    PHUB_RETURN_IF_ERROR(state_->start_push(key));
  state_->pushes.begin(state_->keys.size());  // nobody votes on initial values
  PHUB_RETURN_IF_ERROR(wait_all());
  state_->links->push_from_host(false);
  state_->initialising = false;
  state_->has_initialised = true;
  return state_->added ? state_->added->initialise() : Status();
}

Status Client::set_hyper(const Hyper& hyper) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (!state_->idle()) {
    return {Code::kFailedPrecondition, "set_hyper: wait for every push first"};
  }
  PHUB_RETURN_IF_ERROR(client::check_hyper(state_->options, hyper));
  state_->say(hyper);
  if (state_->added) state_->added->say(hyper);
  return {};
}

Status Client::set_samples(float samples) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  if (state_->options.job.rounds.weight != PushWeight::kSamples) {
    return {Code::kFailedPrecondition,
            "set_samples: the job's rounds do not weigh by samples; join with a quorum and the "
            "weight \"samples\" (rounds.weight; of C and Python push_weight)"};
  }
  if (!state_->idle()) {
    return {Code::kFailedPrecondition, "set_samples: wait for every push first"};
  }
  if (!are_samples(samples)) {
    return {Code::kInvalidArgument,
            "set_samples: " + std::to_string(samples) + " is not from 2^-24 to 2^24"};
  }
  Hyper hyper = state_->said;
  hyper.samples = samples;
  state_->say(hyper);
  if (state_->added) state_->added->say(hyper);
  return {};
}

Status Client::set_loss_scale(float scale) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  PHUB_RETURN_IF_ERROR(client::check_loss_scale(state_->options, "set_loss_scale", scale));
  if (state_->pushes.any()) {
    return {Code::kFailedPrecondition,
            "set_loss_scale: keys of this round are pushed already; call it before the first one"};
  }
  if (state_->compressor) state_->compressor->set_loss_scale(scale);
  return state_->added ? state_->added->set_loss_scale(scale) : Status();
}

Status Client::vote(const Vote& vote) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  PHUB_RETURN_IF_ERROR(client::check_vote(state_->options, vote));
  const std::size_t missing =
      state_->pushes.missing() + (state_->added ? state_->added->missing() : 0);
  if (missing > 0) {
    return {Code::kFailedPrecondition,
            "vote: push every key first; " + std::to_string(missing) + " are not pushed"};
  }
  if (auto& compressor = state_->compressor) {
    if (compressor->loss_scale() == 0.0F) compressor->learn_loss_scale(vote.loss_scale);
    PHUB_RETURN_IF_ERROR(client::check_same_scale(compressor->loss_scale(), vote.loss_scale));
  }
  if (state_->heartbeat->failed()) return state_->heartbeat->failure();
  state_->driver->vote(vote);
  state_->pushes.begin(state_->keys.size());
  return state_->added ? state_->added->vote(vote) : Status();
}

Status Client::wait(KeyId key) {
  return state_->added ? state_->added->wait(key) : state_->wait_whole(key);
}
Status Client::wait_all() {
  return state_->added ? state_->added->wait(std::nullopt) : state_->wait_whole(std::nullopt);
}
Result<bool> Client::wait_for(std::optional<KeyId> key, std::chrono::milliseconds slice) {
  return state_->added ? state_->added->wait_for(key, slice) : state_->wait_slice(key, slice);
}

std::uint64_t Client::rounds_before() const {
  const auto& servers = state_->membership.servers;
  return servers.empty() ? 0 : servers.front()->before().rounds;
}

SampleLedger Client::samples_before() const {
  for (const auto& server : state_->membership.servers) {
    if (server->before().samples.is_known()) return server->before().samples;
  }
  return {};
}

Status Client::note_samples(const SampleLedger& ledger) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  return client::note_samples_all(state_->membership, ledger, state_->options.timeout);
}

Status Client::report_steps(const StepWaits& times) {
  PHUB_RETURN_IF_ERROR(state_->check_key(0));
  PHUB_RETURN_IF_ERROR(check(times).with_context("report_steps"));
  state_->recent_steps.add(times);
  return {};
}

client::PeerGroup Client::peers() const {
  const auto& servers = state_->membership.servers;
  return servers.empty() ? client::PeerGroup() : servers.front()->peers();
}

std::uint32_t Client::worker_index() const {
  const auto& joined = state_->membership.joined;
  return joined.empty() ? 0 : joined.front().worker_index;
}

std::uint32_t Client::workers() const { return state_->options.job.workers; }

std::vector<std::uint32_t> Client::workers_lost() const {
  return state_->heartbeat ? state_->heartbeat->lost() : std::vector<std::uint32_t>();
}

std::string_view Client::transport() const {
  return state_->links ? std::string_view(state_->links->transports().name) : "";
}

std::string_view Client::transport_reason() const {
  return state_->links ? std::string_view(state_->links->transports().reason) : "";
}

ClientStatistics Client::statistics() const {
  if (!state_->links) return {};
  ClientStatistics all{.bytes_pushed = state_->links->exchange().bytes_pushed(),
                       .bytes_received = state_->links->exchange().bytes_received(),
                       .rounds = state_->rounds,
                       .wait_seconds = std::chrono::duration<double>(state_->waited).count()};
  if (state_->added) state_->added->add_to(all);
  return all;
}

}  // namespace phub
