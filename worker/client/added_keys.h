// The keys that were added to a job while it ran, set by set.
//
// Each set is a job of its own at the same servers, with the same workers: "JOB+1", "JOB+2". So the
// keys that are there keep their chunks, their cores and their memory, and nothing stops for new
// ones. Belongs to the Client's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/client/phub.h"

namespace phub::client {

struct AddedKey {
  Client& client;  // of its set
  KeyId key = 0;   // in it
  Status in_its_set(const Status& status) const;
};

class AddedKeys {
 public:
  // Each set has its connections and its memory at the servers, and its threads here.
  static constexpr std::size_t kSetsMax = 32;

  // What a job may not be to have keys added. Error: kFailedPrecondition; it names the option and
  // the cure.
  static Status check_options(const ClientOptions& options);

  // `base` has the keys that were registered, and outlives this.
  explicit AddedKeys(Client& base);

  // Client::add_keys, but for what it checks of the job.
  Status add(const std::vector<KeySpec>& keys);
  // The id of the first key that the next set has.
  KeyId next_key() const;
  std::size_t key_count() const;
  std::optional<AddedKey> find(KeyId key) const;
  // An error says which set it is of.
  static Status in_set(const Client& client, const Status& status);

  // Client::wait_for in a job that has added keys.
  Result<bool> wait_for(std::optional<KeyId> key, std::chrono::milliseconds slice);
  // Client's functions of the same name, for all sets.
  Status wait(std::optional<KeyId> key);
  bool idle() const;
  std::size_t missing() const;  // keys that are not pushed since the last vote
  Status set_loss_scale(float scale) const;
  Status vote(const Vote& vote) const;
  Status initialise() const;
  void say(const Hyper& hyper) const;
  void add_to(ClientStatistics& statistics) const;

 private:
  struct Set {
    std::unique_ptr<Client> client;
    KeyId first_key = 0;
    KeyId end_key = 0;
  };
  Status check_names(const std::vector<KeySpec>& keys) const;
  // Over shm and verbs an exchange goes on only in its own job's calls.
  Status turn_others(const Client& waiting) const;
  Result<bool> wait_for_job(Client& job, std::optional<KeyId> key,
                            std::chrono::steady_clock::time_point end) const;

  Client& base_;
  std::vector<Set> sets_;
  std::string refused_;  // why a set was not added; then none can be any more
  // The wait whose slice has just ended too early.
  struct Unfinished {
    std::optional<KeyId> key;
  };
  std::optional<Unfinished> unfinished_;
};

}  // namespace phub::client
