#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/cli/commands.h"
#include "worker/cli/options/cuda_choice.h"
#include "worker/cli/options/kernel_arguments.h"
#include "worker/cli/options/model_choice.h"

namespace phub {
namespace {

struct TuneArguments {
  ModelChoice choice;
  CudaChoice cuda;
  KernelArguments kernels;
  std::string backend = "cuda";
  std::uint32_t batch = 256;
  std::uint32_t threads = 1;
  std::string compute_type;  // empty: the backend's usual one
  bool json = false;
};

constexpr const char* kFooter = R"(
Examples:
  A GPU's engines:
    phub-worker tune resnet50 --batch 256
  A CPU's kernels, for the steps that `train` and `bench` make with the same options:
    phub-worker tune resnet20 --backend onednn --compute-type bf16 --batch 64 --threads 2

On a GPU each different cuDNN graph of the network is run with the engines that cuDNN proposes (the
ten best by its own guess that work; the median of five runs of several launches each, on noise), and
the fastest is written to the cache at once, which training and bench read; graphs of training come
first, so a run that is stopped can be used and goes on where it stopped. So is, for each block of layers that
can be done in one kernel or in several (a convolution with the sums of the batch normalisation behind
it, ...), which of the two is faster.
On a CPU each pass of each different convolution and product is run by oneDNN's implementations, for
images (of a product, for weights) as they lie in memory (nhwc, oi) and in the layouts that each likes
best (any; the reorders count), and by this project's own kernel (own), all in turn. The first of them is kept unless another is 3 % faster
in the median and faster in three quarters of the rounds.
What is in the cache is not measured again: remove the file to do so.

Exit status: 0, 1 failed, 2 a wrong usage or description.)";

Result<std::unique_ptr<nn::Executor>> make(const TuneArguments& arguments,
                                           train::ExecutorOptions options) {
  const auto network = find_network(arguments.choice);
  if (!network) return network.error();
  options.batch = arguments.batch;
  return train::make_executor(network->graph, options);
}

Ending tune_gpu(const TuneArguments& arguments) {
  train::CudaOptions cuda = cuda_options(arguments.cuda, arguments.cuda.device.value_or(0));
  cuda.executor.tune = true;
  if (cuda.executor.engine_cache.empty()) {
    return fail({Code::kInvalidArgument,
                 "--engine-cache: there is no home folder to keep the engines in; give a file"});
  }
  const std::string type = arguments.compute_type.empty() ? "fp16" : arguments.compute_type;
  const auto executor = make(
      arguments,
      {.backend = train::BackendKind::kCuda, .compute_type = *parse_data_type(type), .cuda = cuda});
  if (!executor) return fail(executor.error());
  fmt::print("the fastest engines are in {}\n", cuda.executor.engine_cache.string());
  return {};
}

Ending tune_cpu(const TuneArguments& arguments) {
  std::vector<nn::KernelChoice> chosen;
  const nn::KernelOptions kernels = kernel_options(arguments.kernels, &chosen);
  if (kernels.rule == nn::KernelRule::kOwn && arguments.kernels.rule.empty()) {
    return fail({Code::kInvalidArgument,
                 "--kernel-cache: there is no home folder to keep the kernels in; give a file"});
  }
  const std::string type = arguments.compute_type.empty() ? "fp32" : arguments.compute_type;
  const auto executor = make(
      arguments,
      {.compute_type = *parse_data_type(type), .threads = arguments.threads, .kernels = kernels});
  if (!executor) return fail(executor.error());
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"tune", "onednn"},
                                              {"compute_type", type},
                                              {"batch", arguments.batch},
                                              {"threads", arguments.threads},
                                              {"cache", kernels.cache.string()},
                                              {"kernels", kernel_json(chosen)}}
                           .dump());
    return {};
  }
  fmt::print("{}", kernel_table(chosen));
  if (!kernels.cache.empty()) fmt::print("the choices are in {}\n", kernels.cache.string());
  return {};
}

Ending tune_command(const TuneArguments& arguments) {
  if (arguments.choice.what.empty()) {
    return fail({Code::kInvalidArgument,
                 "tune: give a model's name or a description's file (phub-worker model --list)"});
  }
  const bool is_cuda = arguments.backend == "cuda";
  Status status = check_cuda_choice(arguments.cuda, is_cuda);
  if (status.ok()) status = check_kernel_arguments(arguments.kernels, !is_cuda);
  if (status.ok() && is_cuda && arguments.compute_type == "fp32") {
    status = {Code::kInvalidArgument,
              "--compute-type: fp32 is for --backend onednn; use fp16 or bf16"};
  }
  if (!status.ok()) return fail(status);
  return is_cuda ? tune_gpu(arguments) : tune_cpu(arguments);
}

}  // namespace

Command add_tune_command(CLI::App& app) {
  const auto kept = std::make_shared<TuneArguments>();
  TuneArguments& arguments = *kept;
  CLI::App* tune =
      app.add_subcommand("tune", "Measure what runs a network fastest on this machine");
  tune->footer(kFooter);
  add_model_choice(*tune, arguments.choice);
  tune->add_option("--backend", arguments.backend, "cuda or onednn")
      ->type_name("KIND")
      ->check(CLI::IsMember({"cuda", "onednn"}))
      ->capture_default_str();
  add_cuda_options(*tune, arguments.cuda);
  add_kernel_options(*tune, arguments.kernels);
  tune->add_option("--batch", arguments.batch, "Images of a step")
      ->type_name("N")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str();
  tune->add_option("--threads", arguments.threads, "Compute threads; CPUs only")
      ->type_name("N")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  tune->add_option("--compute-type", arguments.compute_type,
                   "fp16 (default) or bf16; on a CPU fp32 (default) or bf16")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}));
  tune->add_flag("--json", arguments.json, "One JSON object instead of a table; CPUs only");
  return {tune, [kept] { return tune_command(*kept); }};
}

}  // namespace phub
