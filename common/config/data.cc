#include "common/config/data.h"

#include <cmath>

#include "common/config/data_format.h"
#include "common/text/url.h"
#include "common/text/url_list.h"

namespace phub {
namespace {

constexpr std::uint32_t kShiftMax = 64;
constexpr std::uint32_t kFeedThreadsMax = 256;
constexpr std::uint32_t kBatchesAheadMax = 64;
constexpr float kStretchMax = 16.0F;
constexpr std::uint64_t kCacheMibMax = 1ULL << 30U;
constexpr std::uint32_t kDecodedSideMax = 1U << 14U;
constexpr std::uint32_t kProgressiveSideMin = 8, kProgressiveSideMax = 1U << 14U;
constexpr std::uint32_t kEpochsMax = 1U << 30U;
constexpr float kMixupMax = 4.0F;  // a draw takes 70 tries there

void check_share(ConfigCheck& check, std::string_view field, float value, float high) {
  check.require(value > 0.0F && value <= high, field,
                fmt::format("{} is not above 0 and at most {}", value, high));
}

// What is only for formats of encoded images.
void check_encoded(const DataConfig& data, ConfigCheck& check) {
  const auto format = kDataFormatWords.parse(data.format());
  const bool encoded = format && is_encoded(*format);
  for (const char* const field :
       {"crop", "jitter", "mean", "deviation", "damaged_max", "cache", "spread", "progressive"}) {
    check.unused_unless(encoded, field, "unless format is one of encoded images");
  }
  ConfigCheck crop = check.nested("crop", data.crop());
  check_share(crop, "min_area", data.crop().min_area(), 1.0F);
  check_share(crop, "test", data.crop().test(), 1.0F);
  crop.in_range("stretch", data.crop().stretch(), 1.0F, kStretchMax);
  ConfigCheck jitter = check.nested("jitter", data.jitter());
  jitter.in_range("brightness", data.jitter().brightness(), 0.0F, 1.0F);
  jitter.in_range("contrast", data.jitter().contrast(), 0.0F, 1.0F);
  jitter.in_range("saturation", data.jitter().saturation(), 0.0F, 1.0F);
  check.require(data.mean_size() == data.deviation_size(), "deviation",
                fmt::format("has {} numbers, and mean has {}: give one for each channel",
                            data.deviation_size(), data.mean_size()));
  for (int i = 0; i < data.mean_size(); ++i) {
    check.require(std::isfinite(data.mean(i)), "mean", "is not a number", i);
  }
  for (int i = 0; i < data.deviation_size(); ++i) {
    check.require(data.deviation(i) > 0.0F && std::isfinite(data.deviation(i)), "deviation",
                  fmt::format("{} is not above 0", data.deviation(i)), i);
  }
}

void check_cache(const CacheConfig& cache, ConfigCheck check) {
  check.require(!cache.path().empty() || cache.memory_mib() > 0, "path",
                "is missing, and memory_mib is 0: give one of them");
  check.unused_unless(!cache.path().empty(), "disk_mib", "without path");
  check.in_range("disk_mib", cache.disk_mib(), std::uint64_t{1}, kCacheMibMax);
  check.in_range("memory_mib", cache.memory_mib(), std::uint64_t{0}, kCacheMibMax);
  check.unused_unless(cache.memory_mib() > 0, "decoded_side", "without memory_mib");
  check.in_range("decoded_side", cache.decoded_side(), 0U, kDecodedSideMax);
}

// A URL is of a packed set, or of shards. Messages do not have it: it may have a password.
void check_url(const DataConfig& data, ConfigCheck& check) {
  const std::string scheme = url_scheme(data.path());
  if (scheme.empty()) return;
  check.require(
      is_web_url(data.path()), "path",
      fmt::format("is a URL of scheme \"{}\"; give one of http or https, or a directory", scheme));
  const auto format = kDataFormatWords.parse(data.format());
  const bool has_shards = format == DataFormat::kWebDataset || format == DataFormat::kTfRecord;
  check.require(
      has_shards || format == DataFormat::kPacked, "path",
      fmt::format("is a URL, and format \"{}\" is read from files on this machine; pack the "
                  "set (phub-worker data pack), serve that, and set format: \"packed\"",
                  data.format()));
  if (!has_shards) return;
  const auto urls = expand_urls(data.path());
  check.require(urls.has_value(), "path", urls.error().message());
}

void check_spread(const DataConfig& data, ConfigCheck& check) {
  if (!data.has_spread()) return;
  ConfigCheck spread = check.nested("spread", data.spread());
  spread.require(data.spread().memory_mib() > 0, "memory_mib",
                 "0 holds no sample: give what this worker may have for its part of the set");
  if (!data.spread().address().empty()) spread.address("address", data.spread().address(), 0);
  spread.require(
      data.cache().memory_mib() == 0, "memory_mib",
      "does not go with data.cache.memory_mib: workers give each other encoded images only; "
      "remove one of them");
}

}  // namespace

void check_data(const DataConfig& data, ConfigCheck check) {
  check.one_of("format", data.format(), std::span<const std::string_view>(kDataFormatWords.words));
  const bool is_synthetic = data.format() == "synthetic";
  check.require(
      is_synthetic || !data.path().empty(), "path",
      fmt::format("is missing: format \"{}\" needs the directory of the files", data.format()));
  check.unused_unless(!is_synthetic, "path", "with format \"synthetic\"");
  if (!is_synthetic) check_url(data, check);
  check.in_range("shift_pixels", data.shift_pixels(), 0U, kShiftMax);
  check.require(!data.flip() || (data.format() != "idx" && !is_synthetic), "flip",
                fmt::format("is not for format \"{}\", whose images have a direction; remove it",
                            data.format()));
  check.in_range("mixup", data.mixup(), 0.0F, kMixupMax);
  check.unused_unless(is_synthetic, "synthetic_images", "unless format is \"synthetic\"");
  check.require(data.synthetic_images() > 0, "synthetic_images", "0 images teach nothing");
  check.in_range("threads", data.threads(), 0U, kFeedThreadsMax);
  check.in_range("batches_ahead", data.batches_ahead(), 0U, kBatchesAheadMax);
  check.unused_unless(data.batches_ahead() > 0, "threads", "with batches_ahead 0");
  check_encoded(data, check);
  if (data.has_cache()) check_cache(data.cache(), check.nested("cache", data.cache()));
  check_spread(data, check);
}

void check_progressive(const WorkerConfig& config, ConfigCheck check) {
  const auto& stages = config.data().progressive();
  std::uint32_t side = kProgressiveSideMin - 1;
  std::uint32_t until = 0;
  for (int i = 0; i < stages.size(); ++i) {
    ConfigCheck stage = check.nested("progressive", stages[i], i);
    stage.in_range("side", stages[i].side(), side + 1, kProgressiveSideMax);
    stage.in_range("until_epoch", stages[i].until_epoch(), until + 1, kEpochsMax);
    stage.require(stages[i].until_epoch() < config.train().epochs(), "until_epoch",
                  fmt::format("{} leaves none of the {} epochs (train.epochs) to images of the "
                              "network's size: lower it",
                              stages[i].until_epoch(), config.train().epochs()));
    side = stages[i].side();
    until = stages[i].until_epoch();
  }
}

void check_pairs(const WorkerConfig& config, ConfigCheck check) {
  const std::uint32_t batch = config.train().batch();
  check.require(config.data().mixup() == 0.0F || batch % 2 == 0, "batch",
                fmt::format("{} images are not pairs, which data.mixup ({}) mixes: choose an even "
                            "number, or remove mixup",
                            batch, config.data().mixup()));
}

}  // namespace phub
