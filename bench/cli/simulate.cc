#include "bench/simulate/simulate.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"

namespace phub::bench {
namespace {

using simulate::Network;
using simulate::SimulateOptions;

constexpr std::uint32_t kWorkersMost = 1'000'000;
constexpr double kNumberMost = 1e9;
constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;
constexpr double kGigabit = 1e9 / 8;

// As they were typed.
struct SimulateWords {
  SimulateOptions options;
  std::vector<std::string> shapes = {"ring",         "sharded", "colocated",
                                     "hierarchical", "tree",    "multicolour"};
  std::vector<std::string> policies = {"bsp", "packed", "wfbp", "merged", "priority"};
  double alpha_us = 50.0;
  double rate_gbit = 10.0;
  double server_gbit = 0.0;
  std::vector<std::uint32_t> rack_workers = {0};
  std::vector<double> uplinks_gbit = {0.0};
  double chunk_kib = 32.0;
  double transfer_ms = 0.0;
  double input_ms = 0.0;
  double update_ms = 0.0;
};

template <typename Names>
std::vector<std::string> words_of(const Names& names) {
  return {std::begin(names), std::end(names)};
}

// REQUIRES: words that are all among the names.
template <typename Value, typename Names>
std::vector<Value> values_of(const std::vector<std::string>& words, const Names& names) {
  std::vector<Value> values;
  for (const std::string& word : words) {
    const auto found = std::find(std::begin(names), std::end(names), word);
    values.push_back(static_cast<Value>(found - std::begin(names)));
  }
  return values;
}

void add_number(CLI::App& command, const char* name, double& value, const char* help,
                double least = 0.0) {
  command.add_option(name, value, help)
      ->type_name("N")
      ->check(number_range(least, kNumberMost))
      ->capture_default_str();
}

void add_network(CLI::App& command, SimulateWords& words) {
  Network& network = words.options.network;
  command.add_option("--workers,-N", words.options.workers, "workers; several, with commas")
      ->delimiter(',')
      ->check(CLI::Range(1U, kWorkersMost))
      ->capture_default_str();
  command
      .add_option("--rack-workers", words.rack_workers,
                  "workers of a full rack; 0: all are in one rack; several, with commas: of each")
      ->delimiter(',')
      ->check(CLI::Range(0U, kWorkersMost))
      ->capture_default_str();
  command.add_option("--servers", network.servers, "servers of a rack (sharded, hierarchical)")
      ->check(CLI::Range(1U, 10'000U))
      ->capture_default_str();
  command.add_option("--colours", network.colours, "trees, and children of a node in them")
      ->check(CLI::Range(2U, 64U))
      ->capture_default_str();
  constexpr double kLeastRate = 1e-6;
  add_number(command, "--alpha-us", words.alpha_us, "latency of a hop; of a message for link");
  add_number(command, "--rate-gbit", words.rate_gbit,
             "a worker's NIC in Gbit/s, each way; 8 / (beta in ns/B) for link", kLeastRate);
  add_number(command, "--server-gbit", words.server_gbit,
             "NICs of a rack's servers together; 0: as its workers together");
  command
      .add_option("--uplink-gbit", words.uplinks_gbit,
                  "a rack's uplink, each way; 0: as its workers together; several, with commas: of "
                  "each rack")
      ->delimiter(',')
      ->type_name("N")
      ->check(number_range(0.0, kNumberMost))
      ->capture_default_str();
  add_number(command, "--chunk-kib", words.chunk_kib, "what servers and trees stream", 1.0 / 1024);
}

void add_input(CLI::App& command, SimulateWords& words) {
  SimulateOptions& options = words.options;
  const auto add_own = [&](const char* name, double& value, const char* help) {
    command.add_option(name, value, help)
        ->type_name("N")
        ->check(number_range(0.0, kNumberMost))
        ->default_str("");  // it is the trace's
  };
  add_own("--input-ms", words.input_ms, "reading a batch; default: the trace's");
  add_number(command, "--transfer-ms", words.transfer_ms, "copying it to the device");
  add_own("--update-ms", words.update_ms,
          "the workers' optimizer, where no server updates; default: the trace's");
  add_number(command, "--forward-ratio", options.forward_ratio,
             "forward as a share of backward, for a trace without forward");
  command.add_flag_callback(
      "--no-prefetch", [&options] { options.prefetch = false; },
      "read a batch before the step instead of during the one before");
}

// `command`: which options were given.
SimulateOptions understood(const SimulateWords& words, const CLI::App& command) {
  SimulateOptions options = words.options;
  options.shapes = values_of<simulate::Shape>(words.shapes, simulate::kShapeNames);
  options.policies = values_of<simulate::Policy>(words.policies, simulate::kPolicyNames);
  options.network.alpha = kMicro * words.alpha_us;
  options.network.worker_rate = kGigabit * words.rate_gbit;
  options.network.server_rate = kGigabit * words.server_gbit;
  options.rack_workers = words.rack_workers;
  options.uplink_rates = words.uplinks_gbit;
  for (double& rate : options.uplink_rates) rate *= kGigabit;
  options.network.chunk_bytes = 1024 * words.chunk_kib;
  options.transfer = kMilli * words.transfer_ms;
  if (command.count("--input-ms") > 0) options.input = kMilli * words.input_ms;
  if (command.count("--update-ms") > 0) options.update = kMilli * words.update_ms;
  return options;
}

}  // namespace

void add_simulate(CLI::App& app, Run& run) {
  auto words = std::make_shared<SimulateWords>();
  SimulateOptions& options = words->options;
  CLI::App* command = app.add_subcommand(
      "simulate", "predict a training step on many workers, from one worker's layer times");
  command->footer(
      "TRACE is what 'phub-worker profile MODEL --json' or '--trace' wrote, or text: a table\n"
      "'Id Name Forward(us) Backward(us) Comm(us) Size(bytes)' by layer, or rows\n"
      "'[param_id, elements, backward_us, comm_us]' anywhere in a log, with or without\n"
      "merged_comm_us as a fifth column. A first iteration without times is left out.\n\n"
      "  phub-worker profile resnet50 --batch 8 --json > resnet50.json\n"
      "  phub-bench simulate resnet50.json --workers 8,64,1024 --rack-workers 32 --uplink-gbit 80\n"
      "  phub-bench simulate resnet50.json -N 32 --shape ring --policy merged --gantt step.svg\n"
      "  phub-bench simulate resnet50.json -N 20 --rack-workers 8,8,4 --uplink-gbit 40,40,10\n"
      "With alpha and beta fitted to a cluster (here 10 GbE, 8 workers):\n"
      "  phub-bench simulate tmp8comm.log --shape link --alpha-us 523 --rate-gbit 9.33\n\n"
      "bsp: layer by layer after backward. packed: one message after backward. wfbp: each layer\n"
      "when its backward is done. merged: MG-WFBP's groups of layers. priority: what the next\n"
      "forward needs first, which waits layer by layer: what phub does with sharded.\n"
      "measured takes each layer's exchange from the trace; link is alpha + beta * bytes.\n"
      "hierarchical joins racks as a job's rack_shape spread does, rack-chain and\n"
      "rack-multicolour as its chain and multicolour.");
  command->add_option("TRACE", options.trace, "a file of layer times")->required()->type_name("");
  add_network(*command, *words);
  const auto add_names = [&](const char* name, std::vector<std::string>& value, const auto& names,
                             const char* help) {
    command->add_option(name, value, help)
        ->delimiter(',')
        ->check(CLI::IsMember(words_of(names)))
        ->capture_default_str();
  };
  add_names("--shape", words->shapes, simulate::kShapeNames, "how a message is exchanged");
  add_names("--policy", words->policies, simulate::kPolicyNames, "which message when");
  add_input(*command, *words);
  command
      ->add_option("--measured", options.measured,
                   "a file of phubctl trace: a real job's rounds, to compare with")
      ->type_name("FILE");
  command->add_option("--csv", options.csv, "write the rows to this file too")->type_name("FILE");
  command->add_option("--gantt", options.gantt, "draw one prediction as SVG")->type_name("FILE");
  command->add_flag("--json", options.json, "one JSON object a line instead of a table");
  command->callback([words, command, &run] {
    run = [words, command] { return simulate::run_simulate(understood(*words, *command)); };
  });
}

}  // namespace phub::bench
