#include "worker/client/added_keys.h"

#include <algorithm>
#include <set>
#include <utility>

#include "worker/client/client_options.h"
#include "worker/client/client_state.h"
#include "worker/client/failure.h"

namespace phub::client {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

// How long one job is waited for before the others are looked at: while they have something under
// way, and while they do not.
constexpr milliseconds kTurn{1};
constexpr milliseconds kLook{50};

std::string name_of_set(const ClientOptions& options, std::size_t number) {
  return options.job.name + "+" + std::to_string(number);
}

}  // namespace

Status AddedKey::in_its_set(const Status& status) const {
  return AddedKeys::in_set(client, status);
}

Status AddedKeys::in_set(const Client& client, const Status& status) {
  return status.with_context("added keys (job " + client.state_->options.job.name + ")");
}

Status AddedKeys::check_options(const ClientOptions& options) {
  const auto refuse = [](const std::string& why) -> Status {
    return {Code::kFailedPrecondition,
            "add_keys: " + why + "; register all keys with register_keys"};
  };
  if (options.job.clip_norm > 0.0F) {
    return refuse(
        "clip_norm bounds the norm of all keys of a job, and added keys are one of their own");
  }
  if (!options.job.rounds.waits_for_all()) {
    return refuse(
        "a job with rounds.quorum goes on without workers, whom added keys would wait for");
  }
  if (!options.job.racks.empty()) {
    return refuse("a job that spans racks agrees on its keys rack by rack, before it runs");
  }
  if (!options.security.nonce_file.empty()) {
    return refuse(
        "a nonce lets a worker into one job, and added keys are another (or use a token)");
  }
  return {};
}

AddedKeys::AddedKeys(Client& base) : base_(base) {}

KeyId AddedKeys::next_key() const {
  return sets_.empty() ? static_cast<KeyId>(base_.state_->keys.size()) : sets_.back().end_key;
}

std::size_t AddedKeys::key_count() const { return next_key() - base_.state_->keys.size(); }

std::optional<AddedKey> AddedKeys::find(KeyId key) const {
  for (const Set& set : sets_) {
    if (key >= set.first_key && key < set.end_key) {
      return AddedKey{*set.client, key - set.first_key};
    }
  }
  return std::nullopt;
}

Status AddedKeys::check_names(const std::vector<KeySpec>& keys) const {
  std::set<std::string> there;
  for (const KeySpec& key : base_.state_->keys) there.insert(key.name);
  for (const Set& set : sets_) {
    for (const KeySpec& key : set.client->state_->keys) there.insert(key.name);
  }
  for (const KeySpec& key : keys) {
    if (there.insert(key.name).second) continue;
    return {Code::kInvalidArgument,
            "add_keys: key " + key.name + " is there already; names are unique in a job"};
  }
  return {};
}

Status AddedKeys::add(const std::vector<KeySpec>& keys) {
  if (!refused_.empty()) {
    return {Code::kFailedPrecondition, "add_keys: it has failed before (" + refused_ +
                                           "), and not every worker may know; end the job"};
  }
  if (keys.empty()) return {Code::kInvalidArgument, "add_keys: no keys"};
  if (sets_.size() >= kSetsMax) {
    return {Code::kResourceExhausted,
            "add_keys: " + std::to_string(sets_.size()) + " sets of keys were added already, of " +
                std::to_string(kSetsMax) +
                " that a job may have, for each has connections of its own; add more keys at once"};
  }
  PHUB_RETURN_IF_ERROR(check_names(keys));
  ClientOptions options = base_.state_->options;
  PHUB_RETURN_IF_ERROR(check_keys(options, keys));
  options.job.name = name_of_set(options, sets_.size() + 1);
  options.worker_index = static_cast<std::int32_t>(base_.worker_index());
  PHUB_ASSIGN_OR_RETURN(auto client, Client::connect(options));
  const Status added = client->state_->set_up(keys, &base_.state_->membership);
  if (!added.ok()) {
    refused_ = added.message();
    return added.with_context("add_keys");
  }
  if (base_.state_->told) client->state_->say(*base_.state_->told);
  const KeyId first = next_key();
  sets_.push_back({std::move(client), first, first + static_cast<KeyId>(keys.size())});
  return {};
}

