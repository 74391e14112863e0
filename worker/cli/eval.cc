#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/tensors/safetensors.h"
#include "worker/cli/checkpoint_use.h"
#include "worker/cli/commands.h"
#include "worker/cli/options/run_arguments.h"
#include "worker/train/evaluation.h"

namespace phub {
namespace {

struct EvalArguments {
  RunArguments run;
  std::string checkpoint;  // empty: the configuration's
  std::string logits;      // empty: they are not written
  bool json = false;
};

constexpr const char* kEvalExamples = R"(
Examples:
  What a training has written:
    phub-worker train configs/mnist.textproto --local --checkpoint model.safetensors
    phub-worker eval configs/mnist.textproto --checkpoint model.safetensors
  What PyTorch has written (safetensors.torch.save_file(model.state_dict(), "theirs.safetensors")):
    phub-worker eval configs/cifar10-resnet20.textproto --checkpoint theirs.safetensors --json

The test images of the configuration's data, each as it is, through its model, without a server.
--logits writes the last layer's numbers, a row for each image in the data set's order, as the tensor
"logits" of a safetensors file.

Exit status: 0, 1 failed, 2 wrong usage, configuration or checkpoint.)";

void print(const EvalArguments& arguments, const train::SessionOptions& options,
           const std::string& checkpoint, const train::Evaluation& result) {
  const double rate = static_cast<double>(result.images) / result.seconds;
  if (arguments.json) {
    nlohmann::ordered_json line = {{"model", options.model},
                                   {"checkpoint", checkpoint},
                                   {"images", result.images},
                                   {"loss", result.loss},
                                   {"top1", result.top1}};
    if (result.top5) line["top5"] = *result.top5;
    line["seconds"] = result.seconds;
    line["images_per_second"] = rate;
    fmt::print("{}\n", line.dump());
    return;
  }
  std::string text = fmt::format("{}: loss {:.4f}  top-1 {:.2f} %", options.model, result.loss,
                                 100.0 * result.top1);
  if (result.top5) text += fmt::format("  top-5 {:.2f} %", 100.0 * *result.top5);
  fmt::print("{}  of {} test images  ({:.0f} images/s)\n", text, result.images, rate);
}

// `values`: rows of as many numbers as there are classes.
Status write_logits(const std::string& path, std::uint64_t images, std::vector<float> values) {
  TensorFile file;
  const std::uint64_t classes = values.size() / images;
  file.tensors.push_back({"logits", {images, classes}, std::move(values)});
  return write_safetensors(path, file).with_context("--logits");
}

Status evaluate(const EvalArguments& arguments, const WorkerConfig& config) {
  PHUB_ASSIGN_OR_RETURN(const CheckpointUse use,
                        use_of_checkpoint(config, arguments.run, arguments.checkpoint));
  std::vector<float> all;
  const auto result = train::evaluate_checkpoint(
      use.options, use.path, [&](std::span<const float> logits, double done) {
        if (use.options.report.bar) fmt::print(stderr, "\r{:>3.0f} % ", 100.0 * done);
        if (!arguments.logits.empty()) all.insert(all.end(), logits.begin(), logits.end());
      });
  if (use.options.report.bar) fmt::print(stderr, "\r\x1b[K");
  if (!result) return result.error();
  print(arguments, use.options, use.path, *result);
  if (arguments.logits.empty()) return {};
  return write_logits(arguments.logits, result->images, std::move(all));
}

Ending eval_command(EvalArguments arguments) {
  arguments.run.local = true;  // whom the configuration would train with does not matter
  const auto config = load_run(arguments.run);
  if (!config) return fail(config.error(), kExitUsage);
  set_up_logging(config->log_level());
  const Status status = evaluate(arguments, *config);
  return status.ok() ? Ending() : fail(status);
}

}  // namespace

Command add_eval_command(CLI::App& app) {
  const auto kept = std::make_shared<EvalArguments>();
  EvalArguments& arguments = *kept;
  CLI::App* eval = app.add_subcommand("eval", "Evaluate a checkpoint on the test images");
  eval->footer(kEvalExamples);
  eval->add_option("CONFIG", arguments.run.config_path, "Of the training: its model and data")
      ->required()
      ->type_name("");
  eval->add_option("--checkpoint", arguments.checkpoint,
                   "The safetensors file; left out: the configuration's train.checkpoint")
      ->type_name("FILE");
  add_compute_options(*eval, arguments.run);
  eval->add_option("--logits", arguments.logits, "Write the logits to this safetensors file")
      ->type_name("FILE");
  eval->add_flag("--json", arguments.json, "One JSON object instead of a line");
  return {eval, [kept] { return eval_command(*kept); }};
}

}  // namespace phub
