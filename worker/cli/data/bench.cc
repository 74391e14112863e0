#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/affinity.h"
#include "common/text/table.h"
#include "worker/cli/data/data.h"
#include "worker/cli/data/training_images.h"
#include "worker/data/feed/feeder.h"
#include "worker/data/images/decoder.h"
#include "worker/train/session_data.h"

namespace phub {
namespace {

struct DataBenchArguments {
  RunArguments run;
  double seconds = 1.0;
  std::vector<std::uint32_t> threads;  // empty: 1, and all CPUs
  bool json = false;
};

constexpr const char* kDataBenchExamples = R"(
Examples:
  How fast one thread and all CPUs make batches, and where the time goes:
    phub-worker data bench train.textproto
  With four threads alone, three seconds a row, as JSON:
    phub-worker data bench train.textproto --threads 4 --seconds 3 --json

Rows, in images a second:
  read        a sample's bytes, compared with their checksum where the format has one; from
              data.cache.path if a copy is there
  decode      reads, and decodes the whole image
  view        reads, decodes the part that training shows, resizes it and changes colours; with
              data.cache.memory_mib each image is decoded once, and then only cut and resized
  batch       the same, then moves, mixes (data.mixup) and normalises
  N threads   batches as training gets them
With data.cache the first rows fill the cache, so run it twice. The cache takes only memory that is
free, and holds it until the end. data.spread is left out.
Input is the bound of a training whose images/s reach the last row's: give it more data.threads,
smaller images, or format "packed".

Exit status: 0, 1 failed, 2 wrong usage or configuration.)";

struct Rate {
  std::string stage;
  double images = 0.0;  // a second
  double bytes = 0.0;   // of encoded images, a second
};

using Clock = std::chrono::steady_clock;

// Calls `work` with 0, 1, ... until the seconds are over; it returns the images of a call.
Result<double> images_per_second(double seconds,
                                 const std::function<Result<std::uint64_t>(std::uint64_t)>& work) {
  PHUB_ASSIGN_OR_RETURN(std::uint64_t images, work(0));  // not counted: it makes room
  images = 0;
  const auto start = Clock::now();
  double elapsed = 0.0;
  for (std::uint64_t i = 1; elapsed < seconds; ++i) {
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t made, work(i));
    images += made;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(images) / elapsed;
}

class Bench {
 public:
  Bench(const DataBenchArguments& arguments, const TrainingImages& images)
      : arguments_(arguments),
        images_(images),
        order_(images.sets.train->images(), training_order(images.options)) {}

  Result<std::vector<Rate>> run() {
    if (is_encoded(images_.options.data.format)) {
      PHUB_ASSIGN_OR_RETURN(set_, train::open_encoded_set(images_.options, data::Split::kTrain));
      PHUB_RETURN_IF_ERROR(read());
      PHUB_RETURN_IF_ERROR(decode());
    }
    PHUB_RETURN_IF_ERROR(view());
    PHUB_RETURN_IF_ERROR(feed("batch", 0));
    for (const std::uint32_t threads : arguments_.threads) {
      PHUB_RETURN_IF_ERROR(
          feed(std::to_string(threads) + (threads == 1 ? " thread" : " threads"), threads));
    }
    return rates_;
  }

 private:
  // In the training's order, so that reading has its pattern.
  data::Shown shown(std::uint64_t i) const {
    return order_.shown(i / order_.batch(), static_cast<std::uint32_t>(i % order_.batch()));
  }

  Status add(const std::string& stage,
             const std::function<Result<std::uint64_t>(std::uint64_t)>& work) {
    PHUB_ASSIGN_OR_RETURN(const double images, images_per_second(arguments_.seconds, work));
    rates_.push_back({stage, images, images * mean_bytes_});
    return {};
  }

  Status read() {
    std::uint64_t bytes = 0, images = 0;
    std::vector<std::uint8_t> buffer;
    PHUB_RETURN_IF_ERROR(add("read", [&](std::uint64_t i) -> Result<std::uint64_t> {
      const auto file = set_->read(shown(i).image, buffer);
      if (!file) return std::uint64_t{0};  // the rows below name it
      bytes += file->size();
      ++images;
      return std::uint64_t{1};
    }));
    mean_bytes_ =
        static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(1, images));
    rates_.back().bytes = rates_.back().images * mean_bytes_;
    return {};
  }

