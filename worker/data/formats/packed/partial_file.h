// A file that is being written beside the one that it will replace, and what errors say of it.
//
// One thread; its owner alone, also among processes: the file is locked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub::data {

class PartialFile {
 public:
  // Opens the file, or makes it. Errors: kNotFound without its folder, kFailedPrecondition while
  // another writer has it.
  static Result<PartialFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // 0 when it cannot be said.
  std::uint64_t bytes() const;
  // False: the file ends before.
  bool read(std::uint64_t offset, std::span<std::byte> into) const;
  // Errors: kResourceExhausted on a full disk or above a quota.
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  Status cut(std::uint64_t bytes);
  Status sync();
  // Gives it the name `path`, also when the machine stops right afterwards. Syncs it before.
  Status rename_to(const std::filesystem::path& path);

 private:
  PartialFile(const std::filesystem::path& path, UniqueFd fd) : path_(path), fd_(std::move(fd)) {}
  Status failed(std::string_view what) const;

  std::filesystem::path path_;
  UniqueFd fd_;
};

}  // namespace phub::data
