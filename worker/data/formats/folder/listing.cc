#include "worker/data/formats/folder/listing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

#include "worker/data/formats/folder/entries.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

// Threads that wait for a disk or a file server most of the time.
constexpr std::size_t kListers = 32;

Status link_refused(const fs::path& path) {
  return {Code::kInvalidArgument,
          printable(path) +
              " is a symbolic link, which may lead out of the data set; put the file or folder "
              "itself there, or a hard link"};
}

// In lower case.
bool ends_with(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  const std::string_view tail = name.substr(name.size() - ending.size());
  return std::equal(tail.begin(), tail.end(), ending.begin(), [](char have, char want) {
    return (have >= 'A' && have <= 'Z' ? have - 'A' + 'a' : have) == want;
  });
}

bool is_image(std::string_view name) {
  return ends_with(name, ".jpg") || ends_with(name, ".jpeg") || ends_with(name, ".png");
}

// What all listers have found.
struct Totals {
  std::atomic<std::uint64_t> images{0}, name_bytes{0};
};

// A name, by the eight bytes behind what all names of its class begin with.
struct SortedName {
  std::uint64_t key = 0;
  std::uint32_t place = 0, bytes = 0;
};

std::size_t common_prefix(std::string_view a, std::string_view b, std::size_t most) {
  const std::size_t end = std::min({a.size(), b.size(), most});
  std::size_t length = 0;
  while (length < end && a[length] == b[length]) ++length;
  return length;
}

// Names in the order of the keys are in the order of these bytes, as none has a NUL.
std::uint64_t key_of(std::string_view bytes) {
  std::uint64_t key = 0;
  std::memcpy(&key, bytes.data(), std::min(bytes.size(), sizeof(key)));
  return std::endian::native == std::endian::little ? __builtin_bswap64(key) : key;
}

// One thread's lister of classes.
class Lister {
 public:
  Lister(int folder, const fs::path& path, const ListingBounds& bounds, Totals& totals)
      : folder_(folder), path_(path), bounds_(bounds), totals_(totals) {}

  Result<ClassNames> list(const std::string& name) {
    path_of_class_ = path_ / name;
    PHUB_ASSIGN_OR_RETURN(const UniqueFd fd, open_folder_at(folder_, name, path_of_class_));
    found_.clear();
    names_.clear();
    told_images_ = told_bytes_ = 0;
    PHUB_RETURN_IF_ERROR(for_each_entry(
        fd.get(), path_of_class_, buffer_,
        [this](const char* entry, unsigned char kind) { return add(entry, kind); },
        [this] { return check_bounds(); }));
    struct stat state {};
    if (::fstat(fd.get(), &state) != 0) {
      return errno_status("fstat of " + printable(path_of_class_));
    }
    ClassNames sorted = sort();
    sorted.changed_s = static_cast<std::uint64_t>(state.st_mtim.tv_sec);
    sorted.changed_ns = static_cast<std::uint64_t>(state.st_mtim.tv_nsec);
    return sorted;
  }

 private:
  Status add(const char* entry, unsigned char kind) {
    if (kind == DT_LNK) return link_refused(path_of_class_ / entry);
    if (kind == DT_DIR) {
      return {Code::kInvalidArgument, printable(path_of_class_ / entry) +
                                          " is a folder in a class; images lie directly in the "
                                          "folder of their class: move them up"};
    }
    const std::string_view name = entry;
    if (!is_image(name)) return {};
    if (kind != DT_REG) {
      return {Code::kInvalidArgument,
              printable(path_of_class_ / entry) + " is no regular file; remove it"};
    }
    found_.push_back({.place = static_cast<std::uint32_t>(names_.size()),
                      .bytes = static_cast<std::uint32_t>(name.size())});
    names_.append(name).push_back('\0');
    return {};
  }

