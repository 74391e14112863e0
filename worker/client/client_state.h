// What a Client has: its place in one job, and the keys that were added since.
//
// Belongs to the Client's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/connect/job_links.h"
#include "common/exchange/driver.h"
#include "common/rendezvous/heartbeats.h"
#include "worker/client/added_keys.h"
#include "worker/client/phub.h"
#include "worker/compress/compressor.h"

namespace phub {

struct Client::State {
  // Joins, agrees with the servers, connects and waits for the other workers.
  // `base`: of the job that the keys are added to; null: of none.
  Status set_up(const std::vector<KeySpec>& job_keys, const client::Membership* base);
  Status check_key(KeyId key) const;
  Status check_push(KeyId key) const;
  Status start_push(KeyId key);
  // Of rounds.hogwild: what the server does otherwise.
  void step_shared(KeyId key);
  void say(Hyper hyper);
  // Whether what is waited for cannot come any more. The caller's thread, while it waits.
  bool hopeless();
  bool goes_on_without_leavers() const;
  std::pair<std::uint32_t, std::uint32_t> own_rack() const;
  Status wait_whole(std::optional<KeyId> key);
  // Whether it is there. A slice that follows one that ended too early goes on with its wait.
  Result<bool> wait_slice(std::optional<KeyId> key, std::chrono::milliseconds slice);
  // From when options.timeout counts for the slices that follow.
  void begin_wait(std::optional<KeyId> key);
  // Where a key is that was added; nothing: it is none of those, or does not exist.
  std::optional<client::AddedKey> added_key(KeyId key) const {
    return key < keys.size() || !added ? std::nullopt : added->find(key);
  }
  bool idle() const { return driver->idle() && (!added || added->idle()); }
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

  // Ends what calls of the membership wait for: options.stop, and what set_up links to it.
  std::stop_source interruption;
  ClientOptions options;
  Hyper said;                 // last, or the job's
  std::optional<Hyper> told;  // by set_hyper and set_samples
  std::vector<KeySpec> keys;
  client::PlannedEnd planned_end;    // heartbeats use both
  client::RecentSteps recent_steps;  // that report_steps was told of
  client::Membership membership;
  std::unique_ptr<client::Heartbeats> heartbeat;
  std::unique_ptr<client::JobLinks> links;
  std::optional<compress::Compressor> compressor;  // of gradients; nothing: they are pushed whole
  std::unique_ptr<client::ExchangeDriver> driver;
  bool initialising = false;  // until all initial values are there
  bool has_initialised = false;
  bool pushes_from_gpu = false;
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
  std::string failure;                       // of a wait; empty: all have ended well
  std::unique_ptr<client::AddedKeys> added;  // null: no keys have been
  std::optional<std::stop_callback<std::function<void()>>> on_stop;  // last: it uses interruption
};

}  // namespace phub
