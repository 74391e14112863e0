// A training that goes on after a server or a worker was lost (train.recover_s): all workers leave
// the job, worker 0 restores it from the last checkpoint and the servers' snapshots of that step,
// and all join it again. So does a worker that was started again.
//
// Belongs to the main thread. A session, which calls `restore` and `joined`, comes between
// `prepare` and `goes_on`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/train/session.h"

namespace phub {

class WorkerConfig;

class Recovery {
 public:
  using Clock = std::chrono::steady_clock;

  // `config` outlives it. `note` is told what is lost, and what becomes of it.
  Recovery(const WorkerConfig& config, std::function<void(std::string_view)> note,
           std::stop_token stop);

  // Sets what the next session goes on from: at worker 0 its newest checkpoint, if there is one.
  // Those that are damaged, or whose snapshots are, are passed over, which is noted. The others
  // learn it from the servers. Like `restore`, it does nothing without train.recover_s.
  Status prepare(train::SessionOptions& options);
  // Has the servers restore the job, right before worker 0 joins it. Errors: restore_all's.
  Status restore();
  // The session's job runs, with this number of steps behind it.
  void joined(std::uint64_t steps_before);
  void stepped() { ++steps_; }

  // Whether to try again after `error`, which ended the session; waits a little before. Otherwise
  // `error` has the reason to give up.
  bool goes_on(Status& error);
  // The same after a session that a server ended because it stops: it may come back.
  bool goes_on(const train::SessionResult& result);

 private:
  // A training that is lost this often without a newer checkpoint is given up.
  static constexpr std::uint32_t kTriesMax = 10;

  bool is_on() const;
  bool is_first() const;
  bool is_final(const Status& error) const;
  void note_passed_over(const std::filesystem::path& path, const Status& why) const;
  void pause();

  const WorkerConfig& config_;
  const std::function<void(std::string_view)> note_;
  const std::stop_token stop_;
  Clock::time_point lost_{};  // since when nothing was trained
  std::string loss_;          // what was lost then; empty: nothing yet
  // At worker 0.
  std::vector<std::string> snapshots_;  // to restore, by server; empty: none
  std::filesystem::path resume_;        // their checkpoint
  std::uint64_t step_ = 0;              // its step
  std::uint64_t newest_ = 0;            // the step of the newest checkpoint so far
  std::uint32_t tries_ = 0;             // jobs that ran and were lost since it
  std::set<std::uint64_t> damaged_;     // steps whose snapshots could not be restored
  // What the last session did.
  bool is_asked_ = false;    // it came as far as the servers
  bool has_joined_ = false;  // its job ran
  bool is_damaged_ = false;  // a snapshot that was to be restored
  bool has_ever_joined_ = false;
  std::uint64_t steps_ = 0;  // made in this process
  std::chrono::milliseconds pause_{0};
};

// The snapshots that a checkpoint names ("FILE at ADDRESS, ..."), in the order of `addresses`.
// Error: kInvalidArgument names the server that took none.
Result<std::vector<std::string>> snapshots_at(const std::string& snapshots,
                                              const std::vector<std::string>& addresses);

}  // namespace phub
