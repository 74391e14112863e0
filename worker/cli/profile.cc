#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/base/whole_file.h"
#include "worker/cli/commands.h"
#include "worker/cli/options/encoding_choice.h"
#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/model_choice.h"
#include "worker/cli/options/run_arguments.h"
#include "worker/cli/options/run_options.h"
#include "worker/cli/profile_report.h"
#include "worker/cli/step_report.h"
#include "worker/train/measure/step_bench.h"

namespace phub {
namespace {

struct ProfileArguments {
  RunArguments run;
  std::string what;  // a model's name or a configuration's file
  std::string trace;
  std::uint32_t steps = 10;
  std::uint32_t warm_up = 2;
  double peak_gflops = 0.0;  // 0: measured
  bool json = false;
};

// fp16 needs a scale, bf16 does not.
constexpr const char* kProfileExamples = R"(
Examples:
  Where ResNet-50's step goes on this machine, without servers:
    phub-worker profile resnet50 --batch 8 --threads 2
  A configuration's model, with two workers through a server (start it twice):
    phub-worker profile configs/mnist.textproto --server 127.0.0.1:7077 --workers 2
  A time line for https://ui.perfetto.dev, against a peak that is known:
    phub-worker profile vgg11 --batch 4 --steps 3 --peak-gflops 250 --trace vgg11.json

