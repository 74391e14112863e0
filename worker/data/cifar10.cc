// CIFAR-10's binary version: records of a label byte and 3072 pixel bytes, plane by plane.
#include <array>
#include <string>

#include "worker/data/dataset.h"
#include "worker/data/gzip_file.h"

namespace phub::data {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kChannels = 3;
constexpr std::size_t kRecord = 1 + kChannels * kPlane;
constexpr std::uint8_t kClasses = 10;

Dataset empty() {
  Dataset dataset;
  dataset.channels = kChannels;
  dataset.height = kSide;
  dataset.width = kSide;
  dataset.classes = kClasses;
  // The training set's own figures.
  dataset.mean = {0.4914F, 0.4822F, 0.4465F};
  dataset.deviation = {0.2470F, 0.2435F, 0.2616F};
  return dataset;
}

void append(const std::array<std::uint8_t, kRecord>& record, Dataset& dataset) {
  dataset.labels.push_back(record[0]);
  for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      dataset.pixels.push_back(record[1 + channel * kPlane + pixel]);
    }
  }
}

Status append_file(const std::filesystem::path& path, Dataset& dataset) {
  PHUB_ASSIGN_OR_RETURN(const auto file, GzipFile::open(path));
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes == 0 || bytes % kRecord != 0) {
    return file->damaged("its size is not a multiple of 3073 bytes (use the binary version)");
  }
  std::array<std::uint8_t, kRecord> record{};
  for (std::uintmax_t i = 0; i < bytes / kRecord; ++i) {
    PHUB_RETURN_IF_ERROR(file->read(record));
    if (record[0] >= kClasses) {
      return file->damaged("image " + std::to_string(i) + " has label " +
                           std::to_string(record[0]));
    }
    append(record, dataset);
  }
  return file->expect_end();
}

}  // namespace

Result<Datasets> load_cifar10(const std::filesystem::path& directory) {
  constexpr int kTrainFiles = 5;
  Datasets both{empty(), empty()};
  for (int i = 1; i <= kTrainFiles; ++i) {
    const std::string name = "data_batch_" + std::to_string(i) + ".bin";
    PHUB_RETURN_IF_ERROR(append_file(directory / name, both.train));
  }
  PHUB_RETURN_IF_ERROR(append_file(directory / "test_batch.bin", both.test));
  return both;
}

}  // namespace phub::data
