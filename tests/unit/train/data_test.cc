#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/temporary_directory.h"
#include "worker/data/dataset.h"
#include "worker/data/loader.h"
#include "worker/data/random.h"

namespace phub::data {
namespace {

using Bytes = std::string;

void write_gzip(const std::filesystem::path& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  // gzwrite returns 0 for nothing to write, which is also right.
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

Bytes u32(std::uint32_t value) {
  Bytes bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

Bytes idx_images(std::uint32_t images, std::uint32_t side = 2) {
  Bytes bytes = u32(0x803) + u32(images) + u32(side) + u32(side);
  for (std::uint32_t i = 0; i < images * side * side; ++i) bytes += static_cast<char>(i);
  return bytes;
}

Bytes idx_labels(std::uint32_t labels) {
  Bytes bytes = u32(0x801) + u32(labels);
  for (std::uint32_t i = 0; i < labels; ++i) bytes += static_cast<char>(i % 3);
  return bytes;
}

void write_idx(const TemporaryDirectory& directory) {
  write_gzip(directory.path / "train-images-idx3-ubyte.gz", idx_images(6));
  write_gzip(directory.path / "train-labels-idx1-ubyte.gz", idx_labels(6));
  write_gzip(directory.path / "test-images-idx3-ubyte.gz", idx_images(4));
  write_gzip(directory.path / "test-labels-idx1-ubyte.gz", idx_labels(4));
}

TEST_CASE("IDX files are read, gzipped or not") {
  const TemporaryDirectory directory;
  write_idx(directory);
  if (GENERATE(false, true)) {
    std::filesystem::remove(directory.path / "test-images-idx3-ubyte.gz");
    directory.write("t10k-images-idx3-ubyte", idx_images(4));
  }
  const auto both = load_idx(directory.path);
  REQUIRE(both);
  REQUIRE(both->train.images() == 6);
  REQUIRE(both->test.images() == 4);
  REQUIRE(both->train.width == 2);
  REQUIRE(both->train.classes == 3);
  REQUIRE(both->train.pixels[23] == 23);
  REQUIRE(both->train.labels[5] == 2);
}

TEST_CASE("A damaged IDX file is refused by name, with the cure") {
  struct Case {
    std::string file, expected;
    Bytes bytes;
  };
  const Case broken = GENERATE(values<Case>({
      {"train-images-idx3-ubyte.gz", "magic number", u32(0x801) + u32(6)},
      {"train-images-idx3-ubyte.gz", "too early", idx_images(6).substr(0, 30)},
      {"train-images-idx3-ubyte.gz", "too early", "ab"},
      {"train-images-idx3-ubyte.gz", "too early", ""},
      {"train-images-idx3-ubyte.gz", "longer", idx_images(6) + "x"},
      {"train-images-idx3-ubyte.gz", "header", u32(0x803) + u32(~0U) + u32(4096) + u32(4096)},
      {"train-images-idx3-ubyte.gz", "header", u32(0x803) + u32(1) + u32(~0U) + u32(~0U)},
      {"train-images-idx3-ubyte.gz", "header", u32(0x803) + u32(0) + u32(28) + u32(28)},
      {"train-images-idx3-ubyte.gz", "header", u32(0x803) + u32(1000) + u32(28) + u32(28) + "x"},
      {"train-labels-idx1-ubyte.gz", "5 labels for 6 images", idx_labels(5)},
      {"test-labels-idx1-ubyte.gz", "magic number", idx_images(4)},
  }));
  const TemporaryDirectory directory;
  write_idx(directory);
  write_gzip(directory.path / broken.file, broken.bytes);
  const auto both = load_idx(directory.path);
  REQUIRE_FALSE(both);
  INFO(both.error().to_string());
  REQUIRE(both.error().code() == Code::kDataLoss);
  REQUIRE(both.error().message().find(broken.file) != std::string::npos);
  REQUIRE(both.error().message().find(broken.expected) != std::string::npos);
  REQUIRE(both.error().message().find("fetch the file again") != std::string::npos);
}

TEST_CASE("A gzip stream that is cut or has a wrong checksum is refused") {
  const TemporaryDirectory directory;
  write_idx(directory);
  const auto path = directory.path / "train-images-idx3-ubyte.gz";
  if (GENERATE(false, true)) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  } else {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-6, std::ios::end);
    file.put('\x5a');
  }
  const auto both = load_idx(directory.path);
  REQUIRE_FALSE(both);
  INFO(both.error().to_string());
  REQUIRE(both.error().message().find("train-images-idx3-ubyte.gz") != std::string::npos);
}

TEST_CASE("A missing data file is named") {
  const TemporaryDirectory directory;
  const auto idx = load_idx(directory.path);
  REQUIRE_FALSE(idx);
  REQUIRE(idx.error().code() == Code::kNotFound);
  REQUIRE(idx.error().message().find("train-images-idx3-ubyte.gz") != std::string::npos);
  const auto cifar = load_cifar10(directory.path);
  REQUIRE_FALSE(cifar);
  REQUIRE(cifar.error().message().find("data_batch_1.bin") != std::string::npos);
}

TEST_CASE("Training and test images of different sizes are refused") {
  const TemporaryDirectory directory;
  write_idx(directory);
  write_gzip(directory.path / "test-images-idx3-ubyte.gz", idx_images(4, 3));
  const auto both = load_idx(directory.path);
  REQUIRE_FALSE(both);
  REQUIRE(both.error().message().find("different sizes") != std::string::npos);
}

Bytes cifar_record(char label) {
  return Bytes(1, label) + Bytes(1024, 'r') + Bytes(1024, 'g') + Bytes(1024, 'b');
}

void write_cifar(const TemporaryDirectory& directory) {
  for (char i = 1; i <= 5; ++i) {
    directory.write("data_batch_" + std::to_string(i) + ".bin",
                    cifar_record(i) + cifar_record(static_cast<char>(i + 1)));
  }
  directory.write("test_batch.bin", cifar_record(9));
}

TEST_CASE("CIFAR-10's planes become pixels") {
  const TemporaryDirectory directory;
  write_cifar(directory);
  const auto both = load_cifar10(directory.path);
  REQUIRE(both);
  REQUIRE(both->train.images() == 10);
  REQUIRE(both->train.labels[9] == 6);
  REQUIRE(both->test.labels[0] == 9);
  REQUIRE(Bytes(both->train.pixels.begin(), both->train.pixels.begin() + 6) == "rgbrgb");
}

TEST_CASE("A damaged CIFAR-10 file is refused by name") {
  const TemporaryDirectory directory;
  write_cifar(directory);
  const Bytes bytes =
      GENERATE(values<Bytes>({Bytes(), cifar_record(1).substr(1), cifar_record(10)}));
  directory.write("data_batch_3.bin", bytes);
  const auto both = load_cifar10(directory.path);
  REQUIRE_FALSE(both);
  REQUIRE(both.error().code() == Code::kDataLoss);
  REQUIRE(both.error().message().find("data_batch_3.bin") != std::string::npos);
  const char* const reason = bytes.size() == 3073 ? "has label 10" : "multiple of 3073";
  REQUIRE(both.error().message().find(reason) != std::string::npos);
}

Dataset numbered(std::uint32_t images) {
  auto both = make_synthetic({.channels = 1, .height = 5, .width = 5, .images = images});
  REQUIRE(both);
  return std::move(both->train);
}

std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options) {
  auto loader = Loader::create(dataset, options);
  REQUIRE(loader);
  return std::move(*loader);
}

TEST_CASE("N workers with batch B see in each step what one worker with batch N * B sees") {
  const std::uint32_t workers = GENERATE(1U, 2U, 3U, 8U);
  constexpr std::uint32_t kBatch = 4;
  const Dataset dataset = numbered(103);
  const LoaderOptions alone{.batch = kBatch * workers, .seed = 5, .shift_pixels = 2, .flip = true};
  const auto one = make_loader(dataset, alone);
  std::vector<std::unique_ptr<Loader>> many;
  for (std::uint32_t i = 0; i < workers; ++i) {
    LoaderOptions options = alone;
    options.batch = kBatch;
    options.workers = workers;
    options.worker_index = i;
    many.push_back(make_loader(dataset, options));
    REQUIRE(many[i]->steps_per_epoch() == one->steps_per_epoch());
  }
  for (const std::uint64_t epoch : {0U, 1U, 0U, 7U}) {
    for (std::uint64_t step = 0; step < one->steps_per_epoch(); ++step) {
      Batch whole;
      one->load(epoch, step, whole);
      Batch joined;
      for (const auto& loader : many) {
        Batch part;
        loader->load(epoch, step, part);
        joined.images.insert(joined.images.end(), part.images.begin(), part.images.end());
        joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
      }
      REQUIRE(joined.labels == whole.labels);
      REQUIRE(joined.images == whole.images);
    }
  }
}

TEST_CASE("An epoch visits no image twice, and epochs differ") {
  const Dataset dataset = numbered(50);
  const auto loader = make_loader(dataset, {.batch = 7});
  std::vector<std::vector<std::uint32_t>> orders;
  for (const std::uint64_t epoch : {0U, 1U}) {
    std::vector<std::uint32_t> order;
    for (std::uint64_t step = 0; step < loader->steps_per_epoch(); ++step) {
      const auto samples = loader->samples(epoch, step);
      order.insert(order.end(), samples.begin(), samples.end());
    }
    REQUIRE(order.size() == 49);
    REQUIRE(std::set(order.begin(), order.end()).size() == 49);
    orders.push_back(order);
  }
  REQUIRE(orders[0] != orders[1]);
  REQUIRE(make_loader(dataset, {.batch = 7, .seed = 2})->samples(0, 0)[0] +
              make_loader(dataset, {.batch = 7, .seed = 2})->samples(0, 0)[1] * 100U !=
          orders[0][0] + orders[0][1] * 100U);
}

TEST_CASE("A batch that the data set cannot fill is refused with the figures") {
  const Dataset dataset = numbered(10);
  const auto loader = Loader::create(dataset, {.batch = 4, .workers = 3});
  REQUIRE_FALSE(loader);
  REQUIRE(loader.error().message().find("12 images") != std::string::npos);
  REQUIRE(loader.error().message().find("has 10") != std::string::npos);
}

// One image of 3 x 3 pixels 1 .. 9, whose normalisation is pixel / 255.
Dataset small_image() {
  Dataset dataset{.channels = 1, .height = 3, .width = 3, .classes = 1};
  dataset.pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  dataset.labels = {0};
  dataset.mean = {0.0F};
  dataset.deviation = {1.0F};
  return dataset;
}

TEST_CASE("Augmentation shifts with black margins, flips, and reaches every variant") {
  const Dataset dataset = small_image();
  const auto loader = make_loader(dataset, {.batch = 1, .shift_pixels = 1, .flip = true});
  std::set<std::vector<int>> seen;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    Batch batch;
    loader->load(epoch, 0, batch);
    std::vector<int> pixels;
    for (const float value : batch.images)
      pixels.push_back(static_cast<int>(std::lround(value * 255.0F)));
    seen.insert(pixels);
  }
  REQUIRE(seen.size() == 18);  // 3 x 3 shifts, flipped or not
  REQUIRE(seen.count({1, 2, 3, 4, 5, 6, 7, 8, 9}) == 1);
  REQUIRE(seen.count({3, 2, 1, 6, 5, 4, 9, 8, 7}) == 1);
  REQUIRE(seen.count({0, 0, 0, 0, 1, 2, 0, 4, 5}) == 1);
  REQUIRE(seen.count({5, 6, 0, 8, 9, 0, 0, 0, 0}) == 1);
}

