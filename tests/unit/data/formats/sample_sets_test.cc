#include <random>

#include "tests/unit/data/formats/example_bytes.h"
#include "tests/unit/data/formats/sample_files.h"
#include "tests/unit/data/formats/tar_bytes.h"
#include "worker/data/formats/detect/detect.h"
#include "worker/data/formats/packed/pack.h"
#include "worker/data/formats/packed/packed_set.h"
#include "worker/data/formats/shards/shard_files.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

// No two are the same. The largest label is there.
std::vector<Sample> random_samples(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Sample> samples;
  const std::size_t count = 1 + random() % 40;
  for (std::size_t i = 0; i < count; ++i) {
    std::string content = std::to_string(i) + ' ';
    for (std::size_t n = random() % 3000; n > 0; --n) content += static_cast<char>(random());
    samples.push_back({static_cast<std::uint16_t>(i == 0 ? 6 : random() % 7),
                       random() % 2 == 0 ? jpeg(content) : png(content)});
  }
  return samples;
}

std::string ending_of(const Sample& sample) {
  return sample.bytes.starts_with('\xFF') ? ".jpg" : ".png";
}

void write_folder(const fs::path& path, const std::vector<Sample>& samples) {
  for (int label = 0; label < 7; ++label) {
    fs::create_directories(path / "train" / std::to_string(label));
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    write_file(path / "train" / std::to_string(samples[i].label) /
                   (std::to_string(i) + ending_of(samples[i])),
               samples[i].bytes);
  }
}

// Three shards, of which some may have no samples.
void write_tars(const fs::path& path, const std::vector<Sample>& samples) {
  std::string shards[3];
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::string key = std::to_string(i);
    shards[i % 3] += tar_member(key + ".cls", std::to_string(samples[i].label)) +
                     tar_member(key + ending_of(samples[i]), samples[i].bytes);
  }
  for (int i = 0; i < 3; ++i) {
    write_file(path / ("train-" + std::to_string(i) + ".tar"), shards[i] + tar_end());
  }
}

void write_records(const fs::path& path, const std::vector<Sample>& samples) {
  std::string shards[2];
  for (std::size_t i = 0; i < samples.size(); ++i) {
    shards[i % 2] += tf_record(image_example(samples[i].bytes, samples[i].label));
  }
  for (int i = 0; i < 2; ++i) {
    write_file(path / ("train-" + std::to_string(i) + ".tfrecord"), shards[i]);
  }
}

std::vector<Sample> sorted(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end());
  return samples;
}

TEST_CASE("The same samples come out of every format, and out of its pack in the same order") {
  const unsigned seed = GENERATE(range(1U, 9U));
  const std::vector<Sample> samples = random_samples(seed);
  const TemporaryDirectory directory;
  write_folder(directory.path / "folder", samples);
  write_tars(directory.path / "webdataset", samples);
  write_records(directory.path / "tfrecord", samples);
  for (const std::string format : {"folder", "webdataset", "tfrecord"}) {
    INFO(format << ", seed " << seed);
    const fs::path path = directory.path / format;
    REQUIRE(detect(path, Split::kTrain).has_value());
    CHECK(name_of(*detect(path, Split::kTrain)) == format);
    const auto set = open_sample_set(path, Split::kTrain);
    INFO(set.error().message());
    REQUIRE(set.has_value());
    const std::vector<Sample> read = samples_of(**set);
    CHECK(sorted(read) == sorted(samples));
    CHECK((*set)->classes().size() == 7);

    const auto report = pack(**set, directory.path / (format + ".phub"));
    INFO(report.error().message());
    REQUIRE(report.has_value());
    CHECK(report->samples == samples.size());
    const auto packed = open_sample_set(directory.path / (format + ".phub"), Split::kTrain);
    REQUIRE(packed.has_value());
    CHECK(samples_of(**packed) == read);
    CHECK((*packed)->classes() == (*set)->classes());
    CHECK_THAT((*packed)->name(0), Catch::Contains((*set)->name(0)));
  }
}

TEST_CASE("An index takes at most 32 bytes a sample, names apart") {
  std::vector<Sample> samples;
  for (int i = 0; i < 3000; ++i) samples.push_back({6, jpeg(std::to_string(i))});
  const TemporaryDirectory directory;
  write_tars(directory.path / "w", samples);
  const auto set = open_sample_set(directory.path / "w", Split::kTrain);
  CHECK((*set)->index_bytes() < 3000 * 17);
  REQUIRE(pack(**set, directory.path / "p.phub").has_value());
  CHECK((*open_packed(directory.path / "p.phub", Split::kTrain))->index_bytes() < 3000 * 25);
}

