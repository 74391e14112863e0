#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/job/used_hyper.h"
#include "worker/cli/commands.h"
#include "worker/cli/options/cuda_choice.h"
#include "worker/cli/options/kernel_arguments.h"
#include "worker/cli/options/model_choice.h"
#include "worker/nn/graph/cost.h"
#include "worker/train/measure/noise.h"
#include "worker/train/measure/step_bench.h"

namespace phub {
namespace {

struct BenchArguments {
  ModelChoice choice;
  train::StepBenchOptions options;
  CudaChoice cuda;
  KernelArguments kernels;
  std::string backend = "onednn";
  std::string compute_type;  // empty: the backend's best
  // Through servers: none, in this process.
  std::vector<std::string> servers;
  std::string job = "bench", wire_type = "fp32", transport = "auto";
  std::uint32_t workers = 1;
  bool json = false;
};

constexpr const char* kBenchExamples = R"(
Examples:
  ResNet-20's whole step on CIFAR-sized images, one thread:
    phub-worker bench resnet20
  The same in mixed precision:
    phub-worker bench resnet20 --compute-type bf16
  ResNet-50 on two threads:
    phub-worker bench resnet50 --batch 16 --threads 2 --steps 5

A step is forward, loss, backward and the update (Nesterov) of all parameters, on one batch of noise
in memory, without an input pipeline. With --server a server makes the update, and its time is that of
the pushes and the waits; else this process makes it, on its GPU if it has one. Times are medians over
the steps, with the smallest and the largest. Operations are counted as in `phub-worker model`.

Exit status: 0, 1 failed, 2 a wrong usage or description.)";

struct StepSpread {
  double median = 0.0;
  double min = 0.0;
  double max = 0.0;
};

template <typename Value>
StepSpread spread_of(const std::vector<train::StepTimes>& times, Value value) {
  std::vector<double> values;
  for (const train::StepTimes& step : times) values.push_back(value(step));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {train::median(values), *low, *high};
}

struct StepRow {
  const char* name;
  StepSpread seconds;
};

// A GPU's work is queued: of it only the whole step is known.
std::vector<StepRow> rows_of(const std::vector<train::StepTimes>& times, bool is_queued) {
  using Times = train::StepTimes;
  if (is_queued) return {{"step", spread_of(times, [](const Times& t) { return t.total; })}};
  return {{"forward", spread_of(times, [](const Times& t) { return t.forward; })},
          {"loss", spread_of(times, [](const Times& t) { return t.loss; })},
          {"backward", spread_of(times, [](const Times& t) { return t.backward; })},
          {"update", spread_of(times, [](const Times& t) { return t.update; })},
          {"step", spread_of(times, [](const Times& t) { return t.total; })}};
}

struct Done {
  std::vector<train::StepTimes> times;
  std::vector<nn::KernelChoice> kernels;
};

void print(const BenchArguments& arguments, const nn::Description& network, const Done& done) {
  const std::vector<train::StepTimes>& times = done.times;
  const std::vector<StepRow> rows = rows_of(times, arguments.backend == "cuda");
  const nn::NetworkCost cost = nn::cost_of(network.graph);
  const double step = rows.back().seconds.median;
  const double images = arguments.options.executor.batch / step;
  const double flops = images * static_cast<double>(cost.forward_flops + cost.backward_flops);
  if (arguments.json) {
    nlohmann::ordered_json line = {{"bench", "step"},
                                   {"model", network.name},
                                   {"backend", arguments.backend},
                                   {"compute_type", arguments.compute_type},
                                   {"batch", arguments.options.executor.batch},
                                   {"threads", arguments.options.executor.threads},
                                   {"steps", times.size()},
                                   {"images_per_second", images},
                                   {"flops_per_second", flops}};
    for (const StepRow& row : rows) {
      line[std::string(row.name) + "_seconds"] = {
          {"median", row.seconds.median}, {"min", row.seconds.min}, {"max", row.seconds.max}};
    }
    if (arguments.kernels.print) line["kernels"] = kernel_json(done.kernels);
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("{} on {}, {}, batch {}, threads {}, {} steps\n", network.name, arguments.backend,
             arguments.compute_type, arguments.options.executor.batch,
             arguments.options.executor.threads, times.size());
  fmt::print("{:<10} {:>11} {:>23} {:>8}\n", "", "median ms", "[min .. max]", "share");
  for (const StepRow& row : rows) {
    const StepSpread& spread = row.seconds;
    fmt::print("{:<10} {:>11.3f} {:>23} {:>6.1f} %\n", row.name, 1e3 * spread.median,
               fmt::format("[{:.3f} .. {:.3f}]", 1e3 * spread.min, 1e3 * spread.max),
               100 * spread.median / step);
  }
  fmt::print("{:.0f} images/s, {:.1f} GFLOP/s\n", images, 1e-9 * flops);
  if (arguments.kernels.print) fmt::print("{}", kernel_table(done.kernels));
}

void add_exchange(CLI::App& bench, BenchArguments& arguments) {
  bench.add_option("--server", arguments.servers, "A server's control address (repeatable)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("HOST:PORT");
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    bench.add_option(name, value, text)->type_name(type)->capture_default_str()->needs("--server");
  };
  add("--job", arguments.job, "NAME", "Job to join; the same for all its workers");
  add("--workers", arguments.workers, "N", "Number of workers in the job");
  add("--wire-type", arguments.wire_type, "TYPE", "fp32, fp16 or bf16");
  add("--transport", arguments.transport, "KIND", "auto, shm, tcp or verbs");
}

constexpr Hyper kBenchHyper = {.learning_rate = 1e-4F, .momentum = 0.9F, .gradient_scale = 0.0F};

// fp16 needs a scale, bf16 and fp32 do not.
Status set_exchange(const BenchArguments& arguments, train::StepBenchOptions& options) {
  if (arguments.servers.empty()) return {};
  const auto wire = parse_data_type(arguments.wire_type);
  if (!wire) {
    return {Code::kInvalidArgument,
            "--wire-type: " + arguments.wire_type + " is none of fp32, fp16, bf16"};
  }
  const LossScaling scaling =
      options.loss_scale == 1.0F ? LossScaling::kNone : LossScaling::kStatic;
  const ClientOptions client{.servers = arguments.servers,
                             .job = {.name = arguments.job,
                                     .workers = arguments.workers,
                                     .wire_type = *wire,
                                     .rule = options.rule,
                                     .hyper = used_by(options.rule, kBenchHyper),
                                     .loss_scale = {scaling, options.loss_scale}},
                             .transport = arguments.transport};
  options.exchange = [client](const std::vector<KeySpec>& keys) {
    return train::make_remote_exchange(client, keys);
  };
  return {};
}

// What the options say together. Errors name the option.
Result<train::StepBenchOptions> options_of(const BenchArguments& arguments) {
  train::StepBenchOptions options = arguments.options;
  options.executor.backend = *train::parse_backend_kind(arguments.backend);
  options.executor.compute_type = *parse_data_type(arguments.compute_type);
  if (options.executor.backend != train::BackendKind::kOnednn && options.executor.threads != 1) {
    return Status(Code::kInvalidArgument, "--threads: the backend " + arguments.backend +
                                              " computes on one thread; leave it out");
  }
  const bool is_cuda = options.executor.backend == train::BackendKind::kCuda;
  PHUB_RETURN_IF_ERROR(check_cuda_choice(arguments.cuda, is_cuda));
  if (is_cuda) {
    options.executor.cuda = cuda_options(arguments.cuda, arguments.cuda.device.value_or(0));
  }
  PHUB_RETURN_IF_ERROR(check_kernel_arguments(
      arguments.kernels, options.executor.backend == train::BackendKind::kOnednn));
  if (options.executor.compute_type == DataType::kFloat16)
    options.loss_scale = train::kHalfLossScale;
  PHUB_RETURN_IF_ERROR(set_exchange(arguments, options));
  return options;
}

Ending bench_command(BenchArguments arguments) {
  if (arguments.choice.what.empty()) {
    return fail({Code::kInvalidArgument,
                 "bench: give a model's name or a description's file (phub-worker model --list)"});
  }
  const auto network = find_network(arguments.choice);
  if (!network) return fail(network.error());
  if (arguments.compute_type.empty()) {
    arguments.compute_type = arguments.backend == "cuda" ? "fp16" : "fp32";
  }
  auto options = options_of(arguments);
  if (!options) return fail(options.error());
  Done done;
  options->executor.kernels = kernel_options(arguments.kernels, &done.kernels);
  const bool bar = isatty(STDERR_FILENO) == 1;
  const std::uint32_t all = options->warm_up + options->steps;
  auto times = train::bench_steps(network->graph, *options, [&](std::uint32_t step) {
    if (bar) fmt::print(stderr, "\r{:>3} % ", 100ULL * step / all);
  });
  if (bar) fmt::print(stderr, "\r      \r");
  if (!times) return fail(times.error());
  done.times = std::move(*times);
  print(arguments, *network, done);
  return {};
}

}  // namespace

Command add_bench_command(CLI::App& app) {
  const auto kept = std::make_shared<BenchArguments>();
  BenchArguments& arguments = *kept;
  CLI::App* bench = app.add_subcommand("bench", "Time training steps, alone or with a server");
  bench->footer(kBenchExamples);
  add_model_choice(*bench, arguments.choice);
  const auto add = [&](const char* name, std::uint32_t& value, std::uint32_t least,
                       std::uint32_t most, const char* text) {
    bench->add_option(name, value, text)
        ->type_name("N")
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  add("--batch", arguments.options.executor.batch, 1, 65'536, "Images of a step");
  add("--threads", arguments.options.executor.threads, 1, 1024, "Compute threads");
  add("--steps", arguments.options.steps, 1, 1'000'000, "Steps that are timed");
  add("--warm-up", arguments.options.warm_up, 0, 1'000'000, "Steps before them");
  bench->add_option("--backend", arguments.backend, "onednn, cuda, or reference (plain C++, slow)")
      ->type_name("KIND")
      ->check(CLI::IsMember({"onednn", "cuda", "reference"}))
      ->capture_default_str();
  bench
      ->add_option("--compute-type", arguments.compute_type,
                   "fp32, bf16 or fp16; default: fp32 on CPUs, fp16 on GPUs")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  add_exchange(*bench, arguments);
  add_cuda_options(*bench, arguments.cuda);
  add_kernel_options(*bench, arguments.kernels);
  add_kernel_print(*bench, arguments.kernels);
  bench->add_flag("--json", arguments.json, "One JSON object instead of a table");
  return {bench, [kept] { return bench_command(*kept); }};
}

}  // namespace phub