  Status decode() {
    data::Decoder decoder;
    std::vector<std::uint8_t> buffer, pixels;
    const std::uint32_t channels = images_.sets.train->facts().channels;
    return add("decode", [&](std::uint64_t i) -> Result<std::uint64_t> {
      const std::uint64_t image = shown(i).image;
      const auto file = set_->read(image, buffer);
      if (!file) return std::uint64_t{0};
      const auto size = decoder.measure(*file);
      if (!size) return std::uint64_t{0};
      pixels.resize(size->pixels() * channels);
      const data::Window whole{0, 0, static_cast<double>(size->width),
                               static_cast<double>(size->height)};
      const Status decoded = decoder.decode(*file, whole, channels, *size, pixels);
      return std::uint64_t{decoded.ok() ? 1U : 0U};
    });
  }

  Status view() {
    const auto reader = images_.sets.train->reader();
    return add("view", [&](std::uint64_t i) -> Result<std::uint64_t> {
      data::Shown one = shown(i);
      const auto image = reader->read(one.image, &*one.view);
      if (!image) return image.error();
      return std::uint64_t{1};
    });
  }

  Status feed(const std::string& stage, std::uint32_t threads) {
    data::Feeder feeder(*images_.sets.train, order_,
                        {.threads = threads, .ahead = images_.options.data.feed.ahead});
    data::Batch batch;
    return add(stage, [&](std::uint64_t i) -> Result<std::uint64_t> {
      PHUB_RETURN_IF_ERROR(feeder.load(i, batch));
      return std::uint64_t{order_.batch()};
    });
  }

  const DataBenchArguments& arguments_;
  const TrainingImages& images_;
  data::TrainingOrder order_;
  std::unique_ptr<data::SampleSet> set_;
  double mean_bytes_ = 0.0;  // of an encoded image
  std::vector<Rate> rates_;
};

void print(const std::vector<Rate>& rates, bool json) {
  Table table("STAGE|>IMAGES/S|>MB/S|>US/IMAGE");
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Rate& rate : rates) {
    const double megabytes = rate.bytes / 1e6;
    table.add({rate.stage, fmt::format("{:.0f}", rate.images),
               rate.bytes > 0 ? fmt::format("{:.1f}", megabytes) : "-",
               rate.images > 0 ? fmt::format("{:.1f}", 1e6 / rate.images) : "-"});
    all.push_back({{"stage", rate.stage},
                   {"images_per_second", rate.images},
                   {"bytes_per_second", rate.bytes}});
  }
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"stages", all}}.dump());
  } else {
    fmt::print("{}", table.to_string());
  }
}

Status bench(const DataBenchArguments& arguments, const WorkerConfig& config) {
  PHUB_ASSIGN_OR_RETURN(const TrainingImages images, open_training_images(config, true));
  PHUB_RETURN_IF_ERROR(
      data::TrainingOrder::check(images.sets.train->images(), training_order(images.options)));
  Bench bench(arguments, images);
  PHUB_ASSIGN_OR_RETURN(const std::vector<Rate> rates, bench.run());
  print(rates, arguments.json);
  return {};
}

Ending bench_command(DataBenchArguments arguments) {
  arguments.run.local = true;  // whom the configuration would train with does not matter
  if (!std::isfinite(arguments.seconds)) {
    return fail({Code::kInvalidArgument, "--seconds: is not a number"}, kExitUsage);
  }
  if (arguments.threads.empty()) {
    arguments.threads = {1};
    if (usable_cpu_count() > 1) arguments.threads.push_back(usable_cpu_count());
  }
  const auto config = load_run(arguments.run);
  if (!config) return fail(config.error(), kExitUsage);
  const Status status = bench(arguments, *config);
  return status.ok() ? Ending() : fail(status);
}

}  // namespace

Command add_data_bench_command(CLI::App& data) {
  const auto kept = std::make_shared<DataBenchArguments>();
  DataBenchArguments& arguments = *kept;
  CLI::App* bench_app = data.add_subcommand("bench", "How fast images become batches, by stage");
  bench_app->footer(kDataBenchExamples);
  bench_app->add_option("CONFIG", arguments.run.config_path, "The training's configuration")
      ->required()
      ->type_name("");
  bench_app->add_option("--threads", arguments.threads, "Left out: 1, and all CPUs")
      ->type_name("N")
      ->delimiter(',')
      ->check(CLI::Range(1U, 256U));
  bench_app->add_option("--seconds", arguments.seconds, "For each row")
      ->type_name("S")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  bench_app->add_flag("--json", arguments.json, "One JSON object instead of a table");
  return {bench_app, [kept] { return bench_command(*kept); }};
}

}  // namespace phub
