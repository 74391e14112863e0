// The checksum of a snapshot, made piece by piece: see server/snapshot/file.h.
//
// A value of one thread.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/tensors/safetensors.h"

namespace phub::server {

inline constexpr int kSnapshotVersion = 2;

class SnapshotDigest {
 public:
  SnapshotDigest();

  void add(const TensorMetadata& metadata);  // all but the checksum itself
  void begin(std::string_view tensor, std::uint64_t elements);
  void add(std::span<const float> values);

  std::string text();  // in hexadecimal; nothing may be added after it

 private:
  void add_bytes(const void* data, std::size_t bytes);

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace phub::server
