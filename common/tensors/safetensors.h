// The safetensors file format: an 8-byte little-endian header length, a JSON header, raw fp32 data.
//
// Functions, and a reader for one thread. Files are written to a temporary name and renamed, so a
// reader never sees half a file. What is read is validated: nothing in a file can make us read
// outside of it or allocate more than its size. All is linear in the number of tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub {

// The bound of the format's own library, so that it reads what we write.
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float> values;

  bool operator==(const NamedTensor&) const = default;
};

using TensorMetadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<NamedTensor> tensors;  // names are unique
  // Names of I64 tensors that were read, whose values are not kept: PyTorch's counters of batches.
  // Not written.
  std::vector<std::string> counters = {};
  TensorMetadata metadata;

  const NamedTensor* find(const std::string& name) const;
};

// A tensor whose values somebody else owns; null: it is only measured.
struct TensorView {
  std::string name;
  std::vector<std::uint64_t> shape;
  const float* values = nullptr;
  std::uint64_t elements = 0;
};

// Of the whole file. Errors: kFailedPrecondition if its header could not be read back.
Result<std::uint64_t> safetensors_bytes(std::span<const TensorView> tensors,
                                        const TensorMetadata& metadata);

// Errors name the path: those of safetensors_bytes, kResourceExhausted for a full disk. The file is
// on the disk when this returns OK, and else not there.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const TensorMetadata& metadata);
Status write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Whether a name is one that a file has while it is written.
bool is_unfinished_safetensors(const std::string& name);

// Removes unfinished files of writers that died, whose names begin with `prefix`. A writer locks
// its file, so what another process writes now stays, on this host or, on a shared disk, on others.
void remove_abandoned_safetensors(const std::filesystem::path& folder, const std::string& prefix);

// Where a tensor lies in the data.
struct TensorEntry {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // bytes
  std::uint64_t end = 0;
  bool is_counter = false;  // I64

  std::uint64_t elements() const { return (end - begin) / sizeof(float); }  // of no counter
};

// Reads a file tensor by tensor.
class SafetensorsReader {
 public:
  // Errors: kNotFound; kDataLoss for anything that is no safetensors file of F32 tensors (and I64
  // ones), saying what is wrong.
  static Result<std::unique_ptr<SafetensorsReader>> open(const std::filesystem::path& path);

  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // in order of their data
  const TensorMetadata& metadata() const { return metadata_; }

  // `to.size()` elements of a tensor from element `from` on. REQUIRES: they are within it.
  Status read(const TensorEntry& tensor, std::uint64_t from, std::span<float> to) const;

 private:
  SafetensorsReader(std::filesystem::path path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::filesystem::path path_;
  const UniqueFd file_;
  std::uint64_t data_begin_ = 0;
  std::vector<TensorEntry> tensors_;
  TensorMetadata metadata_;
};

// Tensors in the order of their data. Errors: as SafetensorsReader::open.
Result<TensorFile> read_safetensors(const std::filesystem::path& path);

// The header's metadata alone, without reading the data.
Result<TensorMetadata> read_safetensors_metadata(const std::filesystem::path& path);

}  // namespace phub
