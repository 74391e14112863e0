// A file that samples are read from, and which must stay what it was.
//
// Read by pread alone: a file that becomes shorter is an error, not a fault. Any thread may read.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "worker/data/formats/byte_source.h"

namespace phub::data {

// A path for a message: bytes that are no text become \xHH. A URL loses its password and its query.
std::string printable(const std::filesystem::path& path);

// Fills `bytes` from `offset` on. False: the file ends before, or cannot be read (errno; else 0).
bool read_fully(int fd, std::uint64_t offset, std::span<std::uint8_t> bytes);

// Which file it is and when it was written last: any change of it changes this.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t written_s = 0;
  std::int64_t written_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

class SourceFile final : public ByteSource {
 public:
  // Errors: kNotFound, and kInvalidArgument for what is no regular file.
  static Result<SourceFile> open(const std::filesystem::path& path);
  // The same file again. Error: kDataLoss when it is no longer what `expected` says.
  static Result<SourceFile> reopen(const std::filesystem::path& path, const FileIdentity& expected);

  const std::filesystem::path& path() const { return path_; }
  const FileIdentity& identity() const { return identity_; }

  std::string name() const override { return printable(path_); }
  std::uint64_t bytes() const override { return identity_.bytes; }
  Status read(std::uint64_t offset, std::span<std::uint8_t> into) const override;

 private:
  SourceFile(const std::filesystem::path& path, UniqueFd fd, const FileIdentity& identity)
      : path_(path), fd_(std::move(fd)), identity_(identity) {}

  std::filesystem::path path_;
  UniqueFd fd_;
  FileIdentity identity_;
};

// Small pieces of a file in ascending order, a page or more at a time. Of a far file up to 1 MiB is
// read at a time, while what is wanted lies close together. One thread.
class FileWindow {
 public:
  explicit FileWindow(const ByteSource& file);

  const ByteSource& file() const { return *file_; }

  // `bytes` bytes from `offset` on, valid until the next call. REQUIRES: the caller bounds `bytes`.
  // Error: kDataLoss, also where the file ends before.
  Result<std::span<const std::uint8_t>> at(std::uint64_t offset, std::size_t bytes);
  // As many bytes as there are at hand from `offset` on, at least one.
  Result<std::span<const std::uint8_t>> some(std::uint64_t offset);

 private:
  void choose_piece(std::uint64_t offset);

  const ByteSource* file_;
  std::uint64_t begin_ = 0;
  std::vector<std::uint8_t> held_;
  std::size_t piece_bytes_;  // of the next read, at least
};

}  // namespace phub::data
