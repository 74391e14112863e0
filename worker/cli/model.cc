#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/cli/commands.h"
#include "worker/cli/options/model_choice.h"
#include "worker/nn/graph/description.h"
#include "worker/nn/graph/table.h"
#include "worker/nn/models/models.h"

namespace phub {
namespace {

struct ModelArguments {
  ModelChoice choice;
  bool list = false, json = false, textproto = false, segments = false;
  std::uint32_t batch = 1;
  std::string wire_type = "fp32";
  std::uint32_t chunk_kib = 32;
};

constexpr const char* kModelExamples = R"(
Examples:
  The models there are:
    phub-worker model --list
  What ResNet-50 costs, layer by layer, with memory for 32 images:
    phub-worker model resnet50 --batch 32
  The same model for CIFAR's images:
    phub-worker model resnet18 --image 32x32 --classes 10
  A description to start from, changed, looked at and trained (model { file: "net.textproto" }):
    phub-worker model vgg11 --textproto > net.textproto
    phub-worker model net.textproto
  Where each key lies in the exchange's array, with 16 bits for a number:
    phub-worker model alexnet --segments --wire-type fp16

Operations are those of convolutions and inner products; a multiply-add is 2. Backward takes twice
the forward's, less the input gradient of what reads the image. The fields of a description are in
proto/network.proto.

Exit status: 0, or 2 for a wrong usage or description.)";

std::string list_text() {
  std::string text = fmt::format("{:<16}  {:>13}  {:>7}  {:>12}  {}\n", "model", "image", "classes",
                                 "parameters", "what");
  for (const nn::ModelInfo& info : nn::model_list()) {
    const auto graph = nn::make_model(info.name);
    text += fmt::format(
        "{:<16}  {:>13}  {:>7}  {:>12}  {}\n", info.name,
        fmt::format("{}x{}x{}", info.image.height, info.image.width, info.image.channels),
        info.classes, graph->parameter_elements(), info.summary);
  }
  return text;
}

std::string list_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const nn::ModelInfo& info : nn::model_list()) {
    const auto graph = nn::make_model(info.name);
    all.push_back({{"model", info.name},
                   {"input", {info.image.channels, info.image.height, info.image.width}},
                   {"classes", info.classes},
                   {"parameter_elements", graph->parameter_elements()},
                   {"summary", info.summary}});
  }
  return all.dump() + "\n";
}

Result<std::string> text_of(const ModelArguments& arguments) {
  if (arguments.list) return arguments.json ? list_json() : list_text();
  if (arguments.choice.what.empty())
    return Status(Code::kInvalidArgument, "give a model or a file, or --list");
  PHUB_ASSIGN_OR_RETURN(const nn::Description description, find_network(arguments.choice));
  if (arguments.textproto) return nn::to_textproto(description.graph, description.name);
  if (arguments.segments) {
    PHUB_ASSIGN_OR_RETURN(
        const nn::SegmentTable table,
        nn::SegmentTable::of(description.graph, {.type = *parse_data_type(arguments.wire_type),
                                                 .chunk_bytes = arguments.chunk_kib * 1024}));
    return arguments.json ? segment_table_json(table) : segment_table_text(table);
  }
  return arguments.json ? network_json(description.graph, description.name, arguments.batch)
                        : network_table(description.graph, description.name, arguments.batch);
}

Ending model_command(const ModelArguments& arguments) {
  const auto text = text_of(arguments);
  if (!text) return fail(text.error(), kExitUsage);
  fmt::print("{}", *text);
  return {};
}

}  // namespace

Command add_model_command(CLI::App& app) {
  const auto kept = std::make_shared<ModelArguments>();
  ModelArguments& arguments = *kept;
  CLI::App* model = app.add_subcommand("model", "Print a network: layers, shapes, costs");
  model->footer(kModelExamples);
  add_model_choice(*model, arguments.choice);
  auto* list = model->add_flag("--list", arguments.list, "The built-in models");
  auto* json = model->add_flag("--json", arguments.json, "JSON instead of a table");
  auto* textproto = model->add_flag("--textproto", arguments.textproto,
                                    "The description, to be written to a file");
  auto* segments = model->add_flag("--segments", arguments.segments,
                                   "Where each key lies, and whether decay and LARS are for it");
  textproto->excludes(json)->excludes(segments)->excludes(list);
  list->excludes(segments);
  model->add_option("--batch", arguments.batch, "Images whose memory is counted")
      ->type_name("N")
      ->excludes(segments)
      ->excludes(textproto)
      ->excludes(list)
      ->check(CLI::Range(1U, 65'536U));
  model->add_option("--wire-type", arguments.wire_type, "Of --segments: fp32, fp16 or bf16")
      ->type_name("TYPE")
      ->needs(segments)
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}));
  model->add_option("--chunk-kib", arguments.chunk_kib, "Of --segments: the chunks' size")
      ->type_name("N")
      ->needs(segments)
      ->check(CLI::Range(1U, 4096U));
  return {model, [kept] { return model_command(*kept); }};
}

}  // namespace phub
