#include "worker/train/session_data.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/log_value.h"
#include "worker/data/dataset.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/encoded/open_set.h"

namespace phub::train {
namespace {

constexpr std::uint32_t kColours = 3;

std::string describe(const nn::Shape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

Result<data::Datasets> load_in_memory(const SessionOptions& options, const nn::Graph& graph) {
  const nn::Shape& shape = graph.input_shape();
  switch (options.data.format) {
    case DataFormat::kIdx:
      return data::load_idx(options.data.path);
    case DataFormat::kCifar10:
      return data::load_cifar10(options.data.path);
    case DataFormat::kCifar100:
      return data::load_cifar100(options.data.path);
    default:
      return data::make_synthetic({.channels = shape.channels,
                                   .height = shape.height,
                                   .width = shape.width,
                                   .classes = graph.output_shape().channels,
                                   .images = options.data.synthetic_images,
                                   .seed = options.seed});
  }
}

// The splits are read by different threads.
std::function<void(std::string_view)> one_at_a_time(std::function<void(std::string_view)> note) {
  if (!note) return note;
  return [note = std::move(note), mutex = std::make_shared<std::mutex>()](std::string_view text) {
    const std::lock_guard lock(*mutex);
    note(text);
  };
}

Result<data::EncodedOptions> encoded_options(const SessionOptions& options,
                                             const nn::Shape& shape) {
  if (shape.channels != 1 && shape.channels != kColours) {
    return Status(Code::kInvalidArgument,
                  "model " + options.model + " takes images of " + std::to_string(shape.channels) +
                      " channels: encoded images have 1 or 3; choose another model.image");
  }
  const bool has_own = !options.data.mean.empty();
  if (has_own && options.data.mean.size() != shape.channels) {
    return Status(Code::kInvalidArgument,
                  "data.mean has " + std::to_string(options.data.mean.size()) +
                      " numbers, and the network takes " + std::to_string(shape.channels) +
                      " channels: give one for each");
  }
  // ImageNet's, of colours and of their grey.
  std::vector<float> mean = {0.485F, 0.456F, 0.406F}, deviation = {0.229F, 0.224F, 0.225F};
  if (shape.channels == 1) mean = {0.459F}, deviation = {0.226F};
  return data::EncodedOptions{.facts = {.channels = shape.channels,
                                        .height = shape.height,
                                        .width = shape.width,
                                        .mean = has_own ? options.data.mean : mean,
                                        .deviation = has_own ? options.data.deviation : deviation},
                              .view = options.data.view,
                              .damaged_max = options.data.damaged_max,
                              .note = one_at_a_time(options.note)};
}

// A label must mean the same class in both splits.
Status check_same_classes(const SessionOptions& options, const data::SampleSet& train,
                          const data::SampleSet& test) {
  const std::string path = "data.path: " + options.data.path.string();
  if (test.classes().size() > train.classes().size()) {
    return {Code::kInvalidArgument, path + " has " + std::to_string(test.classes().size()) +
                                        " classes for the test and " +
                                        std::to_string(train.classes().size()) +
                                        " for the training: the test has labels that nothing "
                                        "teaches"};
  }
  for (std::size_t label = 0; label < test.classes().size(); ++label) {
    const std::string &taught = train.classes()[label], &asked = test.classes()[label];
    if (taught == asked) continue;
    return {Code::kInvalidArgument, path + ": label " + std::to_string(label) + " is class " +
                                        one_line(taught) + " in the training and " +
                                        one_line(asked) +
                                        " in the test: make both splits from one set"};
  }
  return {};
}

Result<data::ImageSets> open_encoded(const SessionOptions& options, const nn::Graph& graph) {
  PHUB_ASSIGN_OR_RETURN(const data::EncodedOptions encoded,
                        encoded_options(options, graph.input_shape()));
  PHUB_ASSIGN_OR_RETURN(
      auto train, data::open_set(options.data.format, options.data.path, data::Split::kTrain));
  PHUB_ASSIGN_OR_RETURN(auto test,
                        data::open_set(options.data.format, options.data.path, data::Split::kTest));
  PHUB_RETURN_IF_ERROR(check_same_classes(options, *train, *test));
  return data::ImageSets{data::encoded_images(std::move(train), encoded),
                         data::encoded_images(std::move(test), encoded)};
}

}  // namespace

Result<data::ImageSets> load_data(const SessionOptions& options, const nn::Graph& graph) {
  if (is_encoded(options.data.format)) return open_encoded(options, graph);
  PHUB_ASSIGN_OR_RETURN(data::Datasets datasets, load_in_memory(options, graph));
  return data::image_sets_of(std::move(datasets));
}

Status check_fit(const SessionOptions& options, const nn::Graph& graph,
                 const data::ImageFacts& facts) {
  const nn::Shape images{facts.channels, facts.height, facts.width};
  if (images != graph.input_shape()) {
    return {Code::kInvalidArgument,
            "model " + options.model + " takes images of " + describe(graph.input_shape()) +
                " but the data set has " + describe(images) +
                ": choose model.name (or model.image, or the description) to fit "
                "data.format"};
  }
  const nn::Shape& output = graph.output_shape();
  if (output.height != 1 || output.width != 1) {
    return {Code::kInvalidArgument, "model " + options.model + " ends with " + describe(output) +
                                        " numbers an image: end it with global_average_pool or "
                                        "inner_product, one number for each class"};
  }
  if (facts.classes > graph.output_shape().channels) {
    return {Code::kInvalidArgument,
            "the data set has " + std::to_string(facts.classes) +
                " classes: set model.classes, or the last layer's outputs, to "
                "at least that"};
  }
  return {};
}

}  // namespace phub::train
