#include "worker/data/formats/folder_index.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string_view>

#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxArenaBytes = UINT32_MAX;
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Status link_refused(const fs::path& path) {
  return {Code::kInvalidArgument,
          printable(path) +
              " is a symbolic link, which may lead out of the data set; put the file or folder "
              "itself there, or a hard link"};
}

// The folder `name` in `parent`; links are refused.
Result<UniqueFd> open_folder_at(int parent, const std::string& name, const fs::path& path) {
  struct stat found {};
  if (::fstatat(parent, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_status("cannot open " + printable(path), Code::kNotFound);
  }
  if (S_ISLNK(found.st_mode)) return link_refused(path);
  UniqueFd fd(::openat(parent, name.c_str(), kFolder));
  if (!fd) return errno_status("cannot open " + printable(path), Code::kNotFound);
  return fd;
}

unsigned char kind_of(int folder, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type;
  struct stat found {};
  if (::fstatat(folder, entry.d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
  if (S_ISDIR(found.st_mode)) return DT_DIR;
  if (S_ISLNK(found.st_mode)) return DT_LNK;
  return S_ISREG(found.st_mode) ? DT_REG : DT_UNKNOWN;
}

using Visit = std::function<Status(const char* name, unsigned char kind)>;

// Calls `visit` with each entry whose name does not begin with a dot; in no order.
Status list(int folder, const fs::path& path, const Visit& visit) {
  const int own = ::openat(folder, ".", kFolder);
  DIR* const opened = own < 0 ? nullptr : ::fdopendir(own);
  if (opened == nullptr) {
    Status status = errno_status("cannot list " + printable(path), Code::kNotFound);
    if (own >= 0) ::close(own);
    return status;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opened, ::closedir);
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const char* const name = entry->d_name;
    if (name[0] == '.') continue;
    PHUB_RETURN_IF_ERROR(visit(name, kind_of(folder, *entry)));
  }
  if (errno != 0) return errno_status("cannot list " + printable(path), Code::kDataLoss);
  return {};
}

bool is_image(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(name.substr(dot + 1));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return ending == "jpg" || ending == "jpeg" || ending == "png";
}

// The names of the images of a class, sorted by their bytes.
Result<std::vector<std::string>> images_in(int folder, const fs::path& path, std::uint64_t bound) {
  std::vector<std::string> names;
  const auto visit = [&](const char* name, unsigned char kind) -> Status {
    if (kind == DT_LNK) return link_refused(path / name);
    if (kind == DT_DIR) {
      return {Code::kInvalidArgument, printable(path / name) +
                                          " is a folder in a class; images lie directly in the "
                                          "folder of their class: move them up"};
    }
    if (!is_image(name)) return {};
    if (kind != DT_REG) {
      return {Code::kInvalidArgument, printable(path / name) + " is no regular file; remove it"};
    }
    if (names.size() >= bound) {
      return {Code::kInvalidArgument, printable(path) + " is where the data set exceeds " +
                                          std::to_string(kMaxSamples) +
                                          " images; leave some of them out"};
    }
    names.emplace_back(name);
    return {};
  };
  PHUB_RETURN_IF_ERROR(list(folder, path, visit));
  std::sort(names.begin(), names.end());
  return names;
}

// The folders in it, sorted by their bytes.
Result<std::vector<std::string>> folders_in(int folder, const fs::path& path) {
  std::vector<std::string> names;
  const auto visit = [&](const char* name, unsigned char kind) -> Status {
    if (kind == DT_LNK) return link_refused(path / name);
    if (kind != DT_DIR) return {};
    if (names.size() >= kMaxClasses) {
      return {Code::kInvalidArgument, printable(path) + " has more than " +
                                          std::to_string(kMaxClasses) +
                                          " folders, which are the classes; merge some"};
    }
    names.emplace_back(name);
    return {};
  };
  PHUB_RETURN_IF_ERROR(list(folder, path, visit));
  std::sort(names.begin(), names.end());
  return names;
}

bool is_there(int folder, const char* name) {
  struct stat found {};
  return ::fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

Result<FolderIndex> FolderIndex::create(const fs::path& path, Split split) {
  FolderIndex index;
  PHUB_RETURN_IF_ERROR(index.find_split(path, split));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> own,
                        folders_in(index.fd_.get(), index.folder_));
  for (const std::string& name : own) PHUB_RETURN_IF_ERROR(index.check_known(name));
  // A class that the split lacks has no samples there.
  for (const std::string& name : index.classes_) {
    if (std::binary_search(own.begin(), own.end(), name)) {
      PHUB_RETURN_IF_ERROR(index.add_class(name));
    }
    index.ends_.push_back(index.names_.size());
  }
  if (index.names_.empty()) {
    return Status(Code::kNotFound, printable(index.folder_) +
                                       " has no CLASS/NAME that ends with .jpg, .jpeg or .png");
  }
  index.names_.shrink_to_fit();
  index.arena_.shrink_to_fit();
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

Status FolderIndex::check_known(const std::string& name) const {
  if (std::binary_search(classes_.begin(), classes_.end(), name)) return {};
  return {Code::kInvalidArgument,
          printable(folder_ / name) +
              " is a class that the folder train beside it lacks; remove it, or name it as there"};
}

Status FolderIndex::add_class(const std::string& name) {
  const fs::path path = folder_ / name;
  PHUB_ASSIGN_OR_RETURN(const UniqueFd folder, open_folder_at(fd_.get(), name, path));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> images,
                        images_in(folder.get(), path, kMaxSamples - names_.size()));
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return errno_status("fstat of " + printable(path));
  times_.add(static_cast<std::uint64_t>(found.st_mtim.tv_sec))
      .add(static_cast<std::uint64_t>(found.st_mtim.tv_nsec));
  for (const std::string& image : images) {
    if (arena_.size() + image.size() + 1 > kMaxArenaBytes) {
      return {Code::kInvalidArgument, printable(path) + " is where the images' names exceed " +
                                          std::to_string(kMaxArenaBytes) +
                                          " bytes together; give them shorter names"};
    }
    names_.push_back(static_cast<std::uint32_t>(arena_.size()));
    arena_.append(image).push_back('\0');
  }
  return {};
}

std::uint16_t FolderIndex::label(std::uint64_t sample) const {
  const auto place = std::upper_bound(ends_.begin(), ends_.end(), sample);
  return static_cast<std::uint16_t>(place - ends_.begin());
}

Result<UniqueFd> FolderIndex::open_image(std::uint64_t sample, std::uint64_t& bytes) const {
  const std::string& name = classes_[label(sample)];
  const UniqueFd folder(::openat(fd_.get(), name.c_str(), kFolder | O_PATH));
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
