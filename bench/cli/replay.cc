#include "bench/replay/replay.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"
#include "common/config/model_names.h"

namespace phub::bench {
namespace {

using replay::ReplayOptions;

constexpr double kMostMilliseconds = 1e9;
constexpr double kMostMbit = 1e9;
constexpr double kBytesPerMbit = 1e6 / 8;
constexpr double kPerMilli = 1e-3;
constexpr double kPerMicro = 1e-6;
constexpr double kMostShrink = 1e6;
constexpr unsigned kMostReplayChunkKib = 16 * 1024;

// As they were typed.
struct ReplayWords {
  ReplayOptions options;
  std::string policy = "priority";
  double forward_ms = 0.0;
  double backward_ms = 0.0;
  double worker_mbit = 0.0;
  double server_mbit = 0.0;
  double uplink_mbit = 0.0;
  std::uint32_t rack_workers = 0;
  double alpha_us = 50.0;
  std::uint32_t timeout_s = 300;
};

replay::Rates rates_of(const ReplayWords& words) {
  if (words.worker_mbit <= 0) {
    return {.why_none =
                "the links' rates are not known; give --worker-mbit, and what else is said"};
  }
  const ReplayOptions& options = words.options;
  simulate::Network network{.workers = options.work.workers,
                            .rack_workers = words.rack_workers,
                            .alpha = kPerMicro * words.alpha_us,
                            .worker_rate = kBytesPerMbit * words.worker_mbit,
                            .server_rate = kBytesPerMbit * words.server_mbit,
                            .uplink_rate = kBytesPerMbit * words.uplink_mbit};
  const std::size_t servers =
      options.addresses.empty() ? options.work.servers : options.addresses.size();
  network.servers =
      std::max<std::uint32_t>(1, static_cast<std::uint32_t>(servers) / network.racks());
  return {.network = network};
}

// The error is of options that do not go together.
Result<ReplayOptions> understood(const ReplayWords& words) {
  ReplayOptions options = words.options;
  replay::PlanSource& source = options.source;
  if (source.trace.empty() == source.model.empty()) {
    return Status(Code::kInvalidArgument,
                  source.trace.empty() ? "TRACE: name a trace's file, or a network with --model"
                                       : "TRACE and --model: give one of them");
  }
  if (!source.model.empty() && words.forward_ms + words.backward_ms <= 0) {
    return Status(Code::kInvalidArgument,
                  "--model: a list of sizes has no times; give --forward-ms and --backward-ms, as "
                  "phub-worker profile MODEL measures them");
  }
  if (options.work.transport != "tcp" && words.worker_mbit > 0) {
    return Status(Code::kInvalidArgument,
                  "--worker-mbit: only tcp has links whose rates can be told; leave it out");
  }
  source.forward = kPerMilli * words.forward_ms;
  source.backward = kPerMilli * words.backward_ms;
  source.policy = replay::policy_of(words.policy);
  options.plan = spread(options.plan);
  options.timeout = std::chrono::seconds(words.timeout_s);
  options.work.wait_s = words.timeout_s;
  options.rates = rates_of(words);
  return options;
}

void add_source(CLI::App& command, ReplayWords& words) {
  replay::PlanSource& source = words.options.source;
  command.add_option("TRACE", source.trace, "a file of layer times")->type_name("");
  CLI::Option* const model =
      command
          .add_option(
              "--model", source.model,
              "the layers and keys of a built-in network instead, as alexnet, vgg11, vgg19, "
              "googlenet, inception_v3, resnet18, resnet50, resnet269")
          ->check(CLI::IsMember(
              std::vector<std::string>(std::begin(kModelNames), std::end(kModelNames))))
          ->type_name("NAME");
  const auto add_of_model = [&](const char* name, double& value, const char* help) {
    command.add_option(name, value, help)
        ->type_name("N")
        ->check(number_range(0.0, kMostMilliseconds))
        ->needs(model);
  };
  add_of_model("--forward-ms", words.forward_ms, "all layers' forward, shared out by --spread");
  add_of_model("--backward-ms", words.backward_ms, "all layers' backward");
  command
      .add_option("--spread", source.spread,
                  "what a layer's times are in proportion to: flops (operations of convolutions "
                  "and inner products), or bytes (of its parameters)")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(replay::kSpreads), std::end(replay::kSpreads))))
      ->needs(model);
  command
      .add_option("--forward-ratio", source.forward_ratio,
                  "forward as a share of backward, for a trace without forward")
      ->check(number_range(0.0, kMostMilliseconds))
      ->excludes(model);
  command.add_option("--shrink", source.shrink, "make every key this many times smaller")
      ->check(number_range(1.0, kMostShrink));
  command
      .add_option("--policy", words.policy,
                  "priority: a layer's keys are pushed when its backward ends, its next forward "
                  "waits for them only; wfbp: pushed so, forward waits for all; bsp: pushed after "
                  "the whole backward, forward waits for all")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(replay::kPolicies), std::end(replay::kPolicies))));
}

