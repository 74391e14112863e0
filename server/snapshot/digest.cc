#include "server/snapshot/digest.h"

#include <fmt/format.h>

#include <array>

namespace phub::server {

SnapshotDigest::SnapshotDigest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

void SnapshotDigest::add(const TensorMetadata& metadata) {
  for (const auto& [name, text] : metadata) {
    if (name == "sha256") continue;
    const std::string title = fmt::format("{}={}:", name, text.size());
    add_bytes(title.data(), title.size());
    add_bytes(text.data(), text.size());
  }
}

void SnapshotDigest::begin(std::string_view tensor, std::uint64_t elements) {
  const std::string title = fmt::format("{}:{};", tensor, elements);
  add_bytes(title.data(), title.size());
}

void SnapshotDigest::add(std::span<const float> values) {
  add_bytes(values.data(), values.size_bytes());
}

std::string SnapshotDigest::text() {
  std::array<unsigned char, 32> digest = {};
  EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

void SnapshotDigest::add_bytes(const void* data, std::size_t bytes) {
  EVP_DigestUpdate(context_.get(), data, bytes);
}

}  // namespace phub::server
