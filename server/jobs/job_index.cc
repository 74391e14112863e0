#include "server/jobs/job_index.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "common/base/log_value.h"

namespace phub::server {
namespace {

constexpr std::size_t kKeysShownMax = 4096;  // of an ended job

// Secrets and digests.
bool same(const std::array<std::uint8_t, 32>& ours, const std::array<std::uint8_t, 32>& theirs) {
  return CRYPTO_memcmp(ours.data(), theirs.data(), ours.size()) == 0;
}

}  // namespace

void JobIndex::attach(DataPlane& data_plane) {
  const Lock lock(*this);
  data_plane_ = &data_plane;
}

std::shared_ptr<Job> JobIndex::find(std::uint64_t job_id) const {
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? nullptr : found->second;
}

std::shared_ptr<Job> JobIndex::find_live(const JobName& name) const {
  const auto found = live_by_name_.find(name);
  return found == live_by_name_.end() ? nullptr : jobs_.at(found->second);
}

// Says the same whatever is wrong: a stranger learns nothing of the jobs here.
Result<std::shared_ptr<Job>> JobIndex::find(const Ticket& ticket) const {
  const std::shared_ptr<Job> job = find(ticket.job_id);
  const bool is_known = job != nullptr && is_live(*job) && job->nonce_hash;
  const Digest expected = is_known ? *job->nonce_hash : Digest{};
  if (same(expected, ticket.nonce_hash) && is_known) return job;
  return Status(
      Code::kUnauthenticated,
      "job_id and nonce are not those of a job that waits here; `phubctl job create` prints them");
}

Result<JobIndex::Caller> JobIndex::authenticate(const Identity& identity) const {
  const std::shared_ptr<Job> job = find(identity.job_id);
  if (job == nullptr) {
    return Status(
        Code::kNotFound,
        fmt::format("job id {} is not known here; was the server restarted?", identity.job_id));
  }
  if (identity.epoch < job->epoch) {
    return Status(
        Code::kNotFound,
        fmt::format("epoch {} of job id {} is over, it is in epoch {}; was the server restarted?",
                    identity.epoch, identity.job_id, job->epoch));
  }
  const auto member = job->members.find(identity.worker);
  if (member == job->members.end() || job->epoch != identity.epoch ||
      !same(member->second->secret, identity.secret)) {
    return Status(Code::kPermissionDenied,
                  fmt::format("the secret is not that of worker {} of job id {} in epoch {}",
                              identity.worker, identity.job_id, identity.epoch));
  }
  return Caller{.job = job, .member = member->second};
}

std::vector<std::shared_ptr<Job>> JobIndex::all_live() const {
  std::vector<std::shared_ptr<Job>> live;
  for (const auto& [name, id] : live_by_name_) live.push_back(jobs_.at(id));
  return live;
}

bool JobIndex::has_memory(Memory memory) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [memory](const auto& entry) { return entry.second->place.memory == memory; });
}

Status JobIndex::admit_one_more() const {
  if (is_draining_) {
    return {Code::kUnavailable, "the server is draining and takes no new jobs; use another"};
  }
  if (live_jobs() < options.live_jobs_max) return {};
  return {Code::kResourceExhausted,
          fmt::format("the server has {} jobs, no more are allowed; close one", live_jobs())};
}

void JobIndex::add(std::shared_ptr<Job> job) {
  live_by_name_[name_of(*job)] = job->id;
  jobs_[job->id] = std::move(job);
}

void JobIndex::end(Job& job, JobState state, const std::string& reason) {
  job.state = state;
  job.reason = reason;
  live_by_name_.erase(name_of(job));
  if (job.place.memory == Memory::kHeld) job.place.memory = Memory::kToRelease;
  if (job.place.memory == Memory::kNone) forget_keys(job);
  const auto level = state == JobState::kEnded ? spdlog::level::info : spdlog::level::warn;
  spdlog::log(level, "event=job_{} job={} id={} reason={}", name_of(state), log_value(label(job)),
              job.id, log_value(reason));
  changed.notify_all();
}

void JobIndex::forget_oldest() {
  std::size_t finished = jobs_.size() - live_by_name_.size();
  for (auto entry = jobs_.begin(); entry != jobs_.end() && finished > options.finished_jobs_max;) {
    const Job& job = *entry->second;
    const Memory memory = job.place.memory;
    if (!is_live(job) && (memory == Memory::kNone || memory == Memory::kReleased)) {
      entry = jobs_.erase(entry);
      --finished;
    } else {
      ++entry;
    }
  }
}

void forget_keys(Job& job) {
  if (job.spec->keys.size() <= kKeysShownMax) return;
  JobSpec spec = *job.spec;
  spec.keys = std::vector<KeySpec>();
  job.spec = std::make_shared<const JobSpec>(std::move(spec));
}

}  // namespace phub::server
