#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/base/whole_file.h"
#include "worker/cli/checkpoint_use.h"
#include "worker/cli/commands.h"
#include "worker/cli/options/run_arguments.h"
#include "worker/data/dataset.h"
#include "worker/data/encoded/view.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/images/decoder.h"
#include "worker/data/netpbm.h"
#include "worker/train/evaluation.h"

namespace phub {
namespace {

constexpr std::size_t kReadAtOnce = 1U << 16U;

struct PredictArguments {
  RunArguments run;
  std::string checkpoint;  // empty: the configuration's
  std::vector<std::string> images;
  std::uint32_t top = 5;
  bool json = false;
};

constexpr const char* kPredictExamples = R"(
Examples:
  What a trained network takes a picture for:
    phub-worker predict configs/mnist.textproto digit.pgm \
        --checkpoint model.safetensors
  A photograph, by a network that was trained on image files:
    phub-worker predict train.textproto photo.jpg

JPEG and PNG files may have any size: the network sees their centre, as it sees
test images. Binary PGM (grey) and PPM (colours) files with 8 bits a channel have
the size and channels that the model takes. All are normalised as the
configuration's data is. One line for each image: its file, and the classes that
are likeliest, by their numbers, with the softmax of the logits.

Exit status: 0, 1 failed, 2 wrong usage, configuration, checkpoint or image.)";

std::string describe(std::uint32_t channels, std::uint32_t height, std::uint32_t width) {
  return fmt::format("{} x {} x {}", channels, height, width);
}

Result<std::vector<std::uint8_t>> netpbm_pixels(const std::string& file,
                                                const data::ImageFacts& like) {
  PHUB_ASSIGN_OR_RETURN(data::NetpbmImage image, data::read_netpbm(file));
  if (image.channels == like.channels && image.height == like.height && image.width == like.width) {
    return std::move(image.pixels);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{}: has {} channels, rows and columns, and the model takes {}: "
                            "resize it, and give {}",
                            file, describe(image.channels, image.height, image.width),
                            describe(like.channels, like.height, like.width),
                            like.channels == 1 ? "a PGM file" : "a PPM file"));
}

// Decodes a JPEG or PNG file. Errors do not name it.
Result<std::vector<std::uint8_t>> decoded_pixels(std::span<const std::uint8_t> bytes,
                                                 const data::ImageFacts& like,
                                                 const data::ViewOptions& view) {
  data::Decoder decoder;
  std::vector<std::uint8_t> pixels(like.image_bytes());
  const data::ImageSize out{like.width, like.height};
  PHUB_ASSIGN_OR_RETURN(const data::ImageSize size, decoder.measure(bytes));
  PHUB_RETURN_IF_ERROR(
      decoder.decode(bytes, data::test_window(view, size, out), like.channels, out, pixels));
  return pixels;
}

Result<std::vector<std::uint8_t>> pixels_of(const std::string& path, const data::ImageFacts& like,
                                            const data::ViewOptions& view) {
  PHUB_RETURN_IF_ERROR(check_readable_to_end(path));
  std::vector<std::uint8_t> bytes(1);
  std::ifstream file(path, std::ios::binary);
  while (file && bytes.size() <= data::kMaxSampleBytes) {
    const std::size_t have = bytes.size() - 1;
    bytes.resize(have + kReadAtOnce + 1);
    file.read(reinterpret_cast<char*>(bytes.data() + have), kReadAtOnce);
    bytes.resize(have + static_cast<std::size_t>(file.gcount()) + 1);
  }
  bytes.pop_back();
  if (bytes.size() > data::kMaxSampleBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: has more than {} bytes; give a smaller image", path,
                              data::kMaxSampleBytes));
  }
  const bool is_netpbm = bytes.size() < 2 || bytes[0] == 'P';
  if (is_netpbm) return netpbm_pixels(path, like);
  auto pixels = decoded_pixels(bytes, like, view);
  if (!pixels) return pixels.error().with_context(path);
  return pixels;
}

