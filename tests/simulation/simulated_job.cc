#include "tests/simulation/simulated_job.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace phub::simulation {
namespace {

// Rounds of the core that a job may be awake without being read or served: turns of the others, and
// of its own debt, are over long before.
constexpr std::uint32_t kUnservedMost = 3000;

}  // namespace

SimulatedJob::SimulatedJob(const JobOptions& options, server::Core& core, Random& random)
    : options_(options),
      streams_(options.shape),
      core_(core),
      random_(random),
      rounds_(options.rounds),
      workers_(options.shape.workers),
      expected_(
          streams_.layout,
          [this](std::uint32_t worker, std::uint32_t slot, std::uint32_t round) {
            return value(worker, slot, round);
          },
          [this](std::uint32_t round) { return votes_of(round); }) {
  if (random_.one_in(2)) streams_.on_core->limit_staging(random_.between(1, 6));
  const std::uint32_t local = random_.below(4);  // of four, over shared memory
  for (std::uint32_t index = 0; index < workers_.size(); ++index) {
    Worker& worker = workers_[index];
    worker.link =
        random_.below(3) < local ? make_shm_link(streams_, index) : make_tcp_link(streams_, index);
    worker.order.resize(options.shape.chunks);
    std::iota(worker.order.begin(), worker.order.end(), 0U);
    if (random_.one_in(3)) std::reverse(worker.order.begin(), worker.order.end());
    if (random_.one_in(3)) std::shuffle(worker.order.begin(), worker.order.end(), random_.engine());
    worker.pushed.resize(options.shape.chunks);
    worker.replied.resize(options.shape.chunks);
  }
}

SimulatedJob::~SimulatedJob() { core_.attachments().detach(streams_.on_core.get()); }

bool SimulatedJob::is_done() const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    return std::all_of(worker.replied.begin(), worker.replied.end(),
                       [&](std::uint32_t rounds) { return rounds == rounds_; });
  });
}

// Exact in fp32, as sums of them are, and another for each push.
float SimulatedJob::value(std::uint32_t worker, std::uint32_t slot, std::uint32_t round) const {
  const float value = static_cast<float>((id() % 16 + 1) * (worker + 1) + 17 * slot) +
                      3 * static_cast<float>(round);
  return value * (round > 0 ? votes_of(round).loss_scale : 1.0F);
}

bool SimulatedJob::overflows(std::uint32_t worker, std::uint32_t round) const {
  return votes() && round > 0 && (id() + 5 * worker + 3 * round) % 11 == 0;
}

RoundVotes SimulatedJob::votes_of(std::uint32_t round) const {
  RoundVotes all;
  if (votes()) all.loss_scale = static_cast<float>(1U << ((id() + round) % 5));
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
    all.overflow = all.overflow || overflows(worker, round);
  }
  return all;
}

void SimulatedJob::change_mood(Worker& worker) {
  worker.most_bytes = SIZE_MAX;
  if (hurries_) return;
  switch (random_.below(6)) {
    case 0:
      worker.asleep = random_.between(1, 60);
      break;
    case 1:
      worker.most_bytes = random_.between(1, 40);
      break;
    case 2:
      worker.most_bytes = random_.between(100, 9000);
      break;
    default:
      break;
  }
}

std::string SimulatedJob::step() {
  const auto index = random_.below(static_cast<std::uint32_t>(workers_.size()));
  Worker& worker = workers_[index];
  if (worker.dead) return {};
  if (!worker.connected) {
    worker.connected = connect(worker);
    return {};
  }
  if (hurries_) worker.asleep = 0;
  if (worker.asleep > 0) return --worker.asleep, std::string();
  if (random_.one_in(8)) change_mood(worker);
  push_some(index);
  if (votes()) vote_if_due(index);
  worker.link->pump(worker.most_bytes);
  return take_replies(index);
}

