// Stores for tests, and contents that follow from a sample's number.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "worker/data/cache/folder.h"
#include "worker/data/cache/store.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data::cache::test {

using Bytes = std::vector<std::uint8_t>;

inline Bytes content_of(std::uint64_t sample, std::size_t bytes = 1000) {
  Bytes content(bytes + sample % 7);
  for (std::size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<std::uint8_t>(sample * 31 + i * 7 + i / 256);
  }
  return content;
}

inline StoreSubject subject(std::uint64_t number = 7, std::uint64_t samples = 100) {
  return {.samples = samples, .number = number, .content = "encoded", .about = "a set"};
}

inline StorePlace place(const std::filesystem::path& folder, std::uint64_t bytes_max = 1U << 24U) {
  return {.folder = folder, .bytes_max = bytes_max, .field = "data.cache.path"};
}

inline std::unique_ptr<SampleStore> opened(const StoreSubject& subject, const StorePlace& place,
                                           std::vector<std::string>* notes = nullptr) {
  auto store = SampleStore::open(subject, place, [notes](std::string_view note) {
    if (notes != nullptr) notes->emplace_back(note);
  });
  REQUIRE(store);
  return std::move(*store);
}

inline bool has(const SampleStore& store, std::uint64_t sample, const Bytes& content) {
  Bytes buffer;
  const auto read = store.read(sample, buffer);
  return read && Bytes(read->begin(), read->end()) == content;
}

inline Status removed(const std::filesystem::path& store) {
  Removal removal;
  return removal.add(store);
}

// The samples that are kept; each must have its right content.
inline std::uint64_t count_right(const SampleStore& store, std::uint64_t samples,
                                 std::size_t bytes = 1000) {
  std::uint64_t found = 0;
  Bytes buffer;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const auto read = store.read(sample, buffer);
    if (!read) continue;
    ++found;
    if (Bytes(read->begin(), read->end()) != content_of(sample, bytes)) {
      FAIL("sample " << sample << " has a wrong content");
    }
  }
  return found;
}

}  // namespace phub::data::cache::test
