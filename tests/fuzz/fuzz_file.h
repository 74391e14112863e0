// The bytes of an input as a file, for readers that want a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/base/unique_fd.h"

namespace phub::fuzz {

class File {
 public:
  File(const std::uint8_t* data, std::size_t size) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    if (::write(fd_.get(), data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

}  // namespace phub::fuzz