TEST_CASE("Packing stops when it is told to, and goes on there") {
  const std::vector<Sample> samples = random_samples(3);
  const TemporaryDirectory directory;
  write_tars(directory.path / "w", samples);
  const fs::path path = directory.path / "train.phub";
  const auto set = open_sample_set(directory.path / "w", Split::kTrain);
  std::uint64_t last = 0;
  const auto stopped = pack(**set, path, {}, [&](const Progress& progress) {
    last = progress.samples;
    CHECK(progress.of == samples.size());
    return progress.samples == 0;
  });
  CHECK(stopped.error().code() == Code::kAborted);
  CHECK(last == samples.size());
  CHECK_FALSE(fs::exists(path));
  const auto report = pack(**set, path);
  REQUIRE(report.has_value());
  CHECK(report->kept == samples.size());
  CHECK(report->bytes == 0);
  CHECK(samples_of(**open_packed(path, Split::kTrain)) == samples_of(**set));
}

TEST_CASE("Packing stops at a sample that cannot be read, and names it") {
  const TemporaryDirectory directory;
  write_folder(directory.path, random_samples(4));
  const auto set = open_sample_set(directory.path, Split::kTrain);
  const std::string last = (*set)->name((*set)->samples() - 1);
  fs::resize_file(last, 0);
  const auto report = pack(**set, directory.path / "train.phub");
  CHECK(report.error().code() == Code::kDataLoss);
  CHECK_THAT(report.error().message(), Catch::Contains(last));
  CHECK_FALSE(fs::exists(directory.path / "train.phub"));
}

TEST_CASE("Checking counts by class and names what is damaged") {
  const TemporaryDirectory directory;
  write_file(directory.path / "train/a/1.jpg", jpeg("1"));
  write_file(directory.path / "train/a/2.jpg", "GIF89a");
  write_file(directory.path / "train/b/3.png", "");
  write_file(directory.path / "train/b/4.png", png("4"));
  fs::create_directories(directory.path / "train/c");
  const auto report = check(directory.path, Split::kTrain);
  REQUIRE(report.has_value());
  CHECK(report->samples == 4);
  CHECK(report->by_class == std::vector<std::uint64_t>{2, 2, 0});
  CHECK(report->bytes == 4 + 6 + 9);
  CHECK(report->damaged == 2);
  REQUIRE(report->damages.size() == 2);
  CHECK_THAT(report->damages[0], Catch::Contains("a/2.jpg: it begins neither as JPEG nor as PNG"));
  CHECK_THAT(report->damages[1], Catch::Contains("b/3.png"));
  const auto stopped = check(directory.path, Split::kTrain, [](const Progress&) { return false; });
  CHECK(stopped.error().code() == Code::kAborted);
}

TEST_CASE("Checking names the first hundred damaged samples and counts all") {
  const TemporaryDirectory directory;
  for (int i = 0; i < 120; ++i) {
    write_file(directory.path / "train/a" / (std::to_string(i) + ".jpg"), "text");
  }
  const auto report = check(directory.path, Split::kTrain);
  CHECK(report->damaged == 120);
  CHECK(report->damages.size() == kMaxDamages);
}

TEST_CASE("A path with no format or with two is refused by name") {
  const TemporaryDirectory directory;
  CHECK_THAT(open_sample_set(directory.path / "absent", Split::kTrain).error().message(),
             Catch::Contains("does not exist"));
  CHECK_THAT(open_sample_set(directory.path, Split::kTrain).error().message(),
             Catch::Contains("has no train.phub, train-*.tar"));
  write_folder(directory.path, random_samples(1));
  write_tars(directory.path, random_samples(1));
  CHECK_THAT(open_sample_set(directory.path, Split::kTrain).error().message(),
             Catch::Contains("two formats, webdataset and folder"));
  CHECK_THAT(open_sample_set(directory.path, Split::kTest).error().message(),
             Catch::Contains("test"));
}

TEST_CASE("A set may be read by several threads at once") {
  const std::vector<Sample> samples = random_samples(7);
  const TemporaryDirectory directory;
  write_records(directory.path, samples);
  const auto set = open_sample_set(directory.path, Split::kTrain);
  const std::vector<Sample> alone = samples_of(**set);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<std::uint8_t> buffer;
      bool is_right = true;
      for (std::uint64_t n = 0; n < alone.size(); ++n) {
        const auto bytes = (*set)->read(n, buffer);
        is_right = is_right && bytes && std::string(bytes->begin(), bytes->end()) == alone[n].bytes;
      }
      right += is_right ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 4);
}

}  // namespace
}  // namespace phub::data
