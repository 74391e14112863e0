#include "worker/nn/graph/description.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/config/model_names.h"
#include "common/text/nearest.h"
#include "worker/nn/graph/cost.h"
#include "worker/nn/graph/description_layers.h"

namespace phub::nn {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using FieldPlaces = TextFormat::ParseInfoTree;

constexpr int kSingular = -1;  // the index that a parse tree has for a field that is not repeated
constexpr int kLayersMax = 10'000;
constexpr std::size_t kNameCharsMax = 256;

// Names go into checkpoints, metrics and keys.
bool is_plain(const std::string& name) {
  return name.size() <= kNameCharsMax &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}
constexpr const char* kInput = "input";

const FieldDescriptor* field_of(const Message& message, std::string_view name) {
  return message.GetDescriptor()->FindFieldByName(std::string(name));
}

class DescriptionReader {
 public:
  DescriptionReader(const std::string& file, const FieldPlaces& places, const NetworkConfig& config)
      : file_(file), places_(places), config_(config) {}

  Result<Graph> read() {
    PHUB_RETURN_IF_ERROR(check_image());
    const ImageConfig& image = config_.image();
    Graph graph({.channels = image.channels(),
                 .height = image.height(),
                 .width = image.has_width() ? image.width() : image.height()});
    if (config_.layer_size() == 0 || config_.layer_size() > kLayersMax) {
      return wrong(file_ + ": layer: has " + std::to_string(config_.layer_size()) +
                   "; give from 1 to " + std::to_string(kLayersMax) + " layers");
    }
    for (int i = 0; i < config_.layer_size(); ++i) {
      const Status added = add(graph, config_.layer(i));
      if (!added.ok()) return at_layer(i, added);
    }
    for (int i = 0; i + 1 < config_.layer_size(); ++i) {
      if (read_[static_cast<std::size_t>(i) + 1]) continue;
      return at_layer(i, wrong("nobody reads its output; name it in another layer's inputs, or "
                               "remove it (only the last layer's is the network's)"));
    }
    return graph;
  }

 private:
  static Status wrong(const std::string& text) { return {Code::kInvalidArgument, text}; }

  Status check_image() const {
    const auto in_range = [](std::uint32_t value) { return value > 0 && value <= kPixelsMax; };
    const ImageConfig& image = config_.image();
    if (!config_.has_image() || !image.has_height()) {
      return wrong(file_ +
                   ": image: is missing; give what the network takes, as image { "
                   "channels: 3 height: 224 }");
    }
    if (in_range(image.channels()) && in_range(image.height()) &&
        (!image.has_width() || in_range(image.width()))) {
      return {};
    }
    return wrong(file_ + ": image: channels, height and width are from 1 to " +
                 std::to_string(kPixelsMax));
  }

  Status add(Graph& graph, const LayerConfig& config) {
    if (config.name() == kInput) return wrong("name: \"input\" is the image; choose another");
    if (!is_plain(config.name())) {
      return wrong("name: has other characters than printable ASCII, or over " +
                   std::to_string(kNameCharsMax) + " of them; choose another");
    }
    PHUB_ASSIGN_OR_RETURN(const LayerKind kind, kind_of(config));
    PHUB_ASSIGN_OR_RETURN(const std::vector<TensorId> inputs, inputs_of(graph, config));
    PHUB_ASSIGN_OR_RETURN(const TensorId output, graph.try_add(config.name(), kind, inputs));
    read_.resize(output + 1, false);
    for (const TensorId input : inputs) read_[input] = true;
    tensors_[config.name()] = output;
    return {};
  }

