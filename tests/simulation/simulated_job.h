// One job of the simulation: workers who push in rounds, trickle, stall and die, and the model that
// says what each answer must be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/random.h"
#include "tests/support/streams_rig.h"

namespace phub::simulation {

struct JobOptions {
  testing::StreamsJobOptions shape;
  std::uint32_t rounds = 1;
};

// A worker pushes a chunk's next round when it has the last one's answer, in an order of its own.
class SimulatedJob {
 public:
  SimulatedJob(const JobOptions& options, server::Core& core, Random& random);
  ~SimulatedJob();
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  std::uint64_t id() const { return streams_.shape.job_id; }
  // Workers that are not connected yet, are, or were and died.
  bool has_died() const { return has_died_; }
  bool is_done() const;  // every worker has every answer

  // One worker does something: connects, sends, reads, falls asleep. Empty, or what is wrong.
  std::string step();
  void kill_worker();
  // From now on nobody stalls or trickles.
  void hurry() { hurries_ = true; }
  // After each round of the core. Empty, or what is wrong.
  std::string check();
  // The core has reported that a worker is lost. Empty, or why it should not have.
  std::string on_lost(std::uint32_t worker);
  bool is_loss_reported() const { return reported_; }

 private:
  struct Worker {
    bool connected = false;
    bool dead = false;
    bool reported = false;
    std::uint32_t asleep = 0;           // steps
    std::size_t most_bytes = SIZE_MAX;  // that it sends or reads in a step
    std::vector<std::uint32_t> order;   // of its pushes: slots
    std::vector<std::uint32_t> pushed;  // rounds, by slot
    std::vector<std::uint32_t> answered;
  };

  float value(std::uint32_t worker, std::uint32_t slot, std::uint32_t round) const;
  float sum(std::uint32_t slot, std::uint32_t round) const;
  void change_mood(Worker& worker);
  void push_some(std::uint32_t index);
  std::string take_answers(std::uint32_t index);

  testing::StreamsJob streams_;
  server::Core& core_;
  Random& random_;
  std::uint32_t rounds_;
  std::vector<Worker> workers_;
  std::uint64_t begun_ = 0;     // pushes, whose bytes may be on their way
  std::uint64_t worked_ = 0;    // ticks that the core had spent on it, when it was last looked at
  std::uint32_t unserved_ = 0;  // rounds of the core in which it was awake and got nothing
  bool hurries_ = false;
  bool has_died_ = false;
  bool reported_ = false;
};

}  // namespace phub::simulation
