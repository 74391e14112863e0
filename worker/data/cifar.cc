// CIFAR's binary versions: records of label bytes and 3072 pixel bytes, plane by plane.
#include <string>

#include "worker/data/dataset.h"
#include "worker/data/gzip_file.h"

namespace phub::data {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kChannels = 3;

// How a version's records look.
struct Version {
  std::size_t label_bytes;  // the last of them is the label
  std::uint32_t classes;
  std::vector<float> mean, deviation;  // the training set's own figures

  std::size_t record() const { return label_bytes + kChannels * kPlane; }
};

Version version_10() { return {1, 10, {0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}; }

// Each record has one of 20 coarse labels before the fine one.
Version version_100() { return {2, 100, {0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}}; }

void append(std::span<const std::uint8_t> planes, Dataset& dataset) {
  for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      dataset.pixels.push_back(planes[channel * kPlane + pixel]);
    }
  }
}

Status append_file(const std::filesystem::path& path, const Version& version, Dataset& dataset) {
  PHUB_ASSIGN_OR_RETURN(const auto file, GzipFile::open(path));
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes == 0 || bytes % version.record() != 0) {
    return file->damaged("its size is not a multiple of " + std::to_string(version.record()) +
                         " bytes (use the binary version)");
  }
  std::vector<std::uint8_t> record(version.record());
  for (std::uintmax_t i = 0; i < bytes / version.record(); ++i) {
    PHUB_RETURN_IF_ERROR(file->read(record));
    const std::uint8_t label = record[version.label_bytes - 1];
    if (label >= version.classes) {
      return file->damaged("image " + std::to_string(i) + " has label " + std::to_string(label));
    }
    dataset.labels.push_back(label);
    append(std::span(record).subspan(version.label_bytes), dataset);
  }
  return file->expect_end();
}

Result<Dataset> load(const std::filesystem::path& directory, const std::vector<std::string>& files,
                     const Version& version) {
  Dataset dataset{.facts = {.channels = kChannels,
                            .height = kSide,
                            .width = kSide,
                            .classes = version.classes,
                            .mean = version.mean,
                            .deviation = version.deviation}};
  for (const std::string& file : files) {
    PHUB_RETURN_IF_ERROR(append_file(directory / file, version, dataset));
  }
  return dataset;
}

Result<Datasets> load_both(const std::filesystem::path& directory,
                           const std::vector<std::string>& train, const std::string& test,
                           const Version& version) {
  Datasets both;
  PHUB_ASSIGN_OR_RETURN(both.train, load(directory, train, version));
  PHUB_ASSIGN_OR_RETURN(both.test, load(directory, {test}, version));
  return both;
}

}  // namespace

Result<Datasets> load_cifar10(const std::filesystem::path& directory) {
  constexpr int kTrainFiles = 5;
  std::vector<std::string> train;
  for (int i = 1; i <= kTrainFiles; ++i) {
    train.push_back("data_batch_" + std::to_string(i) + ".bin");
  }
  return load_both(directory, train, "test_batch.bin", version_10());
}

Result<Datasets> load_cifar100(const std::filesystem::path& directory) {
  return load_both(directory, {"train.bin"}, "test.bin", version_100());
}

}  // namespace phub::data
