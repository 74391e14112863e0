#include "worker/train/session_data.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/log_value.h"
#include "common/text/url.h"
#include "worker/data/cache/open.h"
#include "worker/data/dataset.h"
#include "worker/data/encoded/encoded_images.h"
#include "worker/data/encoded/open_set.h"
#include "worker/data/formats/source_file.h"
#include "worker/data/spread/memory_share.h"

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
  const std::string path = "data.path: " + data::printable(options.data.path);
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

// What people are told of a split.
std::string about(const SessionOptions& options, data::Split split) {
  std::error_code error;
  const std::filesystem::path& path = options.data.path;
  const bool is_here = !is_url(path.native());
  return data::printable(is_here ? std::filesystem::absolute(path, error) : path) + ", " +
         std::string(name_of(options.data.format)) + ", " + std::string(name_of(split));
}

// Opening shards on a server may take minutes: that is told once, and it may be stopped.
data::OnProgress follow_opening(const SessionOptions& options, data::Split split,
                                const data::cache::SampleStore::Note& note,
                                const IsStopped& stopped) {
  const bool is_told = note && is_url(options.data.path.native());
  const std::string shards =
      std::string(name_of(split)) + " shards of " + data::printable(options.data.path);
  return [=, tells = std::make_shared<bool>(is_told)](const data::Progress& progress) {
    if (std::exchange(*tells, false)) {
      note("data.path: asks for the places of all samples in " + std::to_string(progress.of) + ' ' +
           shards);
    }
    return !stopped || !stopped();
  };
}

Result<std::unique_ptr<data::SampleSet>> open_split(const SessionOptions& options,
                                                    data::Split split,
                                                    data::cache::SampleStore::Note note,
                                                    const IsStopped& stopped = {}) {
  const data::cache::CacheOptions& cache = options.data.cache;
  const std::string name = about(options, split);
  data::OpenOptions opening;
  opening.on_progress = follow_opening(options, split, note, stopped);
  opening.open_index_store = data::cache::kept_indexes(cache, name + ", index", note);
  PHUB_ASSIGN_OR_RETURN(auto set,
                        data::open_set(options.data.format, options.data.path, split, opening));
  return data::cache::with_copies(std::move(set), cache, name, std::move(note));
}

// The images of a split, which are decoded once where decoded ones are kept.
Result<std::unique_ptr<data::Images>> images_of(const SessionOptions& options,
                                                const data::EncodedOptions& encoded,
                                                std::unique_ptr<data::SampleSet> set,
                                                data::Split split) {
  const data::cache::CacheOptions& cache = options.data.cache;
  const std::uint32_t channels = encoded.facts.channels;
  PHUB_ASSIGN_OR_RETURN(
      auto store,
      data::cache::decoded_store(*set, cache, channels, about(options, split), encoded.note));
  data::EncodedOptions own = encoded;
  if (cache.memory_bytes > 0) {
    own.decoded =
        std::make_shared<data::DecodedImages>(std::move(store), channels, cache.decoded_side);
  }
  return data::encoded_images(std::move(set), std::move(own));
}

// Pixels that a cache has left out cannot be shown.
Status check_side(const SessionOptions& options, const data::ImageFacts& facts) {
  const std::uint32_t side = options.data.cache.decoded_side;
  const std::uint32_t least = std::max(facts.height, facts.width);
  if (side == 0 || side >= least) return {};
  return {Code::kInvalidArgument, "data.cache.decoded_side: " + std::to_string(side) +
                                      ", and the network takes images of " +
                                      std::to_string(facts.height) + " x " +
                                      std::to_string(facts.width) + " pixels: give at least " +
                                      std::to_string(least) + ", or 0"};
}

// In front of the set, to be read when it has its place.
Result<std::unique_ptr<data::SampleSet>> spread_over(
    const SessionOptions& options, std::unique_ptr<data::SampleSet> set,
    const std::function<void(std::string_view)>& note, data::SpreadSet** spread) {
  const std::uint32_t readers = std::max(1U, options.data.feed.threads);
  // Whether links encrypt is known when the job is joined: then they need more.
  constexpr bool kEncrypts = false;
  PHUB_ASSIGN_OR_RETURN(
      auto made,
      data::SpreadSet::create(std::move(set), {.memory_bytes = options.data.spread.memory_bytes,
                                               .members = options.data.spread.members,
                                               .readers = readers,
                                               .link_bytes = data::link_bytes(readers, kEncrypts),
                                               .note = note}));
  *spread = made.get();
  return std::unique_ptr<data::SampleSet>(std::move(made));
}

Result<data::ImageSets> open_encoded(const SessionOptions& options, const nn::Graph& graph,
                                     data::SpreadSet** spread, const IsStopped& stopped) {
  PHUB_ASSIGN_OR_RETURN(const data::EncodedOptions encoded,
                        encoded_options(options, graph.input_shape()));
  PHUB_RETURN_IF_ERROR(check_side(options, encoded.facts));
  PHUB_ASSIGN_OR_RETURN(auto train,
                        open_split(options, data::Split::kTrain, encoded.note, stopped));
  PHUB_ASSIGN_OR_RETURN(auto test, open_split(options, data::Split::kTest, encoded.note, stopped));
  PHUB_RETURN_IF_ERROR(check_same_classes(options, *train, *test));
  if (spread != nullptr && options.data.spread.memory_bytes > 0) {
    PHUB_ASSIGN_OR_RETURN(train, spread_over(options, std::move(train), encoded.note, spread));
  }
  data::ImageSets sets;
  PHUB_ASSIGN_OR_RETURN(sets.train,
                        images_of(options, encoded, std::move(train), data::Split::kTrain));
  PHUB_ASSIGN_OR_RETURN(sets.test,
                        images_of(options, encoded, std::move(test), data::Split::kTest));
  return sets;
}

}  // namespace

Result<std::unique_ptr<data::SampleSet>> open_encoded_set(const SessionOptions& options,
                                                          data::Split split) {
  return open_split(options, split, options.note);
}

Result<data::ImageSets> load_data(const SessionOptions& options, const nn::Graph& graph,
                                  data::SpreadSet** spread, const IsStopped& stopped) {
  if (is_encoded(options.data.format)) return open_encoded(options, graph, spread, stopped);
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