// Who comes back to a job that lost a worker may still send what it had begun.
bool SimulatedJob::connect(Worker& worker) {
  if (!worker.link->connect(core_)) return false;
  const std::uint32_t epoch = options_.shape.epoch;
  for (std::uint32_t stale = epoch > 1 ? random_.below(3) : 0; stale > 0; --stale, ++stale_) {
    worker.link->push_later(random_.below(options_.shape.chunks), 1e6F, epoch - 1);
  }
  return true;
}

// Begins pushes of chunks whose last reply is there, a few at a time, in its order.
void SimulatedJob::push_some(std::uint32_t index) {
  Worker& worker = workers_[index];
  std::uint32_t room = random_.between(1, 8);
  for (const std::uint32_t slot : worker.order) {
    if (room == 0) return;
    if (worker.pushed[slot] == rounds_ || worker.pushed[slot] > worker.replied[slot]) continue;
    worker.link->push_later(slot, value(index, slot, worker.pushed[slot]), options_.shape.epoch);
    ++worker.pushed[slot];
    ++begun_;
    --room;
  }
}

// When all of a round is pushed; nobody votes on the first one, of parameters.
void SimulatedJob::vote_if_due(std::uint32_t index) {
  Worker& worker = workers_[index];
  const std::uint32_t rounds = *std::min_element(worker.pushed.begin(), worker.pushed.end());
  if (rounds < worker.voted + 2) return;
  ++worker.voted;
  worker.link->vote_later({.loss_scale = votes_of(worker.voted).loss_scale,
                           .overflow = overflows(index, worker.voted) ? 1U : 0U});
}

std::string SimulatedJob::take_replies(std::uint32_t index) {
  Worker& worker = workers_[index];
  const std::size_t most = std::min<std::size_t>(worker.most_bytes, std::size_t{1} << 16);
  for (const auto& reply : worker.link->take_replies(most)) {
    const std::string where = "job " + std::to_string(id()) + ", worker " + std::to_string(index) +
                              ", chunk " + std::to_string(reply.slot) + ": ";
    if (reply.slot >= worker.replied.size()) return where + "there is no such chunk";
    const std::uint32_t round = worker.replied[reply.slot]++;
    if (round >= worker.pushed[reply.slot]) return where + "a reply to nothing";
    const float expected = expected_.at(reply.slot, round);
    if (!reply.is_even || reply.value != expected) {
      return where + "round " + std::to_string(round) + " has " + std::to_string(reply.value) +
             ", not " + std::to_string(expected);
    }
    if (reply.skipped != votes_of(round).overflow) return where + "a skipped round is not told";
  }
  return {};
}

void SimulatedJob::kill_worker() {
  const auto index = random_.below(static_cast<std::uint32_t>(workers_.size()));
  Worker& worker = workers_[index];
  if (!worker.connected || worker.dead) return;
  worker.link->die();
  worker.dead = true;
  has_died_ = true;
}

std::string SimulatedJob::on_lost(const server::LossEvent& event) {
  const std::uint32_t worker = event.worker;
  const std::string who = "job " + std::to_string(id()) + ", worker " + std::to_string(worker);
  reported_ = true;
  if (!workers_[worker].dead) return who + " is said to be lost, and is not";
  if (std::exchange(workers_[worker].reported, true)) return who + " is said to be lost twice";
  return {};
}

std::string SimulatedJob::check() {
  const server::JobOnCore& on_core = *streams_.on_core;
  const std::string who = "job " + std::to_string(id()) + ": ";
  const std::uint64_t worked = on_core.times.busy.value();
  unserved_ = on_core.is_awake() && worked == worked_ ? unserved_ + 1 : 0;
  worked_ = worked;
  if (unserved_ > kUnservedMost) return who + "awake, and not served";
  if (has_died_) return {};
  const std::uint64_t complete = on_core.shard.updates.chunks_completed.value() * workers_.size();
  // A push is in a buffer, or several are in one; a sum is the first one's.
  if (complete > begun_) return who + "more is complete than was pushed";
  if (on_core.staging->in_use() > begun_ - complete + stale_)
    return who + "buffers of nothing are in use";
  return {};
}

}  // namespace phub::simulation