TEST_CASE("Images are normalised channel by channel and evaluated in order") {
  Dataset dataset{.channels = 2, .height = 1, .width = 1, .classes = 2};
  dataset.pixels = {255, 0, 0, 255};
  dataset.labels = {0, 1};
  dataset.mean = {0.5F, 0.25F};
  dataset.deviation = {0.5F, 0.125F};
  Batch batch;
  batch.labels.resize(3);
  load_in_order(dataset, 0, batch);
  REQUIRE(batch.images == std::vector<float>{1.0F, -2.0F, -1.0F, 6.0F, -1.0F, 6.0F});
  REQUIRE(batch.labels == std::vector<std::uint16_t>{0, 1, 1});
}

TEST_CASE("Synthetic images are reproducible, labelled evenly, and differ") {
  const auto first = make_synthetic({.images = 40, .seed = 3});
  const auto second = make_synthetic({.images = 40, .seed = 3});
  const auto other = make_synthetic({.images = 40, .seed = 4});
  REQUIRE(first);
  REQUIRE(first->train.pixels == second->train.pixels);
  REQUIRE(first->train.pixels != other->train.pixels);
  REQUIRE(first->train.images() == 40);
  REQUIRE(first->test.images() == 10);
  REQUIRE(first->train.labels[13] == 3);
  REQUIRE_FALSE(make_synthetic({.images = 0}));
}

TEST_CASE("Counter-based random numbers depend on every part of their key, and are even") {
  const auto first = [](std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint64_t b) {
    return CounterRandom(seed, purpose, a, b).next();
  };
  const std::set<std::uint64_t> distinct = {
      first(1, Purpose::kPermutation, 0, 0), first(2, Purpose::kPermutation, 0, 0),
      first(1, Purpose::kAugmentation, 0, 0), first(1, Purpose::kPermutation, 1, 0),
      first(1, Purpose::kPermutation, 0, 1)};
  REQUIRE(distinct.size() == 5);
  std::vector<int> counts(10);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    ++counts[CounterRandom(1, Purpose::kAugmentation, 0, i).below(10)];
  }
  for (const int count : counts) REQUIRE(std::abs(count - 1000) < 150);  // 5 deviations
}

}  // namespace
}  // namespace phub::data
