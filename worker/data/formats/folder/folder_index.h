// The classes and images of a folder: PATH/SPLIT/CLASS/IMAGE. Built at set-up; then read-only.
//
// All names lie in one arena, each with a NUL behind it; an image is 4 bytes beside its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "worker/data/formats/fingerprint.h"
#include "worker/data/formats/folder/listing.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

class FolderIndex {
 public:
  // Errors: kNotFound without PATH/train or the split; kInvalidArgument names the entry that may
  // not be there (a symbolic link, a folder in a class, a class that `train` lacks) and the cure.
  static Result<FolderIndex> create(const std::filesystem::path& path, Split split);

  std::uint64_t samples() const { return names_.size(); }
  const std::vector<std::string>& classes() const { return classes_; }
  std::uint16_t label(std::uint64_t sample) const;
  // The image, opened for reading, and its size. Error: kDataLoss.
  Result<UniqueFd> open_image(std::uint64_t sample, std::uint64_t& bytes) const;
  std::filesystem::path path_of(std::uint64_t sample) const;
  std::uint64_t index_bytes() const;
  // It depends on the names, and on the times at which the classes' folders got other names. A file
  // that is written anew in its place does not change it.
  std::uint64_t fingerprint() const;
  // It depends on the names of classes and images.
  std::uint64_t content_number() const;

 private:
  FolderIndex() = default;
  Status find_split(const std::filesystem::path& path, Split split);
  Status check_known(std::span<const std::string> own) const;
  Status add_images(std::span<const std::string> own);
  void add_class(ClassNames names);

  std::filesystem::path folder_;  // PATH/SPLIT
  UniqueFd fd_;                   // the same
  std::vector<std::string> classes_;
  std::vector<std::uint64_t> ends_;   // of each class: the first sample that is behind it
  std::vector<std::uint32_t> names_;  // of each sample: where its name begins in arena_
  std::string arena_;
  Fingerprint times_;  // of the classes' folders
};

}  // namespace phub::data
