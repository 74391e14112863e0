// Labelled images in memory, and the readers that fill them.
//
// A Dataset is a value, read-only once loaded; any thread may read it. Errors of the readers are
// kNotFound and kDataLoss; they name the file and the cure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/images.h"

namespace phub::data {

struct Dataset {
  ImageFacts facts{};
  std::vector<std::uint8_t> pixels{};   // [image][row][column][channel]
  std::vector<std::uint16_t> labels{};  // [image]

  std::size_t images() const { return labels.size(); }
};

struct Datasets {
  Dataset train;
  Dataset test;
};

// Makes of data sets what images.h describes.
std::unique_ptr<Images> images_of(Dataset dataset);
ImageSets image_sets_of(Datasets datasets);

// MNIST's format: {train,test}-images-idx3-ubyte and {train,test}-labels-idx1-ubyte, gzipped (.gz)
// or not; test files may be called t10k-*.
Result<Datasets> load_idx(const std::filesystem::path& directory);

// CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin.
Result<Datasets> load_cifar10(const std::filesystem::path& directory);

// CIFAR-100's binary version, train.bin and test.bin, with its 100 fine classes.
Result<Datasets> load_cifar100(const std::filesystem::path& directory);

struct SyntheticOptions {
  std::uint32_t channels = 1;
  std::uint32_t height = 28;
  std::uint32_t width = 28;
  std::uint32_t classes = 10;
  std::uint32_t images = 1024;  // for training; a quarter as many for the test
  std::uint64_t seed = 1;
};

// Images that need no files: a random pattern for each class, under noise.
Result<Datasets> make_synthetic(const SyntheticOptions& options);

}  // namespace phub::data
