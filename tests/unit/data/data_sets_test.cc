#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "common/samples/random.h"
#include "tests/support/temporary_directory.h"
#include "worker/data/dataset.h"

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
  REQUIRE(both->train.facts.width == 2);
  REQUIRE(both->train.facts.classes == 3);
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
