#include "tests/simulation/quorum_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace phub::simulation {
namespace {

constexpr float kFirst = 0.0F;  // the parameters that all begin with

// How many pushes of the worker are in the parameters, which were diminished by each.
std::uint32_t digit_of(float value, std::uint32_t worker) {
  const auto sum = static_cast<std::uint32_t>(-value);
  return (sum >> (6 * worker)) % QuorumJob::kDigit;
}

// Of all workers.
std::uint32_t pushes_in(float value) {
  std::uint32_t pushes = 0;
  for (std::uint32_t w = 0; w < QuorumJob::kWorkersMost; ++w) pushes += digit_of(value, w);
  return pushes;
}

}  // namespace

QuorumJob::QuorumJob(const QuorumJobOptions& options, server::Core& core, Random& random)
    : options_(options),
      streams_(options.shape),
      core_(core),
      random_(random),
      workers_(options.shape.workers) {
  const std::uint32_t local = random_.below(4);  // of four, over shared memory
  for (std::uint32_t index = 0; index < workers_.size(); ++index) {
    Worker& worker = workers_[index];
    worker.link =
        random_.below(3) < local ? make_shm_link(streams_, index) : make_tcp_link(streams_, index);
    worker.laziness = random_.one_in(3) ? random_.between(2, 12) : 1;
    worker.pushed.resize(options.shape.chunks);
    worker.replied.resize(options.shape.chunks);
    worker.counted.resize(options.shape.chunks);
  }
}

QuorumJob::~QuorumJob() { core_.attachments().detach(streams_.on_core.get()); }

std::string QuorumJob::step() {
  const auto index = random_.below(static_cast<std::uint32_t>(workers_.size()));
  Worker& worker = workers_[index];
  if (worker.gone || (!hurries_ && !random_.one_in(worker.laziness))) return {};
  if (!worker.connected) {
    worker.connected = worker.link->connect(core_);
    return {};
  }
  if (hurries_) worker.asleep = 0;
  if (worker.asleep > 0) return --worker.asleep, std::string();
  if (!hurries_ && random_.one_in(40)) worker.asleep = random_.between(1, 300);
  push_some(index);
  worker.link->pump(!hurries_ && random_.one_in(4) ? random_.between(1, 4000) : SIZE_MAX);
  std::string wrong = take_replies(index);
  if (wrong.empty() && is_done(worker)) {
    worker.link->die();
    worker.gone = true;
  }
  return wrong;
}

bool QuorumJob::is_done(const Worker& worker) const {
  return std::all_of(worker.replied.begin(), worker.replied.end(),
                     [&](std::uint32_t replies) { return replies == options_.pushes + 1; });
}

void QuorumJob::push_some(std::uint32_t index) {
  Worker& worker = workers_[index];
  for (std::uint32_t room = random_.between(1, 6); room > 0; --room) {
    const std::uint32_t slot = random_.below(options_.shape.chunks);
    if (worker.pushed[slot] > options_.pushes || worker.pushed[slot] > worker.replied[slot])
      continue;
    const float value =
        worker.pushed[slot] == 0 ? kFirst : static_cast<float>(std::uint32_t{1} << (6 * index));
    worker.link->push_later(slot, value, options_.shape.epoch);
    ++worker.pushed[slot];
  }
}

std::string QuorumJob::take_replies(std::uint32_t index) {
  for (const auto& reply : workers_[index].link->take_replies(std::size_t{1} << 16)) {
    if (std::string wrong = check_reply(index, reply); !wrong.empty()) {
      return name() + ", worker " + std::to_string(index) + ", chunk " +
             std::to_string(reply.slot) + ": " + wrong;
    }
  }
  return {};
}

std::string QuorumJob::check_reply(std::uint32_t index, const WorkerLink::Reply& reply) {
  Worker& worker = workers_[index];
  if (reply.slot >= worker.replied.size()) return "there is no such chunk";
  const std::uint32_t pushes = worker.pushed[reply.slot] - 1;  // but the first
  if (worker.replied[reply.slot]++ >= worker.pushed[reply.slot]) return "a reply to nothing";
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    const std::uint32_t pushed = workers_[other].pushed[reply.slot];
    if (digit_of(reply.value, other) > (pushed == 0 ? 0 : pushed - 1)) {
      return "a push of worker " + std::to_string(other) + " is counted twice";
    }
  }
  const std::uint32_t own = digit_of(reply.value, index);
  const std::uint32_t had = std::exchange(worker.counted[reply.slot], own);
  if (own < had) return "a push that was counted is not any more";
  // Those of the round that is under way are in no parameters yet.
  if (policy().late == LatePushes::kAdd && own + policy().quorum <= pushes) return "a push is lost";
  if (policy().staleness != kAnyStaleness &&
      worker.pushed[reply.slot] > fewest_pushed(reply.slot) + policy().staleness) {
    return "it is further ahead than it may be";
  }
  return {};
}

