#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/base/log_value.h"
#include "common/text/table.h"
#include "worker/cli/data/data.h"
#include "worker/cli/data/training_images.h"
#include "worker/data/feed/feeder.h"
#include "worker/data/images/png_writer.h"

namespace phub {
namespace {

struct ShowArguments {
  RunArguments run;
  std::string out = "images.png";
  std::uint32_t columns = 8, rows = 8;
  std::uint64_t epoch = 0;
  bool test = false;
};

constexpr const char* kShowExamples = R"(
Examples:
  The first 64 training images of epoch 0, as the network gets them:
    phub-worker data show train.textproto --out sheet.png
  The first test images, which are not moved, mirrored or changed in colour:
    phub-worker data show train.textproto --test

The picture has the images after decoding, crop, resize, colours, shift, flip and mixup, from left to
right in the order of the training. A table counts the images of each class in both splits.

Exit status: 0, 1 failed, 2 wrong usage or configuration.)";

constexpr std::uint32_t kGap = 2;      // pixels between images
constexpr std::uint32_t kLeast = 48;   // smaller images are drawn larger
constexpr std::uint8_t kPaper = 0x80;  // around images
constexpr std::uint64_t kSheetBytesMax = 1ULL << 29U;

// A sheet of images of one size, each pixel drawn `scale` times in each direction.
class Sheet {
 public:
  Sheet(const data::ImageFacts& facts, std::uint32_t columns, std::uint32_t rows)
      : facts_(facts),
        channels_(facts.channels == 3 ? 3 : 1),
        columns_(columns),
        scale_(std::max(1U, kLeast / std::max(facts.width, facts.height))),
        size_{columns * (facts.width * scale_ + kGap) + kGap,
              rows * (facts.height * scale_ + kGap) + kGap},
        pixels_(size_.pixels() * channels_, kPaper) {}

  // `numbers`: normalised, [row][column][channel].
  void draw(std::uint32_t position, std::span<const float> numbers) {
    const std::uint32_t left = position % columns_ * (facts_.width * scale_ + kGap) + kGap;
    const std::uint32_t top = position / columns_ * (facts_.height * scale_ + kGap) + kGap;
    for (std::uint32_t row = 0; row < facts_.height * scale_; ++row) {
      for (std::uint32_t column = 0; column < facts_.width * scale_; ++column) {
        const std::size_t from =
            (std::size_t{row / scale_} * facts_.width + column / scale_) * facts_.channels;
        const std::size_t to = (std::size_t{top + row} * size_.width + left + column) * channels_;
        for (std::uint32_t channel = 0; channel < channels_; ++channel) {
          pixels_[to + channel] = byte_of(numbers[from + channel], channel);
        }
      }
    }
  }

  Status write(const std::string& path) const {
    return data::write_png(path, size_, channels_, pixels_);
  }

 private:
  std::uint8_t byte_of(float number, std::uint32_t channel) const {
    const float value = (number * facts_.deviation[channel] + facts_.mean[channel]) * 255.0F;
    return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0F, 255.0F)));
  }

  const data::ImageFacts& facts_;
  std::uint32_t channels_, columns_, scale_;
  data::ImageSize size_;
  std::vector<std::uint8_t> pixels_;
};

std::vector<std::uint64_t> counts_of(const data::Images& images, std::size_t classes) {
  std::vector<std::uint64_t> counts(classes);
  for (std::uint64_t image = 0; image < images.images(); ++image) ++counts[images.label(image)];
  return counts;
}

void print_classes(const data::ImageSets& sets) {
  const std::size_t classes = sets.train->facts().classes;
  const auto train = counts_of(*sets.train, classes), test = counts_of(*sets.test, classes);
  Table table("CLASS|>TRAIN|>TEST");
  for (std::size_t label = 0; label < classes; ++label) {
    table.add({one_line(sets.train->class_name(static_cast<std::uint16_t>(label))),
               std::to_string(train[label]), std::to_string(test[label])});
  }
  table.add({"all", std::to_string(sets.train->images()), std::to_string(sets.test->images())});
  fmt::print("{}", table.to_string());
}

Status show(const ShowArguments& arguments, const WorkerConfig& config) {
  PHUB_ASSIGN_OR_RETURN(const TrainingImages images, open_training_images(config, false));
  const data::Images& set = arguments.test ? *images.sets.test : *images.sets.train;
  data::TrainingOptions options = training_order(images.options);
  options.start.used = arguments.epoch * images.sets.train->images();
  PHUB_RETURN_IF_ERROR(data::TrainingOrder::check(images.sets.train->images(), options));
  const data::TrainingOrder training(images.sets.train->images(), options);
  const data::EvaluationOrder evaluation(images.sets.test->images(), options.batch);
  const data::BatchOrder& order =
      arguments.test ? static_cast<const data::BatchOrder&>(evaluation) : training;
  data::Feeder feeder(set, order, {});
  const std::uint64_t in_sheet = std::uint64_t{arguments.columns} * arguments.rows;
  if (in_sheet * set.facts().image_bytes() > kSheetBytesMax) {
    return {Code::kInvalidArgument,
            fmt::format("--rows: {} images of {} bytes are more than {}; "
                        "lower --rows or --columns",
                        in_sheet, set.facts().image_bytes(), kSheetBytesMax)};
  }
  Sheet sheet(set.facts(), arguments.columns, arguments.rows);
  const std::uint64_t wanted =
      std::min<std::uint64_t>(std::uint64_t{arguments.columns} * arguments.rows, set.images());
  data::Batch batch;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const std::uint64_t slot = i % options.batch;
    if (slot == 0) PHUB_RETURN_IF_ERROR(feeder.load(i / options.batch, batch));
    const std::size_t elements = set.facts().image_bytes();
    sheet.draw(static_cast<std::uint32_t>(i),
               std::span(batch.numbers).subspan(slot * elements, elements));
  }
  PHUB_RETURN_IF_ERROR(sheet.write(arguments.out));
  print_classes(images.sets);
  fmt::print("\n{}: {} {} images, {} in a row\n", arguments.out, wanted,
             arguments.test ? "test" : "training", arguments.columns);
  return {};
}

}  // namespace

Command add_data_show_command(CLI::App& data) {
  const auto kept = std::make_shared<ShowArguments>();
  ShowArguments& arguments = *kept;
  CLI::App* show_app = data.add_subcommand("show", "Draw what a network sees, and count classes");
  show_app->footer(kShowExamples);
  show_app->add_option("CONFIG", arguments.run.config_path, "The training's configuration")
      ->required()
      ->type_name("");
  show_app->add_option("--out", arguments.out, "The picture, a PNG file")
      ->type_name("FILE")
      ->capture_default_str();
  show_app->add_option("--columns", arguments.columns, "Images in a row")
      ->type_name("N")
      ->check(CLI::Range(1U, 64U))
      ->capture_default_str();
  show_app->add_option("--rows", arguments.rows, "Rows of the picture")
      ->type_name("N")
      ->check(CLI::Range(1U, 64U))
      ->capture_default_str();
  show_app->add_option("--epoch", arguments.epoch, "Which epoch of the training, from 0")
      ->type_name("N")
      ->check(CLI::Range(0U, 1'000'000U))
      ->capture_default_str();
  show_app->add_flag("--test", arguments.test, "The test images in place of the training's");
  return {show_app, [kept] {
            kept->run.local = true;  // whom the configuration would train with does not matter
            const auto config = load_run(kept->run);
            if (!config) return fail(config.error(), kExitUsage);
            const Status status = show(*kept, *config);
            return status.ok() ? Ending() : fail(status);
          }};
}

}  // namespace phub
