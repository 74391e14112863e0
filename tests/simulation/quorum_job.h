// One job of rounds_simulation: workers of different speeds push chunks in rounds with a quorum,
// stop, are done at different times, or die, and what they are told is held against its policy.
//
// A worker's every push adds one to its digit of the parameters, so that whatever anybody reads
// says how many pushes of each worker are in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/random.h"
#include "tests/simulation/worker_link.h"

namespace phub::simulation {

struct QuorumJobOptions {
  testing::StreamsJobOptions shape;  // rule sgd, with a quorum
  std::uint32_t pushes = 1;  // of each chunk, after the first parameters; at most kDigit - 1
};

class QuorumJob {
 public:
  static constexpr std::uint32_t kDigit = 64;  // so many values: four of them are exact in fp32
  static constexpr std::uint32_t kWorkersMost = 4;

  QuorumJob(const QuorumJobOptions& options, server::Core& core, Random& random);
  ~QuorumJob();
  QuorumJob(const QuorumJob&) = delete;
  QuorumJob& operator=(const QuorumJob&) = delete;

  std::uint64_t id() const { return options_.shape.id; }
  // The core has stopped it: it has lost its last worker, or one in the first round.
  bool is_over() const { return has_stopped_; }

  // One worker does something. Empty, or what is wrong.
  std::string step();
  void kill_worker();
  void hurry() { hurries_ = true; }
  // After each round of the core.
  std::string check();
  std::string on_lost(const server::LossEvent& event);
  // When it is over.
  std::string check_end();

 private:
  struct Worker {
    std::unique_ptr<WorkerLink> link;
    bool connected = false;
    bool gone = false;  // it has died, or is done
    bool reported = false;
    std::uint32_t asleep = 0;
    std::uint32_t laziness = 1;          // it does something in one of so many steps
    std::vector<std::uint32_t> pushed;   // by slot, the first one included
    std::vector<std::uint32_t> replied;  // by slot
    std::vector<std::uint32_t> counted;  // by slot: of its own, as it was last told
  };

  const RoundPolicy& policy() const { return options_.shape.rounds; }
  std::string name() const { return "job " + std::to_string(id()); }
  void push_some(std::uint32_t index);
  bool is_done(const Worker& worker) const;
  std::string take_replies(std::uint32_t index);
  std::string check_reply(std::uint32_t index, const WorkerLink::Reply& reply);
  std::string check_turns() const;
  std::uint32_t fewest_pushed(std::uint32_t slot) const;
  float value_of(std::uint32_t slot) const;

  QuorumJobOptions options_;
  testing::StreamsJob streams_;
  server::Core& core_;
  Random& random_;
  std::vector<Worker> workers_;
  bool hurries_ = false;
  bool has_lost_ = false;  // somebody went before the end
  bool has_stopped_ = false;
};

}  // namespace phub::simulation