  Where a GPU's step goes, kernel by kernel, against a peak that is known:
    phub-worker profile resnet50 --backend cuda --batch 256 --peak-gflops 800000

Steps train on one batch of noise, without loss scale and accumulation. Times are medians over the
steps. push is the handing over of a layer's gradients while backward goes on; without servers the
whole update is in it. wait is what a layer's forward waited for its parameters. Operations are counted as in
`phub-worker model`, and compared with --peak-gflops, or with the most that the backend reaches here
on the same threads: in the product of two 1024 x 1024 matrices (the reference backend: 256 x 256), or
in one of the layers. Memory is divided as the paper "TBD" (2018) does: workspace is what the backend
allocated beside the feature maps, dynamic the optimizer's state in this process and the batch.
--trace has the JSON of --json in it, as "phub_profile": by layer the durations and its keys' bytes.
On a GPU each step of its list is timed by itself: a convolution with what is fused into it, or a
kernel. Roof is the share of the time that its bytes, at the speed of a copy on the device, and its
operations, at --peak-gflops, need at least.

Exit status: 0, 1 failed, 2 wrong usage or configuration.)";

Result<WorkerConfig> config_of(const ProfileArguments& arguments) {
  if (!is_model(arguments.what)) {
    RunArguments run = arguments.run;
    run.config_path = arguments.what;
    auto config = load_run(run);
    if (config || config.error().code() != Code::kNotFound) return config;
    return config.error().with_context(
        "neither a model (phub-worker model --list) nor a configuration");
  }
  WorkerConfig config;
  config.mutable_model()->set_name(arguments.what);
  config.mutable_data()->set_format("synthetic");
  return override_run(std::move(config), arguments.run);
}

Status write(const std::string& path, const std::string& text) {
  auto reader = reader_of(path);
  if (!reader) return reader.error().with_context("--trace");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : errno_status("--trace: cannot write " + path);
}

// Of a GPU: its own list of steps.
Status run_device(const ProfileArguments& arguments, const WorkerConfig& config,
                  const nn::Graph& graph, const train::SessionOptions& session) {
  if (config.servers_size() > 0 || !arguments.trace.empty()) {
    return {Code::kInvalidArgument,
            std::string(config.servers_size() > 0 ? "--server" : "--trace") +
                ": a GPU's steps are timed one by one, in this process; leave it out"};
  }
  train::StepBenchOptions options{.executor = session.executor,
                                  .warm_up = arguments.warm_up,
                                  .steps = arguments.steps,
                                  .seed = session.seed};
  if (session.executor.compute_type == DataType::kFloat16)
    options.loss_scale = train::kHalfLossScale;
  options.executor.cuda = cuda_of(config, arguments.run.cuda);
  options.executor.cuda.executor.capture = false;
  PHUB_ASSIGN_OR_RETURN(const nn::DeviceProfile profile, train::bench_device_steps(graph, options));
  const StepSubject subject{.model = session.model,
                            .compute_type = std::string(name_of(session.executor.compute_type)),
                            .batch = session.executor.batch,
                            .passes = arguments.steps,
                            .peak_flops = 1e9 * arguments.peak_gflops};
  if (arguments.json) {
    fmt::print("{}\n", step_json(subject, profile).dump());
  } else {
    fmt::print("{}", step_table(subject, profile));
  }
  return {};
}

Status run(const ProfileArguments& arguments, WorkerConfig config) {
  auto network = network_of(config.model());
  if (!network) return network.error().with_context("model");
  const nn::Graph graph = network->graph;
  train::SessionOptions session = session_of(config, std::move(*network), false);
  if (session.executor.backend == train::BackendKind::kCuda) {
    return run_device(arguments, config, graph, session);
  }
  session.note = print_note;
  PHUB_RETURN_IF_ERROR(agree_on_encoding(config, session));
  ProfileSubject subject{.model = session.model,
                         .backend = config.train().backend(),
                         .compute_type = std::string(name_of(session.executor.compute_type)),
                         .transport = {},
                         .batch = session.executor.batch,
                         .threads = session.executor.threads,
                         .workers = config.workers(),
                         .steps = arguments.steps};
  const std::uint32_t all = arguments.warm_up + arguments.steps;
  std::vector<nn::KernelChoice> kernels;
  session.executor.kernels = kernel_options(arguments.run.kernels, &kernels);
  const auto profile = train::profile(
      graph,
      {.executor = session.executor,
       .warm_up = arguments.warm_up,
       .steps = arguments.steps,
       .seed = session.seed,
       .peak_flops = 1e9 * arguments.peak_gflops},
      [&](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<train::GradientExchange>> {
        auto exchange = make_exchange(config, keys);
        if (exchange) subject.transport = (*exchange)->facts().transport;
        return exchange;
      },
      [&](std::uint32_t step) {
        if (session.report.bar) fmt::print(stderr, "\r{:>3} % ", 100ULL * step / all);
      });
  if (session.report.bar) fmt::print(stderr, "\r\x1b[K");
  if (!profile) return profile.error();
  const bool print = arguments.run.kernels.print;
  if (!arguments.trace.empty()) {
    PHUB_RETURN_IF_ERROR(write(arguments.trace, profile_trace(subject, *profile)));
  }
  if (!arguments.json) {
    fmt::print("{}{}", profile_table(subject, *profile), print ? kernel_table(kernels) : "");
    return {};
  }
  auto object = profile_json(subject, *profile);
  if (print) object["kernels"] = kernel_json(kernels);
  fmt::print("{}\n", object.dump());
  return {};
}

Ending profile_command(const ProfileArguments& arguments) {
  auto config = config_of(arguments);
  if (!config) return fail(config.error(), kExitUsage);
  config->mutable_train()->clear_loss_scale();
  set_up_logging(config->log_level());
  const Status status = run(arguments, *config);
  return status.ok() ? Ending() : fail(status);
}

}  // namespace

Command add_profile_command(CLI::App& app) {
  const auto kept = std::make_shared<ProfileArguments>();
  ProfileArguments& arguments = *kept;
  CLI::App* profile =
      app.add_subcommand("profile", "Time, memory and utilisation of a step, layer by layer");
  profile->footer(kProfileExamples);
  profile->add_option("MODEL|CONFIG", arguments.what, "A built-in model, or a configuration")
      ->required()
      ->type_name("");
  const auto add = [&](const char* name, std::uint32_t& value, std::uint32_t least,
                       const char* text) {
    profile->add_option(name, value, text)
        ->type_name("N")
        ->check(CLI::Range(least, 100'000U))
        ->capture_default_str();
  };
  add("--steps", arguments.steps, 1, "Steps that are timed");
  add("--warm-up", arguments.warm_up, 0, "Steps before them");
  profile
      ->add_option("--peak-gflops", arguments.peak_gflops,
                   "What the machine could do; left out: measured")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  profile->add_option("--trace", arguments.trace, "Write a Chrome trace to this file")
      ->type_name("FILE");
  profile->add_flag("--json", arguments.json, "One JSON object instead of a table");
  add_exchange_options(*profile, arguments.run);
  add_compute_options(*profile, arguments.run);
  add_kernel_print(*profile, arguments.run.kernels);
  return {profile, [kept] { return profile_command(*kept); }};
}

}  // namespace phub
