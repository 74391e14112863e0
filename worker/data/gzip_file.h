// Reads a file, gzipped or plain, from front to back. One owner, one thread.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

namespace phub::data {

class GzipFile {
 public:
  static Result<std::unique_ptr<GzipFile>> open(const std::filesystem::path& path);
  ~GzipFile();

  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  // Fills `bytes` or fails: kDataLoss names the file.
  Status read(std::span<std::uint8_t> bytes);
  // OK at the end of an undamaged file.
  Status expect_end();

  // No file of its size holds more.
  std::uint64_t bytes_max() const;

  // A kDataLoss error about this file, with the cure.
  Status damaged(const std::string& what) const;

 private:
  GzipFile(std::string path, gzFile file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  gzFile file_;
};

}  // namespace phub::data
