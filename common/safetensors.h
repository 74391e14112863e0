// The safetensors file format: an 8-byte little-endian header length, a JSON header, raw fp32 data.
//
// Functions; any thread. Files are written to a temporary name and renamed, so a reader never sees
// half a file. What is read is validated: nothing in a file can make us read outside of it or
// allocate more than its size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub {

struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float> values;

  bool operator==(const NamedTensor&) const = default;
};

struct TensorFile {
  std::vector<NamedTensor> tensors;  // names are unique
  // Names of I64 tensors that were read, whose values are not kept: PyTorch's counters of batches.
  // Not written.
  std::vector<std::string> counters = {};
  std::map<std::string, std::string> metadata;

  const NamedTensor* find(const std::string& name) const;
};

// Errors name the path.
Status write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Tensors in the order of their data. Errors: kNotFound; kDataLoss for anything that is no
// safetensors file of F32 tensors (and I64 ones, see counters), saying what is wrong.
Result<TensorFile> read_safetensors(const std::filesystem::path& path);

// The header's metadata alone, without reading the data.
Result<std::map<std::string, std::string>> read_safetensors_metadata(
    const std::filesystem::path& path);

}  // namespace phub
