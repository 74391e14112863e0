#include "server/plane/job_copying.h"

#include <algorithm>
#include <string>

namespace phub::server {
namespace {

constexpr std::uint32_t kChunksPerStep = 8;  // of resting chunks: some 100 us of a core

}  // namespace

bool CopyQueue::has_turn(std::uint64_t job_id, const CopyUnderWay& copy) {
  const std::lock_guard lock(mutex_);
  std::deque<const CopyUnderWay*>& queue = copies_[job_id];
  if (std::find(queue.begin(), queue.end(), &copy) == queue.end()) queue.push_back(&copy);
  return queue.front() == &copy;
}

void CopyQueue::leave(std::uint64_t job_id, const CopyUnderWay& copy) {
  const std::lock_guard lock(mutex_);
  const auto found = copies_.find(job_id);
  if (found == copies_.end()) return;
  std::erase(found->second, &copy);
  if (found->second.empty()) copies_.erase(found);
}

JobCopying::~JobCopying() {
  if (copy_) jobs_.with(job_id_, [&](const PlaneJob& job) { end(job.on_cores()); });
  queue_.leave(job_id_, *this);
}

Result<std::optional<CopiedJob>> JobCopying::step() {
  if (moment_.is_cancelled()) {
    return Status(Code::kAborted, "whoever asked for the snapshot has gone away");
  }
  if (!queue_.has_turn(job_id_, *this)) {
    if (!is_late()) return std::optional<CopiedJob>();
    return Status(Code::kDeadlineExceeded, "another snapshot of it is still under way");
  }
  if (!copy_) {
    PHUB_RETURN_IF_ERROR(prepare());
    return std::optional<CopiedJob>();
  }
  Result<bool> is_whole = Status(Code::kNotFound, "it is not running here");
  jobs_.with(job_id_, [&](const PlaneJob& job) { is_whole = copy_some(job.on_cores()); });
  if (!is_whole) return is_whole.error();
  if (!*is_whole) return std::optional<CopiedJob>();
  result_.copy = copy_;
  result_.pause_seconds = TickRate::measure().seconds_of(pause_ticks_);
  return std::optional<CopiedJob>(std::move(result_));
}

Status JobCopying::prepare() {
  JobLayout& layout = result_.layout;
  if (!jobs_.with(job_id_, [&](const PlaneJob& job) { layout = job.layout(); })) {
    return {Code::kNotFound, "it is not running here"};
  }
  PHUB_ASSIGN_OR_RETURN(result_.counted_bytes, jobs_.reserve(bytes_copied(layout), "the snapshot"));
  if (!has_parameters(layout.rule)) {
    return {Code::kFailedPrecondition,
            "its rule keeps no parameters at the server: there is nothing to copy"};
  }
  PHUB_ASSIGN_OR_RETURN(copy_,
                        JobCopy::create(*layout.plan, layout.server_index, state_arrays(layout)));
  copy_->touch(*layout.plan, layout.server_index);
  rest_ = kRestMin;
  return {};
}

Result<bool> JobCopying::copy_some(const JobOnCores& on_cores) {
  if (!begun_) {
    PHUB_ASSIGN_OR_RETURN(begun_, begin(on_cores));
    if (!begun_) return false;
  }
  std::uint32_t left = 0;
  std::uint64_t pause_ticks = 0;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    cores_[i]->call([&] {
      left += on_cores[i]->shard.updates.copying.copy_some(kChunksPerStep);
      pause_ticks = std::max(pause_ticks, on_cores[i]->shard.updates.copying.spent());
    });
  }
  rest_ = left == left_ ? std::min(2 * rest_, kRestMax) : kRestMin;
  left_ = left;
  if (left > 0 && !is_late()) return false;
  end(on_cores);
  if (left > 0) {
    return Status(Code::kDeadlineExceeded,
                  "its workers did not finish round " + std::to_string(copy_->round) + " within " +
                      std::to_string(moment_.timeout.count()) + " ms (" + std::to_string(left) +
                      " chunks are missing); do they still train?");
  }
  pause_ticks_ = pause_ticks;
  return true;
}

// A round that no chunk has left behind. A job at rest is copied where it is; of one that goes on,
// some chunks are beyond that before all cores know, and a round that comes is taken.
Result<bool> JobCopying::begin(const JobOnCores& on_cores) {
  // What a restored job had behind it is the snapshot's round but one, and is not there any more.
  const std::uint64_t first = result_.layout.rounds_before + 1;
  std::uint64_t furthest = 0;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    cores_[i]->call(
        [&] { furthest = std::max(furthest, on_cores[i]->shard.rounds_to_copy(first)); });
  }
  copy_->round = moment_.round != 0 ? moment_.round : std::max(first, furthest + margin_);
  std::vector<char> accepted(cores_.size(), 0);
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    if (copy_->round < first) break;
    cores_[i]->call([&] { accepted[i] = on_cores[i]->shard.updates.copying.begin(copy_) ? 1 : 0; });
  }
  if (std::count(accepted.begin(), accepted.end(), 1) == static_cast<long>(cores_.size())) {
    return true;
  }
  end(on_cores);
  if (moment_.round != 0) {
    return Status(Code::kFailedPrecondition, "round " + std::to_string(moment_.round) +
                                                 " is over already; ask for a later one");
  }
  margin_ = 2 * margin_ + 1;
  if (!is_late()) return false;
  return Status(Code::kDeadlineExceeded, "its rounds are too fast to be caught");
}

void JobCopying::end(const JobOnCores& on_cores) const {
  for (std::size_t i = 0; i < cores_.size(); ++i)
    cores_[i]->call([&] { on_cores[i]->shard.updates.copying.end(); });
}

}  // namespace phub::server
