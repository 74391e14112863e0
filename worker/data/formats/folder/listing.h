// The folders of classes, and the names of the images in each, which several threads list.
//
// Functions, at set-up. Errors name the entry that may not be there and the cure.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub::data {

// How a folder below the set's is opened: no symbolic link is followed.
inline constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// The folder `name` in `parent`, opened. Errors: kNotFound; kInvalidArgument for a symbolic link.
Result<UniqueFd> open_folder_at(int parent, const std::string& name,
                                const std::filesystem::path& path);

// The names of the folders in `folder`, sorted by their bytes.
Result<std::vector<std::string>> folders_in(int folder, const std::filesystem::path& path);

struct ClassNames {
  std::string names{};  // of its images, sorted by their bytes, each with a NUL behind it
  std::uint64_t images = 0;
  std::uint64_t changed_s = 0, changed_ns = 0;  // the time at which its folder got other names
};

// What the data set may have in all.
struct ListingBounds {
  std::uint64_t images = 0;
  std::uint64_t name_bytes = 0;
};

// The images of each of `classes`, which are folders in `folder`. Error: the first class's.
Result<std::vector<ClassNames>> list_classes(int folder, const std::filesystem::path& path,
                                             std::span<const std::string> classes,
                                             const ListingBounds& bounds);

}  // namespace phub::data
