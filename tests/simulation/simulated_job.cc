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
    : streams_(options.shape),
      core_(core),
      random_(random),
      rounds_(options.rounds),
      workers_(options.shape.workers) {
  if (random_.one_in(2)) streams_.shard->limit_staging(random_.between(1, 6));
  for (Worker& worker : workers_) {
    worker.order.resize(options.shape.chunks);
    std::iota(worker.order.begin(), worker.order.end(), 0U);
    if (random_.one_in(3)) std::reverse(worker.order.begin(), worker.order.end());
    if (random_.one_in(3)) std::shuffle(worker.order.begin(), worker.order.end(), random_.engine());
    worker.pushed.resize(options.shape.chunks);
    worker.answered.resize(options.shape.chunks);
  }
}

SimulatedJob::~SimulatedJob() { core_.detach(streams_.shard.get()); }

bool SimulatedJob::is_done() const {
  return std::all_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    return std::all_of(worker.answered.begin(), worker.answered.end(),
                       [&](std::uint32_t rounds) { return rounds == rounds_; });
  });
}

// Exact in fp32, and another for each push.
float SimulatedJob::value(std::uint32_t worker, std::uint32_t slot, std::uint32_t round) const {
  return static_cast<float>((id() % 16 + 1) * (worker + 1) + 17 * slot + 3 * round);
}

float SimulatedJob::sum(std::uint32_t slot, std::uint32_t round) const {
  float sum = 0;
  for (std::uint32_t worker = 0; worker < workers_.size(); ++worker) {
    sum += value(worker, slot, round);
  }
  return sum;
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
    auto [own, cores] = transport::stream_pair();
    // No room: others have all connections now.
    if (!core_.connect_tcp(streams_.shard.get(), index, std::move(cores)).ok()) return {};
    streams_.sockets[index] = std::move(own);
    worker.connected = true;
    return {};
  }
  if (hurries_) worker.asleep = 0;
  if (worker.asleep > 0) return --worker.asleep, std::string();
  if (random_.one_in(8)) change_mood(worker);
  push_some(index);
  streams_.pump(index, worker.most_bytes);
  return take_answers(index);
}

// Begins pushes of chunks whose last answer is there, a few at a time, in its order.
void SimulatedJob::push_some(std::uint32_t index) {
  Worker& worker = workers_[index];
  std::uint32_t room = random_.between(1, 8);
  for (const std::uint32_t slot : worker.order) {
    if (room == 0) return;
    if (worker.pushed[slot] == rounds_ || worker.pushed[slot] > worker.answered[slot]) continue;
    streams_.push_later(index, slot, value(index, slot, worker.pushed[slot]));
    ++worker.pushed[slot];
    ++begun_;
    --room;
  }
}

std::string SimulatedJob::take_answers(std::uint32_t index) {
  Worker& worker = workers_[index];
  const std::size_t most = std::min<std::size_t>(worker.most_bytes, std::size_t{1} << 16);
  for (const auto& answer : streams_.take_answers(index, most)) {
    const std::string where = "job " + std::to_string(id()) + ", worker " + std::to_string(index) +
                              ", chunk " + std::to_string(answer.slot) + ": ";
    if (answer.slot >= worker.answered.size()) return where + "there is no such chunk";
    const std::uint32_t round = worker.answered[answer.slot]++;
    if (round >= worker.pushed[answer.slot]) return where + "an answer to nothing";
    const float expected = sum(answer.slot, round);
    if (!answer.is_even || answer.value != expected) {
      return where + "round " + std::to_string(round) + " has " + std::to_string(answer.value) +
             ", not " + std::to_string(expected);
    }
  }
  return {};
}

void SimulatedJob::kill_worker() {
  const auto index = random_.below(static_cast<std::uint32_t>(workers_.size()));
  Worker& worker = workers_[index];
  if (!worker.connected || worker.dead) return;
  streams_.sockets[index].reset();
  worker.dead = true;
  has_died_ = true;
}

std::string SimulatedJob::on_lost(std::uint32_t worker) {
  const std::string who = "job " + std::to_string(id()) + ", worker " + std::to_string(worker);
  reported_ = true;
  if (!workers_[worker].dead) return who + " is said to be lost, and is not";
  if (std::exchange(workers_[worker].reported, true)) return who + " is said to be lost twice";
  return {};
}

std::string SimulatedJob::check() {
  const server::Shard& shard = *streams_.shard;
  const std::string who = "job " + std::to_string(id()) + ": ";
  const std::uint64_t worked = shard.times->busy.value();
  unserved_ = shard.is_awake() && worked == worked_ ? unserved_ + 1 : 0;
  worked_ = worked;
  if (unserved_ > kUnservedMost) return who + "awake, and not served";
  if (has_died_) return {};
  const std::uint64_t complete = shard.chunks_completed.value() * workers_.size();
  // A push is in a buffer, or several are in one; a sum is the first one's.
  if (complete > begun_) return who + "more is complete than was pushed";
  if (shard.buffers_in_use() > begun_ - complete) return who + "buffers of nothing are in use";
  return {};
}

}  // namespace phub::simulation
