// "phub-bench exchange": ZeroCompute over real processes, PHub beside its peers and the roof.
// Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/compare/interleave.h"
#include "bench/compare/report.h"
#include "bench/compare/systems.h"

namespace phub::bench {

struct ExchangeOptions {
  // The run covers every combination of these three.
  std::vector<std::string> transports = {"shm"};
  std::vector<std::uint32_t> workers = {4};
  std::vector<RuleKind> rules = {RuleKind::kSum};
  bool encrypt = false;           // tcp is run twice, plain and encrypted
  bool vote = false;              // rules with parameters are run twice, without and with votes
  bool watch = false;             // phub is run twice, the second time with watch_values "name"
  bool checksums = false;         // phub is run once more, with checksums of each push
  std::uint32_t tcp_streams = 1;  // tcp is run once more, with so many streams
  Work work;                      // the rest of the configuration
  std::vector<SystemKind> systems = {SystemKind::kPhub};
  BlockPlan plan;
  bool json = false;
};

// The systems of a run, each once, and the tables that compare them.
struct Lineup {
  std::vector<std::unique_ptr<System>> systems;
  std::vector<Comparison> comparisons;

  // Starts one more.
  Result<const System*> start(SystemKind kind, const Work& work, Places& places);
};

// Starts what the options ask for. A peer that is the same in two configurations (Gloo knows only
// tcp, the roof no transport) runs once and appears in both tables.
Result<Lineup> start_lineup(const ExchangeOptions& options, Places& places);

// Blocks, verification, server memory.
Status measure(Lineup& lineup, const BlockPlan& plan);

// A table, or JSON lines, of each comparison.
void print_lineup(const Lineup& lineup, const BlockPlan& plan, bool json);

// Ends the systems. Error: kDataLoss: every wrong sum of the run.
Status finish(const Lineup& lineup);

// The subcommand. Error: kDataLoss: a wrong sum.
Status run_exchange(const ExchangeOptions& options);

}  // namespace phub::bench
