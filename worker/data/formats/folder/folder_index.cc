#include "worker/data/formats/folder/folder_index.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxArenaBytes = UINT32_MAX;

bool is_there(int folder, const char* name) {
  struct stat found {};
  return ::fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

Result<FolderIndex> FolderIndex::create(const fs::path& path, Split split) {
  FolderIndex index;
  PHUB_RETURN_IF_ERROR(index.find_split(path, split));
  if (split == Split::kTrain) {
    PHUB_RETURN_IF_ERROR(index.add_images(index.classes_));
  } else {
    PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> own,
                          folders_in(index.fd_.get(), index.folder_));
    PHUB_RETURN_IF_ERROR(index.check_known(own));
    PHUB_RETURN_IF_ERROR(index.add_images(own));
  }
  if (index.names_.empty()) {
    return Status(Code::kNotFound, printable(index.folder_) +
                                       " has no CLASS/NAME that ends with .jpg, .jpeg or .png");
  }
  return index;
}

// Opens the split's folder, and takes the classes of PATH/train.
Status FolderIndex::find_split(const fs::path& path, Split split) {
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return errno_status("cannot open the folder " + printable(path), Code::kNotFound);
  std::string name = "train";
  if (split == Split::kTest) {
    const bool has_test = is_there(root.get(), "test");
    if (has_test && is_there(root.get(), "val")) {
      return {Code::kInvalidArgument,
              printable(path) + " has both test and val; move the one that is not to be used away"};
    }
    const bool has_val = is_there(root.get(), "val");
    if (!has_test && !has_val) {
      return {Code::kNotFound, printable(path) +
                                   " has neither test nor val: put the test's images into one of "
                                   "the two, in folders named after their classes"};
    }
    name = has_test ? "test" : "val";
  }
  PHUB_ASSIGN_OR_RETURN(UniqueFd train, open_folder_at(root.get(), "train", path / "train"));
  PHUB_ASSIGN_OR_RETURN(classes_, folders_in(train.get(), path / "train"));
  folder_ = path / name;
  if (split == Split::kTrain) {
    fd_ = std::move(train);
    return {};
  }
  PHUB_ASSIGN_OR_RETURN(fd_, open_folder_at(root.get(), name, folder_));
  return {};
}

Status FolderIndex::check_known(std::span<const std::string> own) const {
  for (const std::string& name : own) {
    if (std::binary_search(classes_.begin(), classes_.end(), name)) continue;
    return {Code::kInvalidArgument, printable(folder_ / name) +
                                        " is a class that the folder train beside it lacks; "
                                        "remove it, or name it as there"};
  }
  return {};
}

// `own`: the split's classes, sorted. A class that the split lacks has no samples there.
Status FolderIndex::add_images(std::span<const std::string> own) {
  PHUB_ASSIGN_OR_RETURN(
      std::vector<ClassNames> listed,
      list_classes(fd_.get(), folder_, own, {.images = kMaxSamples, .name_bytes = kMaxArenaBytes}));
  std::uint64_t images = 0;
  std::uint64_t bytes = 0;
  for (const ClassNames& names : listed) {
    images += names.images;
    bytes += names.names.size();
  }
  names_.reserve(images);
  arena_.reserve(bytes);
  std::size_t next = 0;
  for (const std::string& name : classes_) {
    if (next < own.size() && own[next] == name) add_class(std::move(listed[next++]));
    ends_.push_back(names_.size());
  }
  return {};
}

void FolderIndex::add_class(ClassNames names) {
  times_.add(names.changed_s).add(names.changed_ns);
  const std::size_t begin = arena_.size();
  arena_ += names.names;
  for (std::size_t at = begin; at < arena_.size(); at = arena_.find('\0', at) + 1) {
    names_.push_back(static_cast<std::uint32_t>(at));
  }
}

std::uint16_t FolderIndex::label(std::uint64_t sample) const {
  const auto place = std::upper_bound(ends_.begin(), ends_.end(), sample);
  return static_cast<std::uint16_t>(place - ends_.begin());
}

Result<UniqueFd> FolderIndex::open_image(std::uint64_t sample, std::uint64_t& bytes) const {
  const std::string& name = classes_[label(sample)];
  const UniqueFd folder(::openat(fd_.get(), name.c_str(), kOpenFolder | O_PATH));
  UniqueFd image(folder ? ::openat(folder.get(), arena_.c_str() + names_[sample],
                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                        : -1);
  struct stat found {};
  if (!image || ::fstat(image.get(), &found) != 0) {
    return errno_status(
        "cannot open " + printable(path_of(sample)) + ", which was there when the set was opened",
        Code::kDataLoss);
  }
  if (!S_ISREG(found.st_mode)) {
    return Status(Code::kDataLoss,
                  printable(path_of(sample)) + " is no regular file any more; start again");
  }
  bytes = static_cast<std::uint64_t>(found.st_size);
  return image;
}

fs::path FolderIndex::path_of(std::uint64_t sample) const {
  return folder_ / classes_[label(sample)] / (arena_.c_str() + names_[sample]);
}

std::uint64_t FolderIndex::index_bytes() const {
  std::uint64_t bytes = names_.capacity() * sizeof(std::uint32_t) + arena_.capacity();
  for (const std::string& name : classes_)
    bytes += sizeof(std::string) + sizeof(std::uint64_t) + name.size();
  return bytes;
}

std::uint64_t FolderIndex::fingerprint() const {
  std::error_code error;
  Fingerprint number = times_;
  number.add(fs::absolute(folder_, error).native()).add(arena_);
  for (const std::string& name : classes_) number.add(name);
  for (const std::uint64_t end : ends_) number.add(end);
  return number.value();
}

std::uint64_t FolderIndex::content_number() const {
  Fingerprint number;
  number.add(arena_);
  for (const std::string& name : classes_) number.add(name);
  for (const std::uint64_t end : ends_) number.add(end);
  return number.value();
}

}  // namespace phub::data
