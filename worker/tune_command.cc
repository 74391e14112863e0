#include "worker/tune_command.h"

#include <fmt/core.h>

#include "worker/exit_status.h"

namespace phub {
namespace {

constexpr const char* kFooter = R"(
Each different cuDNN graph of the network is run with the engines that cuDNN proposes (the ten best
by its own guess that work; the median of five runs of several launches each), and the fastest is
written to the cache, which training and bench read. So is, for each block of layers that can be done
in one kernel or in several (a convolution with the sums of the batch normalisation behind it, ...),
which of the two is faster. What is in the cache is not measured again.
Exit status: 0, 1 failed, 2 a wrong usage or description.)";

}  // namespace

CLI::App* add_tune_command(CLI::App& app, TuneArguments& arguments) {
  CLI::App* tune = app.add_subcommand("tune", "Measure a GPU's engines for a network");
  tune->footer(kFooter);
  add_model_choice(*tune, arguments.choice);
  add_cuda_options(*tune, arguments.cuda);
  tune->add_option("--batch", arguments.batch, "Images of a step")
      ->type_name("N")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str();
  tune->add_option("--compute-type", arguments.compute_type, "fp16 or bf16")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp16", "bf16"}))
      ->capture_default_str();
  return tune;
}

int tune_command(const TuneArguments& arguments) {
  if (arguments.choice.what.empty()) {
    return fail({Code::kInvalidArgument,
                 "tune: give a model's name or a description's file (phub-worker model --list)"});
  }
  const auto network = find_network(arguments.choice);
  if (!network) return fail(network.error());
  train::CudaOptions cuda = cuda_options(arguments.cuda, arguments.cuda.device.value_or(0));
  cuda.program.tune = true;
  if (cuda.program.engine_cache.empty()) {
    return fail({Code::kInvalidArgument,
                 "--engine-cache: there is no home folder to keep the engines in; give a file"});
  }
  const auto program =
      train::make_program(network->graph, {.backend = train::BackendKind::kCuda,
                                           .compute_type = *parse_data_type(arguments.compute_type),
                                           .batch = arguments.batch,
                                           .cuda = cuda});
  if (!program) return fail(program.error());
  fmt::print("the fastest engines are in {}\n", cuda.program.engine_cache.string());
  return 0;
}

}  // namespace phub
