// Any bytes as a file of a data set, gzipped or not: images with labels below the classes, or an
// error. The first byte says which file of which format it is; the others of IDX are right.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "worker/data/dataset.h"

namespace {

using namespace std::string_view_literals;
namespace fs = std::filesystem;

constexpr auto kImages = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\1\2\3\4"sv;
constexpr auto kLabels = "\0\0\x08\x01\0\0\0\x02\0\1"sv;
constexpr std::array kIdx = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                             "test-images-idx3-ubyte", "test-labels-idx1-ubyte"};
constexpr std::array kCifar = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                               "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

void write(const fs::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<long>(content.size()));
}

struct Folder {
  // In memory where there is such a folder: every input writes files.
  fs::path path = (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
                  ("phub-fuzz-" + std::to_string(::getpid()));
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
};

void check(const phub::Result<phub::data::Datasets>& sets) {
  if (!sets) {
    if (sets.error().message().empty()) std::abort();
    return;
  }
  for (const auto* set : {&sets->train, &sets->test}) {
    if (set->pixels.size() != set->images() * set->facts.image_bytes()) std::abort();
    for (const std::uint16_t label : set->labels) {
      if (label >= set->facts.classes) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t which = data[0] % (kIdx.size() + 1);
  if (which < kIdx.size()) {
    for (std::size_t i = 0; i < kIdx.size(); ++i) {
      write(folder.path / kIdx[i], i == which ? rest : i % 2 == 0 ? kImages : kLabels);
    }
    check(phub::data::load_idx(folder.path));
  } else {
    // Whole records of what there is, or its odd size.
    std::string records(rest);
    if (data[0] < 128) records.resize((records.size() + 3072) / 3073 * 3073);
    for (const char* name : kCifar) write(folder.path / name, records);
    check(phub::data::load_cifar10(folder.path));
  }
  return 0;
}