Result<std::unique_ptr<data::Images>> load_images(const std::vector<std::string>& files,
                                                  const data::ImageFacts& like,
                                                  const train::DataOptions& options) {
  data::Dataset images{.facts = like};
  images.labels.assign(files.size(), 0);  // of no use
  // Images of one size are seen whole.
  const data::ViewOptions view =
      is_encoded(options.format) ? options.view : data::ViewOptions{.test = 1.0};
  for (const std::string& file : files) {
    PHUB_ASSIGN_OR_RETURN(const auto pixels, pixels_of(file, like, view));
    images.pixels.insert(images.pixels.end(), pixels.begin(), pixels.end());
  }
  return data::images_of(std::move(images));
}

struct Guess {
  std::size_t label;
  double probability;
};

// The likeliest first.
std::vector<Guess> guesses_of(std::span<const float> logits, std::size_t top) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Guess> guesses;
  double sum = 0.0;
  for (std::size_t label = 0; label < logits.size(); ++label) {
    guesses.push_back({label, std::exp(static_cast<double>(logits[label]) - largest)});
    sum += guesses.back().probability;
  }
  for (Guess& guess : guesses) guess.probability /= sum;
  std::stable_sort(guesses.begin(), guesses.end(),
                   [](const Guess& a, const Guess& b) { return a.probability > b.probability; });
  guesses.resize(std::min(top, guesses.size()));
  return guesses;
}

void print(const PredictArguments& arguments, const std::vector<float>& logits) {
  const std::size_t classes = logits.size() / arguments.images.size();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < arguments.images.size(); ++i) {
    const auto row = std::span(logits).subspan(i * classes, classes);
    std::string text = arguments.images[i] + ":";
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Guess& guess : guesses_of(row, arguments.top)) {
      text += fmt::format("{} {} ({:.2f} %)", list.empty() ? "" : ",", guess.label,
                          100.0 * guess.probability);
      list.push_back({{"class", guess.label}, {"probability", guess.probability}});
    }
    all.push_back({{"file", arguments.images[i]}, {"classes", list}});
    if (!arguments.json) fmt::print("{}\n", text);
  }
  if (!arguments.json) return;
  // Names may be any bytes.
  fmt::print("{}\n", nlohmann::ordered_json{{"images", all}}.dump(
                         -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

Status predict(const PredictArguments& arguments, const WorkerConfig& config) {
  PHUB_ASSIGN_OR_RETURN(const CheckpointUse use,
                        use_of_checkpoint(config, arguments.run, arguments.checkpoint));
  std::vector<float> logits;
  const auto result = train::evaluate_checkpoint(
      use.options, use.path,
      [&](std::span<const float> rows, double) {
        logits.insert(logits.end(), rows.begin(), rows.end());
      },
      [&](const data::ImageFacts& test) {
        return load_images(arguments.images, test, use.options.data);
      });
  if (!result) return result.error();
  print(arguments, logits);
  return {};
}

Ending predict_command(PredictArguments arguments) {
  arguments.run.local = true;  // whom the configuration would train with does not matter
  const auto config = load_run(arguments.run);
  if (!config) return fail(config.error(), kExitUsage);
  set_up_logging(config->log_level());
  const Status status = predict(arguments, *config);
  if (status.ok()) return {};
  const bool is_input = status.code() == Code::kDataLoss || status.code() == Code::kNotFound ||
                        status.code() == Code::kInvalidArgument ||
                        status.code() == Code::kResourceExhausted;
  return fail(status, is_input ? kExitUsage : kExitFailed);
}

}  // namespace

Command add_predict_command(CLI::App& app) {
  const auto kept = std::make_shared<PredictArguments>();
  PredictArguments& arguments = *kept;
  CLI::App* predict = app.add_subcommand("predict", "Say what a checkpoint takes images for");
  predict->footer(kPredictExamples);
  predict->add_option("CONFIG", arguments.run.config_path, "Of the training: its model and data")
      ->required()
      ->type_name("");
  predict->add_option("IMAGE", arguments.images, "JPEG, PNG, PGM or PPM files")
      ->required()
      ->type_name("");
  predict
      ->add_option("--checkpoint", arguments.checkpoint,
                   "The safetensors file; left out: the configuration's train.checkpoint")
      ->type_name("FILE");
  predict->add_option("--top", arguments.top, "So many classes of each image")
      ->type_name("N")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  add_compute_options(*predict, arguments.run);
  predict->add_flag("--json", arguments.json, "One JSON object instead of lines");
  return {predict, [kept] { return predict_command(*kept); }};
}

}  // namespace phub