Status AddedKeys::turn_others(const Client& waiting) const {
  const auto turn = [&](Client& job) -> Status {
    Client::State& state = *job.state_;
    if (&job == &waiting) return {};
    if (state.heartbeat->failed()) return state.heartbeat->failure();
    if (state.driver->idle()) return {};
    if (state.driver->wait(std::nullopt, milliseconds(0)) != ExchangeDriver::End::kFailed)
      return {};
    if (state.options.stop.stop_requested()) return {Code::kAborted, "interrupted"};
    return explain_failure(*state.driver, *state.heartbeat, state.membership);
  };
  PHUB_RETURN_IF_ERROR(turn(base_));
  for (const Set& set : sets_) PHUB_RETURN_IF_ERROR(in_set(*set.client, turn(*set.client)));
  return {};
}

Result<bool> AddedKeys::wait_for_job(Client& job, std::optional<KeyId> key,
                                     Clock::time_point end) const {
  while (true) {
    const bool is_alone = (&job == &base_ || base_.state_->driver->idle()) &&
                          std::all_of(sets_.begin(), sets_.end(), [&](const Set& set) {
                            return set.client.get() == &job || set.client->state_->driver->idle();
                          });
    const auto left =
        std::max(milliseconds(0), std::chrono::ceil<milliseconds>(end - Clock::now()));
    const auto there = job.state_->wait_slice(key, std::min(left, is_alone ? kLook : kTurn));
    if (!there) return &job == &base_ ? there.error() : in_set(job, there.error());
    if (*there) return true;
    PHUB_RETURN_IF_ERROR(turn_others(job));
    if (Clock::now() >= end) return false;
  }
}

Result<bool> AddedKeys::wait_for(std::optional<KeyId> key, milliseconds slice) {
  const auto found = key ? find(*key) : std::nullopt;
  Client& job = found ? found->client : base_;
  const auto key_there = found ? std::optional(found->key) : key;
  if (!unfinished_ || unfinished_->key != key) {
    base_.state_->begin_wait(found ? std::nullopt : key);
    for (const Set& set : sets_) {
      set.client->state_->begin_wait(set.client.get() == &job ? key_there : std::nullopt);
    }
  }
  unfinished_.reset();
  const auto end = Clock::now() + slice;
  PHUB_ASSIGN_OR_RETURN(bool is_there, wait_for_job(job, key_there, end));
  if (!key) {
    for (const Set& set : sets_) {
      if (!is_there) break;
      PHUB_ASSIGN_OR_RETURN(is_there, wait_for_job(*set.client, std::nullopt, end));
    }
  }
  if (!is_there) unfinished_ = Unfinished{key};
  return is_there;
}

Status AddedKeys::wait(std::optional<KeyId> key) {
  unfinished_.reset();
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const bool is_there, wait_for(key, base_.state_->options.timeout));
    if (is_there) return {};
  }
}

bool AddedKeys::idle() const {
  return std::all_of(sets_.begin(), sets_.end(),
                     [](const Set& set) { return set.client->state_->driver->idle(); });
}

std::size_t AddedKeys::missing() const {
  std::size_t count = 0;
  for (const Set& set : sets_) count += set.client->state_->pushes.missing();
  return count;
}

Status AddedKeys::set_loss_scale(float scale) const {
  for (const Set& set : sets_) {
    PHUB_RETURN_IF_ERROR(in_set(*set.client, set.client->set_loss_scale(scale)));
  }
  return {};
}

Status AddedKeys::vote(const Vote& vote) const {
  for (const Set& set : sets_) {
    PHUB_RETURN_IF_ERROR(in_set(*set.client, set.client->vote(vote)));
  }
  return {};
}

Status AddedKeys::initialise() const {
  for (const Set& set : sets_) {
    if (set.client->state_->has_initialised) continue;
    PHUB_RETURN_IF_ERROR(in_set(*set.client, set.client->initialise()));
  }
  return {};
}

void AddedKeys::say(const Hyper& hyper) const {
  for (const Set& set : sets_) set.client->state_->say(hyper);
}

void AddedKeys::add_to(ClientStatistics& statistics) const {
  for (const Set& set : sets_) {
    const ClientStatistics own = set.client->statistics();
    statistics.bytes_pushed += own.bytes_pushed;
    statistics.bytes_received += own.bytes_received;
    statistics.wait_seconds += own.wait_seconds;
  }
}

}  // namespace phub::client
