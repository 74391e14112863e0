// Data sets in files, as tests want them: right ones, and ones that somebody damaged.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

struct Sample {
  std::uint16_t label;
  std::string bytes;

  bool operator==(const Sample&) const = default;
  bool operator<(const Sample& other) const {
    return std::tie(label, bytes) < std::tie(other.label, other.bytes);
  }
};

// What begins as a JPEG and is none.
inline std::string jpeg(const std::string& content) { return "\xFF\xD8\xFF" + content; }
inline std::string png(const std::string& content) { return "\x89PNG\r\n\x1A\n" + content; }

inline Sample sample_of(const SampleSet& set, std::uint64_t sample) {
  std::vector<std::uint8_t> buffer;
  const auto bytes = set.read(sample, buffer);
  INFO(set.name(sample));
  REQUIRE(bytes.error().message().empty());
  return {set.label(sample), std::string(bytes->begin(), bytes->end())};
}

inline std::vector<Sample> samples_of(const SampleSet& set) {
  std::vector<Sample> samples;
  for (std::uint64_t i = 0; i < set.samples(); ++i) samples.push_back(sample_of(set, i));
  return samples;
}

// Each sample is read or refused with words. True: all were read.
inline bool reads_all(const SampleSet& set) {
  std::vector<std::uint8_t> buffer;
  bool is_whole = true;
  for (std::uint64_t i = 0; i < set.samples(); ++i) {
    REQUIRE(set.label(i) < set.classes().size());
    REQUIRE_FALSE(set.name(i).empty());
    const auto bytes = set.read(i, buffer);
    is_whole = is_whole && bytes.has_value();
    if (!bytes) REQUIRE_FALSE(bytes.error().message().empty());
  }
  return is_whole;
}

// Files below a folder, with the folders that they need.
inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace phub::data
