// When the last rounds of one job happened on one core: who pushed when, when the chunks were
// complete, when the replies were sent, and what the core spent.
//
// Stamps are ticks (common/base/ticks.h). A worker's n-th `chunks` pushes belong to round n, and so
// for completions and replies: where keys are pipelined over the end of a round, neighbouring
// rounds share a few chunks. Belongs to the core's thread; allocates when it is made.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace phub::server {

struct WorkerSpan {
  std::uint64_t first_push = 0;
  std::uint64_t last_push = 0;
};

// When another rack's sums, and its replies to this one's, came; 0: it brings none.
struct RackSpan {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct RoundRecord {
  std::uint64_t round = 0;
  std::uint64_t first_push = 0;  // of any worker
  std::uint64_t complete = 0;
  std::uint64_t replied = 0;
  std::uint64_t work = 0;            // what the core spent on it
  std::vector<WorkerSpan> workers;   // of this rack
  std::vector<RackSpan> racks = {};  // of the job, the own one's is empty; none: one rack
};

class RoundLog {
 public:
  static constexpr std::size_t kRounds = 256;  // that are kept

  // `brought`: by rack, how many sums and replies it brings in a round; empty: one rack.
  RoundLog(std::uint32_t workers, std::uint32_t chunks, std::vector<std::uint32_t> brought = {})
      : chunks_(chunks),
        heads_(kRounds),
        spans_(kRounds * workers),
        workers_(workers),
        rack_spans_(kRounds * brought.size()),
        racks_(brought.size()),
        brought_(std::move(brought)) {}

  void pushed(std::uint32_t worker, std::uint64_t now) {
    Progress& progress = workers_[worker];
    if (progress.pushes == 0) begin(worker, progress.push_round, now);
    if (++progress.pushes < chunks_) return;
    progress.pushes = 0;
    span(progress.push_round++, worker).last_push = now;
  }
  // A rack's n-th `brought` sums and replies belong to round n.
  void brought(std::uint32_t rack, std::uint64_t now) {
    if (racks_.empty()) return;  // none brings the same in each round
    RackProgress& progress = racks_[rack];
    RackSpan& span = rack_spans_[progress.round % kRounds * racks_.size() + rack];
    if (progress.brought == 0) span.first = now;
    span.last = now;
    if (++progress.brought < brought_[rack]) return;
    progress = {.round = progress.round + 1};
  }
  void completed(std::uint64_t now) {
    if (++completions_ < chunks_) return;
    completions_ = 0;
    head(complete_round_).work = work_;
    head(complete_round_++).complete = now;
    work_ = 0;
  }
  void replied(std::uint32_t worker, std::uint32_t replies, std::uint64_t now) {
    Progress& progress = workers_[worker];
    progress.replies += replies;
    if (progress.replies < chunks_) return;
    progress.replies -= chunks_;
    Head& round = head(progress.reply_round++);
    round.replied = now;
    ++round.workers_replied_to;
  }
  void worked(std::uint64_t spent) { work_ += spent; }

  // The last `count` rounds that are over (all workers have their replies), the oldest first.
  std::vector<RoundRecord> last(std::size_t count) const;

 private:
  struct Head {
    std::uint64_t round = 0;
    std::uint64_t first_push = 0;
    std::uint64_t complete = 0;
    std::uint64_t replied = 0;
    std::uint64_t work = 0;
    std::uint32_t workers_replied_to = 0;
  };
  struct Progress {
    std::uint64_t push_round = 0;
    std::uint64_t reply_round = 0;
    std::uint32_t pushes = 0;  // of that round
    std::uint32_t replies = 0;
  };
  struct RackProgress {
    std::uint64_t round = 0;
    std::uint32_t brought = 0;  // of that round
  };

  void begin(std::uint32_t worker, std::uint64_t round, std::uint64_t now) {
    if (round == begun_) {
      head(round) = {.round = round, .first_push = now};
      ++begun_;
    }
    span(round, worker).first_push = now;
  }
  Head& head(std::uint64_t round) { return heads_[round % kRounds]; }
  WorkerSpan& span(std::uint64_t round, std::uint32_t worker) {
    return spans_[round % kRounds * workers_.size() + worker];
  }

  std::uint32_t chunks_;
  std::uint32_t completions_ = 0;
  std::uint64_t begun_ = 0;           // rounds that somebody has begun
  std::uint64_t complete_round_ = 0;  // the one whose chunks become complete
  std::uint64_t work_ = 0;            // since the last round was complete
  std::vector<Head> heads_;           // by round % kRounds
  std::vector<WorkerSpan> spans_;     // [round % kRounds][worker]
  std::vector<Progress> workers_;
  std::vector<RackSpan> rack_spans_;  // [round % kRounds][rack]
  std::vector<RackProgress> racks_;
  std::vector<std::uint32_t> brought_;  // by rack, in a round
};

}  // namespace phub::server