  Result<std::vector<TensorId>> inputs_of(const Graph& graph, const LayerConfig& config) const {
    if (config.inputs_size() == 0) return std::vector<TensorId>{graph.tensors() - 1};
    std::vector<TensorId> inputs;
    for (const std::string& name : config.inputs()) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) return unknown_input(name);
      inputs.push_back(found->second);
    }
    return inputs;
  }

  Status unknown_input(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [known, tensor] : tensors_) names.push_back(known);
    const auto nearest = nearest_word(name, names);
    return wrong("inputs: there is no layer \"" + name + "\" before this one" +
                 (nearest ? "; did you mean \"" + *nearest + "\"?"
                          : "; layers come after what they read, and the image is \"input\""));
  }

  // Puts the place of the field that the error begins with in front, or the layer's.
  Status at_layer(int index, const Status& error) const {
    const LayerConfig& layer = config_.layer(index);
    const std::string_view text = error.message();
    const std::string_view word = text.substr(0, text.find(':'));
    const FieldDescriptor* const layers = field_of(config_, "layer");
    auto place = places_.GetLocation(layers, index);
    if (const FieldPlaces* const inner = places_.GetTreeForNested(layers, index)) {
      if (const auto found = place_in(*inner, layer, word); found.line >= 0) place = found;
    }
    return error.with_context("layer \"" + layer.name() + "\"")
        .with_context(file_ + ":" + std::to_string(place.line + 1) + ":" +
                      std::to_string(place.column + 1));
  }

  // Of a field of the layer, or of its kind; line -1 where it is not written.
  static TextFormat::ParseLocation place_in(const FieldPlaces& places, const LayerConfig& layer,
                                            std::string_view word) {
    if (const FieldDescriptor* const field = field_of(layer, word)) {
      return places.GetLocation(field, field->is_repeated() ? 0 : kSingular);
    }
    const auto* const oneof = LayerConfig::descriptor()->FindOneofByName("kind");
    const FieldDescriptor* const kind =
        layer.GetReflection()->GetOneofFieldDescriptor(layer, oneof);
    if (kind == nullptr) return {};
    const FieldDescriptor* const field = kind->message_type()->FindFieldByName(std::string(word));
    const FieldPlaces* const inner = places.GetTreeForNested(kind, kSingular);
    if (field == nullptr || inner == nullptr) return places.GetLocation(kind, kSingular);
    const auto place = inner->GetLocation(field, field->is_repeated() ? 0 : kSingular);
    return place.line >= 0 ? place : places.GetLocation(kind, kSingular);
  }

  const std::string& file_;
  const FieldPlaces& places_;
  const NetworkConfig& config_;
  std::map<std::string, TensorId, std::less<>> tensors_ = {{kInput, 0}};
  std::vector<bool> read_;  // by TensorId
};

std::string in_one_line(const Message& message) {
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(message, &text);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

Result<Description> parse_network(std::string_view text, const std::string& file) {
  NetworkConfig config;
  FieldPlaces places;
  PHUB_RETURN_IF_ERROR(parse_textproto(text, file, places, config));
  PHUB_ASSIGN_OR_RETURN(Graph graph, DescriptionReader(file, places, config).read());
  if (const Status cost = check_cost(graph); !cost.ok()) return cost.with_context(file);
  const std::string stem = std::filesystem::path(file).stem().string();
  const std::string name = config.has_name() ? config.name() : stem;
  if (!is_plain(name)) {
    return Status(Code::kInvalidArgument,
                  file +
                      ": name: the network's (or the file's) has other characters than "
                      "printable ASCII, or is too long; give a plain one");
  }
  return Description{name, std::move(graph)};
}

Result<Description> load_network(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  return parse_network(text, path);
}

std::string to_textproto(const Graph& graph, std::string_view name) {
  NetworkConfig head;
  head.set_name(std::string(name));
  ImageConfig& image = *head.mutable_image();
  image.set_channels(graph.input_shape().channels);
  image.set_height(graph.input_shape().height);
  image.set_width(graph.input_shape().width);
  std::string text =
      "# The fields and their defaults are in proto/network.proto.\n" + in_one_line(head) + "\n";
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const Layer& layer = graph.layers()[i];
    LayerConfig config;
    config.set_name(layer.name);
    if (layer.inputs != std::vector<TensorId>{i}) {
      for (const TensorId input : layer.inputs) {
        config.add_inputs(input == 0 ? kInput : graph.layers()[input - 1].name);
      }
    }
    describe_kind(layer.kind, config);
    text += "layer { " + in_one_line(config) + " }\n";
  }
  return text;
}

}  // namespace phub::nn