void add_testbed(CLI::App& command, ReplayWords& words) {
  ReplayOptions& options = words.options;
  command.add_option("--transport", options.work.transport, "shm, tcp or verbs")
      ->check(CLI::IsMember({"shm", "tcp", "verbs"}));
  command.add_option("--workers,-N", options.work.workers, "worker processes, all on this machine")
      ->check(worker_range());
  CLI::Option* const address =
      command
          .add_option("--address", options.addresses,
                      "control addresses HOST:PORT of servers that run, in place of own ones")
          ->delimiter(',')
          ->default_str("");
  command.add_option("--job", options.job, "the job's name at those servers")->needs(address);
  command.add_option("--servers", options.work.servers, "own servers, which share the keys")
      ->check(CLI::Range(1U, 64U))
      ->excludes(address);
  command
      .add_option("--server-cores", options.work.server_cores, "pinned cores of each own server")
      ->check(CLI::Range(1U, 1024U))
      ->excludes(address);
  command.add_option("--chunk-kib", options.work.chunk_kib, "size of a chunk in KiB")
      ->check(CLI::Range(1U, kMostReplayChunkKib));
  command.add_option("--congestion", options.work.congestion,
                     "tcp congestion control: auto, system, or a name that the kernel offers");
  add_dtype(command, options.work.dtype, "element type on the wire");
  add_rule(command, options.work.rule);
}

void add_rates(CLI::App& command, ReplayWords& words) {
  const auto add = [&](const char* name, double& value, double most, const char* help) {
    return command.add_option(name, value, help)->type_name("N")->check(number_range(0.0, most));
  };
  CLI::Option* const worker =
      add("--worker-mbit", words.worker_mbit, kMostMbit,
          "payload rate of a worker's NIC, for the prediction; 0: there is none");
  add("--server-mbit", words.server_mbit, kMostMbit,
      "of a rack's servers together; 0: as its workers together")
      ->needs(worker);
  add("--uplink-mbit", words.uplink_mbit, kMostMbit,
      "of a rack's uplink; 0: as its workers together")
      ->needs(worker);
  add("--alpha-us", words.alpha_us, kMostMilliseconds, "latency of a hop")->needs(worker);
  command
      .add_option("--rack-workers", words.rack_workers,
                  "workers of a full rack; 0: all are in one rack")
      ->check(CLI::Range(0U, 1'000'000U))
      ->needs(worker);
}

constexpr char kReplayFooter[] =
    "Each worker is a process that sleeps as long as a layer computes, pushes the layer's keys\n"
    "through libphub when its backward ends, and waits for them before its next forward. TRACE is\n"
    "read as by 'phub-bench simulate': what 'phub-worker profile' wrote, or a public layout.\n\n"
    "  phub-worker profile resnet50 --batch 8 --json > resnet50.json\n"
    "  phub-bench replay resnet50.json --transport tcp --workers 4\n"
    "  phub-bench replay --model vgg11 --forward-ms 50 --backward-ms 100 --policy wfbp --shrink "
    "10\n"
    "  phub-bench replay resnet50.json --transport tcp --address 10.0.0.1:7077 --worker-mbit "
    "10000\n"
    "On links of a known rate: 'phub-bench rack run' with a scenario that has replay { }.";

}  // namespace

void add_replay(CLI::App& app, Run& run) {
  auto words = std::make_shared<ReplayWords>();
  ReplayOptions& options = words->options;
  CLI::App* command = app.add_subcommand(
      "replay", "workers driven by layer times: the exchange is real, compute is a sleep");
  command->footer(kReplayFooter);
  add_source(*command, *words);
  add_testbed(*command, *words);
  add_rates(*command, *words);
  add_plan(*command, options.plan);
  command->add_option("--timeout-s", words->timeout_s, "of one block")
      ->check(CLI::Range(1U, 86'400U));
  command->add_flag("--json", options.json, "one JSON object instead of a table");
  runs(*command, run, [words]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const ReplayOptions understood_options, understood(*words));
    return replay::run_replay(understood_options);
  });
}

}  // namespace phub::bench