  // After each buffer of entries, so what is above the bounds is a buffer of each lister.
  Status check_bounds() {
    const std::uint64_t images = totals_.images += found_.size() - told_images_;
    const std::uint64_t bytes = totals_.name_bytes += names_.size() - told_bytes_;
    told_images_ = found_.size();
    told_bytes_ = names_.size();
    if (images > bounds_.images) {
      return {Code::kInvalidArgument,
              printable(path_of_class_) + " is where the data set exceeds " +
                  std::to_string(bounds_.images) + " images; leave some of them out"};
    }
    if (bytes > bounds_.name_bytes) {
      return {Code::kInvalidArgument,
              printable(path_of_class_) + " is where the images' names exceed " +
                  std::to_string(bounds_.name_bytes) + " bytes together; give them shorter names"};
    }
    return {};
  }

  std::string_view name_of(const SortedName& name) const {
    return std::string_view(names_).substr(name.place, name.bytes);
  }

  ClassNames sort() {
    std::size_t prefix = found_.empty() ? 0 : found_.front().bytes;
    for (const SortedName& name : found_) {
      prefix = common_prefix(name_of(found_.front()), name_of(name), prefix);
    }
    for (SortedName& name : found_) name.key = key_of(name_of(name).substr(prefix));
    std::sort(found_.begin(), found_.end(), [this](const SortedName& a, const SortedName& b) {
      return a.key != b.key ? a.key < b.key : name_of(a) < name_of(b);
    });
    ClassNames sorted{.images = found_.size()};
    sorted.names.reserve(names_.size());
    for (const SortedName& name : found_) sorted.names.append(names_, name.place, name.bytes + 1);
    return sorted;
  }

  const int folder_;
  const fs::path& path_;
  const ListingBounds& bounds_;
  Totals& totals_;
  fs::path path_of_class_;
  EntryBuffer buffer_;
  std::string names_;
  std::vector<SortedName> found_;
  std::uint64_t told_images_ = 0, told_bytes_ = 0;  // of this class, to `totals_`
};

}  // namespace

unsigned char kind_of(int folder, const dirent64& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type;
  struct stat found {};
  if (::fstatat(folder, &entry.d_name[0], &found, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
  if (S_ISDIR(found.st_mode)) return DT_DIR;
  if (S_ISLNK(found.st_mode)) return DT_LNK;
  return S_ISREG(found.st_mode) ? DT_REG : DT_UNKNOWN;
}

Result<UniqueFd> open_folder_at(int parent, const std::string& name, const fs::path& path) {
  struct stat found {};
  if (::fstatat(parent, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_status("cannot open " + printable(path), Code::kNotFound);
  }
  if (S_ISLNK(found.st_mode)) return link_refused(path);
  UniqueFd fd(::openat(parent, name.c_str(), kOpenFolder));
  if (!fd) return errno_status("cannot open " + printable(path), Code::kNotFound);
  return fd;
}

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
  EntryBuffer buffer;
  PHUB_RETURN_IF_ERROR(for_each_entry(folder, path, buffer, visit, [] { return Status(); }));
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<ClassNames>> list_classes(int folder, const fs::path& path,
                                             std::span<const std::string> classes,
                                             const ListingBounds& bounds) {
  std::vector<ClassNames> listed(classes.size());
  std::vector<Status> failed(std::min(kListers, classes.size()));
  std::vector<std::size_t> failed_at(failed.size(), classes.size());
  std::atomic<std::size_t> next{0};
  Totals totals;
  const auto work = [&](std::size_t thread) {
    Lister lister(folder, path, bounds, totals);
    for (std::size_t at = next++; at < classes.size(); at = next++) {
      auto names = lister.list(classes[at]);
      if (names) {
        listed[at] = std::move(*names);
        continue;
      }
      failed[thread] = names.error();
      failed_at[thread] = at;
      next = classes.size();  // the others end what they are at
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < failed.size(); ++i) threads.emplace_back(work, i);
    } catch (const std::system_error&) {  // fewer threads do the same
    }
    if (!failed.empty()) work(0);
  }
  const auto first = std::min_element(failed_at.begin(), failed_at.end());
  if (first != failed_at.end() && *first < classes.size()) {
    return failed[static_cast<std::size_t>(first - failed_at.begin())];
  }
  return listed;
}

}  // namespace phub::data