// Of those who are not gone.
std::uint32_t QuorumJob::fewest_pushed(std::uint32_t slot) const {
  std::uint32_t fewest = UINT32_MAX;
  for (const Worker& worker : workers_) {
    if (!worker.gone) fewest = std::min(fewest, worker.pushed[slot]);
  }
  return fewest;
}

float QuorumJob::value_of(std::uint32_t slot) const {
  float value = 0.0F;
  std::memcpy(&value, streams_.on_core->shard.updates.replies.whole(slot).data(), sizeof(value));
  return value;
}

void QuorumJob::kill_worker() {
  Worker& worker = workers_[random_.below(static_cast<std::uint32_t>(workers_.size()))];
  if (!worker.connected || worker.gone) return;
  worker.link->die();
  worker.gone = true;
  has_lost_ = true;
}

std::string QuorumJob::on_lost(const server::LossEvent& event) {
  Worker& worker = workers_[event.worker];
  const std::string who = name() + ", worker " + std::to_string(event.worker);
  if (!worker.gone) return who + " is said to be lost, and is not";
  if (std::exchange(worker.reported, true)) return who + " is said to be lost twice";
  // The core has lost the last one, or one before all had the first parameters.
  if (!event.goes_on) has_stopped_ = true;
  return {};
}

std::string QuorumJob::check() {
  const server::Shard& shard = streams_.on_core->shard;
  const auto workers = static_cast<std::uint32_t>(workers_.size());
  const bool is_whole = shard.members.rounds()->counters.impatient.value() == 0 &&
                        std::none_of(workers_.begin(), workers_.end(),
                                     [](const Worker& worker) { return worker.gone; });
  for (std::uint32_t slot = 0; slot < shard.chunks(); ++slot) {
    const std::uint64_t rounds = shard.chunk(slot).rounds;
    if (rounds < 2) continue;
    const std::uint64_t pushes = pushes_in(value_of(slot));
    if (is_whole && pushes < policy().quorum * (rounds - 1)) {
      return name() + ": a round had less than its quorum";
    }
    if (pushes > workers * (rounds - 1)) return name() + ": a round had somebody twice";
  }
  return policy().turns ? check_turns() : std::string();
}

// Of a chunk one worker at a time has parameters that it has not pushed for.
std::string QuorumJob::check_turns() const {
  for (std::uint32_t slot = 0; slot < options_.shape.chunks; ++slot) {
    const auto computes = [slot](const Worker& worker) {
      return !worker.gone && worker.pushed[slot] > 0 && worker.replied[slot] == worker.pushed[slot];
    };
    if (std::count_if(workers_.begin(), workers_.end(), computes) > 1) {
      return name() + ": two workers have their turn with chunk " + std::to_string(slot);
    }
  }
  const auto& late = streams_.on_core->shard.members.rounds()->late();
  const auto is_late = [](const server::LateCounters& worker) {
    return std::any_of(worker.pushes.begin() + 1, worker.pushes.end(),
                       [](const Counter& pushes) { return pushes.value() > 0; });
  };
  const bool is_any_late = std::any_of(late.begin(), late.end(), is_late);
  return is_any_late ? name() + ": a push of a turn is late" : std::string();
}

std::string QuorumJob::check_end() {
  // What a dead worker had begun may be there still, or in a round that nobody ends any more.
  if (has_lost_) return {};
  // Rounds that were due when the last worker went: a core does not end them, for nobody reads
  // them.
  server::Shard& shard = streams_.on_core->shard;
  while (!shard.members.rounds()->due.empty()) shard.end_round();
  if (streams_.on_core->staging->in_use() > 0) return name() + ": buffers of nothing are in use";
  std::uint64_t lost = 0;
  std::uint64_t dropped = 0;
  for (std::uint32_t index = 0; index < workers_.size(); ++index) {
    for (std::uint32_t slot = 0; slot < options_.shape.chunks; ++slot) {
      lost += options_.pushes - digit_of(value_of(slot), index);
    }
    dropped += shard.members.rounds()->late()[index].dropped.value();
  }
  if (lost != dropped) {
    return name() + ": " + std::to_string(lost) + " pushes are in no round, but " +
           std::to_string(dropped) + " were dropped";
  }
  return {};
}

}  // namespace phub::simulation
