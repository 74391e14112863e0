// Options that several subcommands share. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "bench/compare/interleave.h"
#include "bench/processes/work.h"

namespace phub::bench {

// Words as they were typed; the checks of the options guarantee that they can be understood.
struct WorkWords {
  std::string dtype = "fp32";
  std::string rule = "sum";
  std::string order = "deterministic";
};

struct PlanWords {
  unsigned iterations = 35;
  unsigned blocks = 7;
  unsigned warm_up = 1;
};

void add_size(CLI::App& command, std::uint64_t& elements, std::string* keys);
// --dtype --order --servers --server-cores --keys --elements
void add_work(CLI::App& command, Work& work, WorkWords& words);
void add_plan(CLI::App& command, PlanWords& words);

Work understood(Work work, const WorkWords& words);
BlockPlan understood(const PlanWords& words);

CLI::Validator rule_words();
CLI::Validator worker_range();

}  // namespace phub::bench
