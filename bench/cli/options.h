// Options that several subcommands share. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/cli/cli.h"
#include "bench/compare/interleave.h"
#include "bench/processes/work.h"

namespace phub::bench {

void add_size(CLI::App& command, std::uint64_t& elements, std::string* keys);
void add_dtype(CLI::App& command, DataType& dtype, const std::string& help);
void add_rule(CLI::App& command, RuleKind& rule);
// The adaptive ones too, whose state nobody knows who verifies an exchange in its midst.
void add_any_rule(CLI::App& command, RuleKind& rule);
void add_rules(CLI::App& command, std::vector<RuleKind>& rules);
// --dtype --order --servers --server-cores --keys --elements
void add_work(CLI::App& command, Work& work);
// The iterations are typed for all blocks: see spread.
void add_plan(CLI::App& command, BlockPlan& plan);

// The plan with the iterations of each block, rounded up.
BlockPlan spread(BlockPlan typed);

CLI::Validator worker_range();

// CLI::Range of numbers, which takes nan for one that is in every range; this one does not.
CLI::Validator number_range(double least, double most);

// Once the command line is known to be right, `action` is what runs.
void runs(CLI::App& command, Run& run, Run action);

}  // namespace phub::bench
