// The IDX format: big-endian magic number and dimensions, then the bytes.
#include <algorithm>
#include <array>

#include "worker/data/dataset.h"
#include "worker/data/gzip_file.h"

namespace phub::data {
namespace {

constexpr std::uint32_t kImagesMagic = 0x803;  // unsigned bytes, 3 dimensions
constexpr std::uint32_t kLabelsMagic = 0x801;  // unsigned bytes, 1 dimension
constexpr std::uint32_t kMaxSide = 4096;
constexpr std::uint64_t kMaxBytes = 4ULL << 30U;  // a header that asks for more is damaged

Result<std::uint32_t> read_u32(GzipFile& file) {
  std::array<std::uint8_t, 4> bytes{};
  PHUB_RETURN_IF_ERROR(file.read(bytes));
  std::uint32_t value = 0;
  for (const std::uint8_t byte : bytes) value = (value << 8U) | byte;
  return value;
}

Status expect_magic(GzipFile& file, std::uint32_t expected) {
  PHUB_ASSIGN_OR_RETURN(const std::uint32_t magic, read_u32(file));
  if (magic == expected) return {};
  return file.damaged("its magic number is " + std::to_string(magic) + ", not " +
                      std::to_string(expected));
}

Status read_images(const std::filesystem::path& path, Dataset& dataset) {
  PHUB_ASSIGN_OR_RETURN(const auto file, GzipFile::open(path));
  PHUB_RETURN_IF_ERROR(expect_magic(*file, kImagesMagic));
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t images, read_u32(*file));
  PHUB_ASSIGN_OR_RETURN(dataset.facts.height, read_u32(*file));
  PHUB_ASSIGN_OR_RETURN(dataset.facts.width, read_u32(*file));
  const bool has_pixels = images > 0 && dataset.facts.height > 0 && dataset.facts.width > 0;
  if (!has_pixels || dataset.facts.height > kMaxSide || dataset.facts.width > kMaxSide ||
      images * dataset.facts.height * dataset.facts.width >
          std::min(kMaxBytes, file->bytes_max())) {
    return file->damaged("its header says " + std::to_string(images) + " images of " +
                         std::to_string(dataset.facts.height) + " x " +
                         std::to_string(dataset.facts.width));
  }
  dataset.facts.channels = 1;
  dataset.pixels.resize(images * dataset.facts.height * dataset.facts.width);
  PHUB_RETURN_IF_ERROR(file->read(dataset.pixels));
  return file->expect_end();
}

Status read_labels(const std::filesystem::path& path, Dataset& dataset) {
  PHUB_ASSIGN_OR_RETURN(const auto file, GzipFile::open(path));
  PHUB_RETURN_IF_ERROR(expect_magic(*file, kLabelsMagic));
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t labels, read_u32(*file));
  const std::uint64_t images = dataset.pixels.size() / dataset.facts.image_bytes();
  if (labels != images) {
    return file->damaged("it has " + std::to_string(labels) + " labels for " +
                         std::to_string(images) + " images");
  }
  std::vector<std::uint8_t> bytes(labels);
  PHUB_RETURN_IF_ERROR(file->read(bytes));
  dataset.labels.assign(bytes.begin(), bytes.end());
  return file->expect_end();
}

// The first of the accepted names that exists; if there is none, the first, to name it.
std::filesystem::path find(const std::filesystem::path& directory,
                           const std::vector<std::string>& stems, const std::string& suffix) {
  for (const std::string& stem : stems) {
    for (const char* extension : {".gz", ""}) {
      auto path = directory / (stem + suffix + extension);
      if (std::filesystem::exists(path)) return path;
    }
  }
  return directory / (stems[0] + suffix + ".gz");
}

Result<Dataset> load(const std::filesystem::path& directory,
                     const std::vector<std::string>& stems) {
  Dataset dataset;
  PHUB_RETURN_IF_ERROR(read_images(find(directory, stems, "-images-idx3-ubyte"), dataset));
  PHUB_RETURN_IF_ERROR(read_labels(find(directory, stems, "-labels-idx1-ubyte"), dataset));
  // MNIST's own figures.
  dataset.facts.mean = {0.1307F};
  dataset.facts.deviation = {0.3081F};
  return dataset;
}

}  // namespace

Result<Datasets> load_idx(const std::filesystem::path& directory) {
  Datasets both;
  PHUB_ASSIGN_OR_RETURN(both.train, load(directory, {"train"}));
  PHUB_ASSIGN_OR_RETURN(both.test, load(directory, {"test", "t10k"}));
  if (both.train.facts.height != both.test.facts.height ||
      both.train.facts.width != both.test.facts.width) {
    return Status(Code::kDataLoss, directory.string() +
                                       " holds training and test images of different sizes: "
                                       "keep one data set in a directory");
  }
  const auto largest = [](const std::vector<std::uint16_t>& labels) {
    return *std::max_element(labels.begin(), labels.end());
  };
  both.train.facts.classes = 1U + std::max(largest(both.train.labels), largest(both.test.labels));
  both.test.facts.classes = both.train.facts.classes;
  return both;
}

}  // namespace phub::data
