// One job of the simulation of racks: its place on each rack's core, its workers, the streams
// between its racks, and the model that says what each reply must be. A job may have one rack.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/core/core.h"
#include "tests/simulation/rack_copies.h"
#include "tests/simulation/rack_stream.h"
#include "tests/simulation/racks_rounds.h"

namespace phub::simulation {

struct RacksJobOptions {
  std::uint64_t id = 0;
  std::uint32_t tenant = 0;
  std::uint32_t weight = 1;
  std::vector<server::Core*> cores;    // by rack
  std::vector<std::uint32_t> workers;  // by rack
  RackShape shape = RackShape::kSpread;
  std::uint64_t hybrid_bytes = 0;  // of kHybrid: the largest key that goes as in kSpread
  RuleKind rule = RuleKind::kSum;
  DataType wire_type = DataType::kFloat32;
  DataType rack_wire_type = DataType::kFloat32;
  bool compresses = false;  // whole sums travel: there is no residual
  LossScaling loss_scaling = LossScaling::kNone;
  std::vector<std::uint64_t> key_elements;
  std::uint32_t chunk_bytes = 256;
  std::uint32_t rounds = 1;  // a first one of parameters included, where the rule has them
};

// A worker pushes a chunk's next round when it has the last one's reply, in an order of its own.
class RacksJob {
 public:
  RacksJob(RacksJobOptions options, Random& random);
  ~RacksJob();
  RacksJob(const RacksJob&) = delete;
  RacksJob& operator=(const RacksJob&) = delete;

  std::uint64_t id() const { return options_.id; }
  // Somebody does something: a worker pushes or reads, a stream passes something on. Empty, or what
  // is wrong.
  std::string step();
  // All of them do, and nobody stalls.
  std::string hurry();
  // Cuts a connection, or forges something on one.
  void harm();
  // What a core has said. Empty, or why it should not have; `causes`: what it may have counted.
  std::string on_lost(const server::Core& core, const server::LossEvent& event, Causes& causes);
  // The reapers: where the job is lost, or over, they may take it away now.
  void reap(bool at_once);
  bool is_over() const;  // everywhere
  // Replies, bytes and pushes that have moved, events and ends: it grows while something happens.
  std::uint64_t progress() const { return progress_; }
  std::uint32_t stale_sent() const;
  bool has_failed() const { return failed_; }
  std::string state() const;

 private:
  struct Worker {
    std::unique_ptr<StreamEnd> end;
    bool dead = false;
    Causes causes;                      // for which it may be dropped
    std::uint32_t asleep = 0;           // steps
    std::size_t most_bytes = SIZE_MAX;  // that it sends or reads in a step
    std::vector<std::uint32_t> order;   // of its pushes: slots
    std::vector<std::uint32_t> pushed;  // rounds, by slot
    std::vector<std::uint32_t> replied;
    std::uint32_t voted = 0;  // the last round that it has voted in
  };
  struct Rack {
    server::JobLayout layout;
    std::shared_ptr<server::JobMemory> memory;
    std::unique_ptr<server::JobOnCore> on_core;
    std::unique_ptr<RackCopies> copies;
    std::vector<Worker> workers;
    std::vector<bool> reported;  // by seat: a loss, for which its job was stopped
    bool lost = false;
    bool detached = false;
  };

  std::uint32_t racks() const { return static_cast<std::uint32_t>(racks_.size()); }
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(plan_->chunks.size()); }
  std::uint32_t epoch(std::uint32_t rack) const {
    return static_cast<std::uint32_t>(id() + 3 * rack + 250);  // its low bits wrap
  }
  bool votes() const { return options_.loss_scaling == LossScaling::kVoted; }

  // ---- what is pushed, and with which words: of the id, the round and who it is ----
  std::uint64_t mixed(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) const;
  float value(const RacksRounds::Source& from, std::uint32_t key, std::uint64_t i,
              std::uint32_t round) const;
  float scale(std::uint32_t round) const;
  bool overflows(std::uint32_t rack, std::uint32_t worker, std::uint32_t round) const;
  bool changes_hyper(std::uint32_t round) const;
  Hyper hyper_of(std::uint32_t round) const;
  RoundWords words_of(std::uint32_t round) const;

  void add_rack(std::uint32_t index);
  void connect(std::uint32_t from, std::uint32_t to);
  std::string step(std::uint32_t rack, std::uint32_t index);
  void change_mood(Worker& worker);
  void push_some(std::uint32_t rack, std::uint32_t index);
  bool has_said_hyper(Worker& worker, std::uint32_t round);
  void vote_if_due(std::uint32_t rack, std::uint32_t index);
  std::string take_replies(std::uint32_t rack, std::uint32_t index);
  std::string copy_some();
  bool is_done() const;  // every worker has every reply
  bool is_spoilt() const;
  bool is_quiet() const;
  void detach(Rack& rack);

  void forge_to_above(RackStream& stream);
  void forge_to_below(RackStream& stream);

  RacksJobOptions options_;
  Random& random_;
  std::vector<RackTree> trees_;
  std::shared_ptr<const Plan> plan_;
  std::vector<Rack> racks_;
  std::vector<std::unique_ptr<RackStream>> streams_;
  std::unique_ptr<RacksRounds> rounds_;
  std::uint32_t said_ = 0;  // the last round for which worker 0 has set hyper-parameters
  std::uint64_t progress_ = 0;
  bool hurries_ = false;
  bool failed_ = false;  // something was cut, or refused
};

}  // namespace phub::simulation
