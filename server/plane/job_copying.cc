#include "server/plane/job_copying.h"

#include <algorithm>
#include <string>

namespace phub::server {
namespace {

constexpr std::uint32_t kChunksPerStep = 8;  // of resting chunks: some 100 us of a core

}  // namespace

Result<std::unique_ptr<JobCopying>> JobCopying::create(const JobLayout& shape, std::uint64_t round,
                                                       std::chrono::milliseconds timeout) {
  if (!has_parameters(shape.rule)) {
    return Status(Code::kFailedPrecondition,
                  "its rule keeps no parameters at the server: there is nothing to copy");
  }
  std::unique_ptr<JobCopying> copying(new JobCopying(shape, round, timeout));
  PHUB_ASSIGN_OR_RETURN(copying->copy_, JobCopy::create(*shape.plan, shape.server_index,
                                                        state_arrays(shape.rule) > 0));
  copying->copy_->touch(*shape.plan, shape.server_index);
  return copying;
}

Result<bool> JobCopying::step(const std::vector<std::unique_ptr<Core>>& cores,
                              const std::vector<std::unique_ptr<JobOnCore>>& on_cores) {
  if (!begun_) {
    PHUB_ASSIGN_OR_RETURN(begun_, begin(cores, on_cores));
    if (!begun_) return false;
  }
  std::uint32_t left = 0;
  std::uint64_t pause_ticks = 0;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    cores[i]->call([&] {
      left += on_cores[i]->shard.copying.copy_some(kChunksPerStep);
      pause_ticks = std::max(pause_ticks, on_cores[i]->shard.copying.spent());
    });
  }
  rest_ = left == left_ ? std::min(2 * rest_, kRestMax) : kRestMin;
  left_ = left;
  const bool is_late = std::chrono::steady_clock::now() >= deadline_;
  if (left > 0 && !is_late) return false;
  end(cores, on_cores);
  if (left > 0) {
    return Status(Code::kDeadlineExceeded,
                  "its workers did not finish round " + std::to_string(copy_->round) + " within " +
                      std::to_string(timeout_.count()) + " ms (" + std::to_string(left) +
                      " chunks are missing); do they still train?");
  }
  pause_ticks_ = pause_ticks;
  return true;
}

// A round that no chunk has left behind. A job at rest is copied where it is; of one that goes on,
// some chunks are beyond that before all cores know, and a round that comes is taken.
Result<bool> JobCopying::begin(const std::vector<std::unique_ptr<Core>>& cores,
                               const std::vector<std::unique_ptr<JobOnCore>>& on_cores) {
  // What a restored job had behind it is the snapshot's round but one, and is not there any more.
  const std::uint64_t first = shape_.rounds_before + 1;
  const std::uint64_t furthest = rounds_max(cores, on_cores);
  copy_->round = asked_round_ != 0 ? asked_round_ : std::max(first, furthest + margin_);
  std::vector<char> accepted(cores.size(), 0);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (copy_->round < first) break;
    cores[i]->call([&] { accepted[i] = on_cores[i]->shard.copying.begin(copy_) ? 1 : 0; });
  }
  if (std::count(accepted.begin(), accepted.end(), 1) == static_cast<long>(cores.size())) {
    return true;
  }
  end(cores, on_cores);
  if (asked_round_ != 0) {
    return Status(Code::kFailedPrecondition, "round " + std::to_string(asked_round_) +
                                                 " is over already; ask for a later one");
  }
  margin_ = 2 * margin_ + 1;
  if (std::chrono::steady_clock::now() < deadline_) return false;
  return Status(Code::kDeadlineExceeded, "its rounds are too fast to be caught");
}

void JobCopying::end(const std::vector<std::unique_ptr<Core>>& cores,
                     const std::vector<std::unique_ptr<JobOnCore>>& on_cores) {
  for (std::size_t i = 0; i < cores.size(); ++i)
    cores[i]->call([&] { on_cores[i]->shard.copying.end(); });
}

std::uint64_t JobCopying::rounds_max(
    const std::vector<std::unique_ptr<Core>>& cores,
    const std::vector<std::unique_ptr<JobOnCore>>& on_cores) const {
  std::uint64_t rounds = 0;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    cores[i]->call([&] { rounds = std::max(rounds, on_cores[i]->shard.copying.rounds_max()); });
  }
  return rounds;
}

CopiedJob JobCopying::result() const {
  return {.copy = copy_,
          .shape = shape_,
          .pause_seconds = TickRate::measure().seconds_of(pause_ticks_)};
}

}  // namespace phub::server
