// One job of the simulation: workers who push in rounds, vote, trickle, stall and die, and the
// model that says what each reply must be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/expected_rounds.h"
#include "tests/simulation/random.h"
#include "tests/simulation/worker_link.h"

namespace phub::simulation {

struct JobOptions {
  testing::StreamsJobOptions shape;
  std::uint32_t rounds = 1;  // a first one of parameters included, where the rule has them
};

// A worker pushes a chunk's next round when it has the last one's reply, in an order of its own.
class SimulatedJob {
 public:
  SimulatedJob(const JobOptions& options, server::Core& core, Random& random);
  ~SimulatedJob();
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  std::uint64_t id() const { return streams_.layout.job_id; }
  const JobOptions& options() const { return options_; }
  // Workers that are not connected yet, are, or were and died.
  bool has_died() const { return has_died_; }
  bool is_done() const;  // every worker has every reply

  // One worker does something: connects, sends, reads, falls asleep. Empty, or what is wrong.
  std::string step();
  void kill_worker();
  // From now on nobody stalls or trickles.
  void hurry() { hurries_ = true; }
  // After each round of the core. Empty, or what is wrong.
  std::string check();
  // The core has reported that a worker is lost. Empty, or why it should not have.
  std::string on_lost(const server::LossEvent& event);
  bool is_loss_reported() const { return reported_; }

 private:
  struct Worker {
    std::unique_ptr<WorkerLink> link;
    bool connected = false;
    bool dead = false;
    bool reported = false;
    std::uint32_t asleep = 0;           // steps
    std::size_t most_bytes = SIZE_MAX;  // that it sends or reads in a step
    std::vector<std::uint32_t> order;   // of its pushes: slots
    std::vector<std::uint32_t> pushed;  // rounds, by slot
    std::vector<std::uint32_t> replied;
    std::uint32_t voted = 0;  // the last round that it has voted in
  };

  bool votes() const { return options_.shape.loss_scaling == LossScaling::kVoted; }
  float value(std::uint32_t worker, std::uint32_t slot, std::uint32_t round) const;
  bool overflows(std::uint32_t worker, std::uint32_t round) const;
  RoundVotes votes_of(std::uint32_t round) const;
  bool connect(Worker& worker);
  void change_mood(Worker& worker);
  void push_some(std::uint32_t index);
  void vote_if_due(std::uint32_t index);
  std::string take_replies(std::uint32_t index);

  JobOptions options_;
  testing::StreamsJob streams_;
  server::Core& core_;
  Random& random_;
  std::uint32_t rounds_;
  std::vector<Worker> workers_;
  ExpectedRounds expected_;
  std::uint64_t begun_ = 0;     // pushes, whose bytes may be on their way
  std::uint64_t stale_ = 0;     // of an epoch before this one: in buffers until they are looked at
  std::uint64_t worked_ = 0;    // ticks that the core had spent on it, when it was last looked at
  std::uint32_t unserved_ = 0;  // rounds of the core in which it was awake and got nothing
  bool hurries_ = false;
  bool has_died_ = false;
  bool reported_ = false;
};

}  // namespace phub::simulation
