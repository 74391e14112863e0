#include "worker/cli/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "common/rendezvous/end_reasons.h"
#include "common/rendezvous/restore.h"
#include "common/tensors/safetensors.h"
#include "worker/cli/options/run_options.h"
#include "worker/train/checkpoints/checkpoint.h"
#include "worker/train/checkpoints/kept_checkpoints.h"

namespace phub {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPauseFirst{100};
constexpr milliseconds kPauseLast{2000};

}  // namespace

Result<std::vector<std::string>> snapshots_at(const std::string& snapshots,
                                              const std::vector<std::string>& addresses) {
  constexpr std::string_view kAt = " at ", kNext = ", ";
  std::vector<std::string> files;
  for (const std::string& address : addresses) {
    std::string file;
    std::string_view rest = snapshots;
    while (!rest.empty() && file.empty()) {
      const std::string_view one = rest.substr(0, rest.find(kNext));
      rest.remove_prefix(std::min(rest.size(), one.size() + kNext.size()));
      const std::size_t at = one.rfind(kAt);
      if (at != std::string_view::npos && one.substr(at + kAt.size()) == address) {
        file = one.substr(0, at);
      }
    }
    if (file.empty()) {
      return Status(
          Code::kInvalidArgument,
          snapshots.empty()
              ? "train.recover_s: the checkpoint is of a training without train.snapshot, so its "
                "servers' part is nowhere: remove it to begin anew"
              : fmt::format("train.recover_s: the checkpoint names no snapshot of server {} (it "
                            "names {}): give the servers that it was trained with",
                            address, snapshots));
    }
    files.push_back(std::move(file));
  }
  return files;
}

Recovery::Recovery(const WorkerConfig& config, std::function<void(std::string_view)> note,
                   std::stop_token stop)
    : config_(config), note_(std::move(note)), stop_(std::move(stop)) {}

bool Recovery::is_on() const { return config_.train().recover_s() > 0; }

bool Recovery::is_first() const { return config_.workers() == 1 || config_.worker_index() == 0; }

Status Recovery::prepare(train::SessionOptions& options) {
  is_asked_ = has_joined_ = is_damaged_ = false;
  snapshots_.clear();
  resume_.clear();
  if (!is_on() || !is_first()) return {};
  const auto paths = train::checkpoints_there(options.checkpoint.path);
  for (const auto& path : paths) {
    // All of it: half a file has a whole head.
    const auto whole = read_safetensors(path);
    const auto position = train::read_position(path);
    if (!whole || !position) {
      note_passed_over(path, whole ? position.error() : whole.error());
      continue;
    }
    if (position->next_step > newest_) {
      newest_ = position->next_step;
      tries_ = 0;
      damaged_.clear();
    }
    if (damaged_.contains(position->next_step)) continue;
    if (position->model != options.model || position->seed != options.seed) {
      return {Code::kInvalidArgument,
              fmt::format("train.recover_s: {} is of model {} with seed {}, so it is no checkpoint "
                          "of this training: remove it, or give another train.checkpoint",
                          path.string(), position->model, position->seed)};
    }
    PHUB_ASSIGN_OR_RETURN(snapshots_,
                          snapshots_at(position->snapshots, client_of(config_).servers));
    step_ = position->next_step;
    resume_ = path;
    break;
  }
  if (resume_.empty() && !paths.empty()) {
    return {
        Code::kDataLoss,
        fmt::format("train.recover_s: none of {} checkpoints can be used; to begin anew, remove "
                    "{} and those beside it (NAME.step-STEP)",
                    paths.size(), options.checkpoint.path.string())};
  }
  options.checkpoint.resume = resume_;
  return {};
}

void Recovery::note_passed_over(const std::filesystem::path& path, const Status& why) const {
  note_(fmt::format("train.recover_s: checkpoint {} is passed over: {}", path.string(),
                    why.message()));
}

Status Recovery::restore() {
  is_asked_ = true;
  if (snapshots_.empty()) return {};
  const ClientOptions client = client_of(config_);
  const Status restored = client::restore_all(client.servers, snapshots_, client.job.name,
                                              client.timeout, client.security, stop_);
  is_damaged_ = restored.code() == Code::kDataLoss || restored.code() == Code::kNotFound;
  if (is_damaged_) {
    note_passed_over(resume_, restored);
    damaged_.insert(step_);
  }
  return restored.with_context("train.recover_s");
}

void Recovery::joined(std::uint64_t steps_before) {
  has_joined_ = has_ever_joined_ = true;
  if (!is_on() || steps_before > 0 || steps_ < 2 * config_.train().checkpoint_steps()) return;
  note_(
      fmt::format("train.recover_s: the training begins anew, though this worker has made {} "
                  "steps: worker 0 has found no checkpoint; is train.checkpoint where it was?",
                  steps_));
}

// Whether no server and no other worker can mend it by coming back, or somebody has wanted it.
bool Recovery::is_final(const Status& error) const {
  const auto says = [&](std::string_view words) {
    return error.message().find(words) != std::string::npos;
  };
  if (!is_asked_) return true;  // it is this worker's own
  switch (error.code()) {
    case Code::kInvalidArgument:
    case Code::kDataLoss:
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
      // A server that was started again knows no secret of before.
      if (error.code() != Code::kPermissionDenied || !has_joined_) return true;
      break;
    default:
      break;
  }
  if (says(client::kClosedByAdministrator) || says(client::kTenantDeleted)) return true;
  if (error.message().starts_with("train.snapshot")) return true;  // servers without a state folder
  // The job is another training's, else it would have ended in that time.
  // A place that is taken may be this worker's own, of a join whose reply did not arrive.
  const bool is_anothers = says(client::kStillRuns) || says(client::kHasWorkers);
  return !has_ever_joined_ && is_anothers && !loss_.empty() &&
         Clock::now() - lost_ >= milliseconds(config_.timeout_ms());
}

bool Recovery::goes_on(Status& error) {
  if (!is_on() || stop_.stop_requested()) return false;
  if (std::exchange(is_damaged_, false)) return true;  // another checkpoint is next
  if (is_final(error)) return false;
  const auto now = Clock::now();
  if (has_joined_ || loss_.empty()) {
    lost_ = now;
    loss_ = error.message();
    pause_ = kPauseFirst;
    note_(
        fmt::format("{}; the training goes back to its last checkpoint, and waits {} s at most "
                    "for who is missing (train.recover_s)",
                    error.message(), config_.train().recover_s()));
  }
  if (has_joined_ && is_first() && ++tries_ >= kTriesMax) {
    error = error.with_context(
        fmt::format("train.recover_s: the training was lost {} times after step {}, without "
                    "another checkpoint between",
                    tries_, newest_));
    return false;
  }
  if (now - lost_ >= std::chrono::seconds(config_.train().recover_s())) {
    error = {error.code(),
             fmt::format("train.recover_s: {} s are over since this: {}; the last try ended so: {}",
                         config_.train().recover_s(), loss_, error.message())};
    return false;
  }
  pause();
  return !stop_.stop_requested();
}

bool Recovery::goes_on(const train::SessionResult& result) {
  if (!is_on() || !result.interrupted || !result.ending.starts_with(client::kServerStops)) {
    return false;
  }
  Status ended(Code::kUnavailable, result.ending);
  return goes_on(ended);
}

void Recovery::pause() {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop_, pause_, [] { return false; });
  pause_ = std::min(2 * pause_, kPauseLast);
}

}  // namespace phub
