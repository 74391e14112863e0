#include "worker/data/cache/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "common/base/folder.h"
#include "common/base/log_value.h"
#include "worker/data/cache/store_format.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/formats/source_file.h"

namespace phub::data::cache {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kLockFile = "lock";
constexpr std::size_t kAboutBytesMax = 4096;

UniqueFd open_index(const fs::path& store) {
  return UniqueFd(::open((store / kIndexFile).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

// A caller that cannot even ask takes it for used.
bool is_used(const fs::path& store) {
  // Some file systems lock only what may be written.
  const UniqueFd index(::open((store / kIndexFile).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!index) return errno != ENOENT;
  return ::flock(index.get(), LOCK_EX | LOCK_NB) != 0;
}

std::uint64_t data_bytes(const fs::path& store) {
  struct stat found {};
  return ::lstat((store / kDataFile).c_str(), &found) == 0 && S_ISREG(found.st_mode)
             ? static_cast<std::uint64_t>(found.st_size)
             : 0;
}

std::int64_t used_last(const fs::path& store) {
  struct stat found {};
  return ::lstat((store / kIndexFile).c_str(), &found) == 0 ? found.st_mtim.tv_sec : 0;
}

std::string about_of(const fs::path& store) {
  const UniqueFd file(
      ::open((store / kAboutFile).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text(kAboutBytesMax, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return one_line(text);
}

// NUMBER-CONTENT, as store.cc names them: nothing else here is ours to remove.
bool is_store_name(const std::string& name) {
  constexpr std::size_t kDigits = 16;
  return name.size() > kDigits && name[kDigits] == '-' &&
         name.find_first_not_of("0123456789abcdef") == kDigits;
}

bool is_partial(const std::string& name) { return name.ends_with(kPartialEnding); }

Status unusable(const fs::path& store, const std::string& what) {
  return {Code::kFailedPrecondition,
          printable(store) + ' ' + what +
              "; remove it, or all unused copies by `phub-worker cache clear " +
              printable(store.parent_path()) + '`'};
}

Result<StoreHeader> read_header(const fs::path& store, const UniqueFd& index) {
  StoreHeader header;
  if (!index ||
      !read_fully(index.get(), 0, {reinterpret_cast<std::uint8_t*>(&header), sizeof(header)})) {
    return unusable(store, "has no index that can be read");
  }
  if (std::memcmp(header.magic, kStoreMagic.data(), kStoreMagic.size()) != 0) {
    return unusable(store, "is no cache of samples");
  }
  if (header.version != kStoreVersion) {
    return unusable(store, "has version " + std::to_string(header.version) +
                               ", and this program has version " + std::to_string(kStoreVersion));
  }
  if (header.crc != header.right_crc() || header.samples > kMaxSamples) {
    return unusable(store, "has a damaged header");
  }
  return header;
}

// Calls `take` with each entry that is whole.
template <typename Take>
Status each_entry(const fs::path& store, const UniqueFd& index, std::uint64_t samples,
                  const Take& take) {
  constexpr std::uint64_t kAtOnce = 4096;
  std::vector<StoreEntry> entries(kAtOnce);
  for (std::uint64_t first = 0; first < samples; first += kAtOnce) {
    const std::uint64_t count = std::min(kAtOnce, samples - first);
    if (!read_fully(
            index.get(), place_of(first),
            {reinterpret_cast<std::uint8_t*>(entries.data()), count * sizeof(StoreEntry)})) {
      return unusable(store, "has an index that ends too soon");
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      if (is_right(entries[i], first + i)) take(first + i, entries[i]);
    }
  }
  return {};
}

}  // namespace

Result<FolderLock> FolderLock::take(const fs::path& folder, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{5};
  const fs::path path = folder / kLockFile;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd) return errno_status("cannot make " + printable(path), Code::kNotFound);
  const auto deadline = Clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return errno_status("flock of " + printable(path));
    if (Clock::now() >= deadline) {
      return Status(Code::kDeadlineExceeded,
                    printable(path) + " has been locked by another process for " +
                        std::to_string(patience.count()) + " ms; `fuser` names it");
    }
    std::this_thread::sleep_for(kPause);
  }
  return FolderLock(std::move(fd));
}

Status make_folder(const fs::path& folder, bool is_private) {
  std::error_code error;
  if (is_private) {
    if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
      return errno_status("cannot make " + printable(folder), Code::kNotFound);
    }
    struct stat found {};
    if (::lstat(folder.c_str(), &found) != 0) return errno_status("lstat of " + printable(folder));
    if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 077) != 0) {
      return {Code::kPermissionDenied,
              printable(folder) + " is not a folder of this user alone; remove it"};
    }
    return {};
  }
  const bool is_new = fs::create_directories(folder, error);
  if (is_new) fs::permissions(folder, fs::perms::owner_all, error);  // images may be private
  if (!error) return {};
  return {Code::kNotFound, "cannot make " + printable(folder) + ": " + error.message() +
                               "; make it for this user, or give another folder on a local disk"};
}

fs::path memory_folder() { return "/dev/shm/phub-cache-" + std::to_string(::geteuid()); }

std::vector<fs::path> stores_in(const fs::path& folder) {
  std::vector<fs::path> stores;
  for (const std::string& name : names_in(folder.native())) {
    if (is_store_name(name) && !is_partial(name)) stores.push_back(folder / name);
  }
  return stores;
}

StoreInfo look_at(const fs::path& store) {
  StoreInfo info{.path = store,
                 .about = about_of(store),
                 .bytes = data_bytes(store),
                 .used_s = used_last(store)};
  const UniqueFd index = open_index(store);
  const auto header = read_header(store, index);
  info.status = header ? Status() : header.error();
  if (!header) return info;
  info.samples = header->samples;
  info.status = each_entry(store, index, info.samples,
                           [&](std::uint64_t, const StoreEntry&) { ++info.kept; });
  info.is_used = is_used(store);
  return info;
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const fs::path& store : stores_in(folder)) bytes += data_bytes(store);
  return bytes;
}

bool free_for(const fs::path& folder, std::uint64_t bytes, std::uint64_t bytes_max,
              Removal& removal) {
  if (bytes > bytes_max) return false;
  std::vector<fs::path> stores = stores_in(folder);
  std::uint64_t all = 0;
  for (const fs::path& store : stores) all += data_bytes(store);
  if (all + bytes <= bytes_max) return true;
  std::stable_sort(stores.begin(), stores.end(), [](const fs::path& a, const fs::path& b) {
    return used_last(a) < used_last(b);
  });
  for (const fs::path& store : stores) {
    const std::uint64_t freed = data_bytes(store);
    if (freed == 0 || !removal.add(store).ok()) continue;
    all -= freed;
    if (all + bytes <= bytes_max) return true;
  }
  return false;
}

// The new name is none of a store: whoever stops in the middle of a removal leaves no half store.
Status Removal::add(const fs::path& store) {
  if (is_used(store)) {
    return {Code::kFailedPrecondition,
            printable(store) + " is used by a process; wait for its end"};
  }
  fs::path gone = store.native() + ".gone" + kPartialEnding;
  std::error_code error;
  fs::remove_all(gone, error);  // of one that was stopped
  fs::rename(store, gone, error);
  if (error) {
    return {Code::kInternal, "cannot remove " + printable(store) + ": " + error.message()};
  }
  gone_.push_back(std::move(gone));
  return {};
}

void Removal::add_remnants(const fs::path& folder) {
  for (const std::string& name : names_in(folder.native())) {
    if (is_store_name(name) && is_partial(name)) gone_.push_back(folder / name);
  }
}

Removal::~Removal() {
  std::error_code error;
  for (const fs::path& path : gone_) fs::remove_all(path, error);
}

Result<VerifyReport> verify(const fs::path& store) {
  const UniqueFd index = open_index(store);
  const UniqueFd data(::open((store / kDataFile).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  PHUB_ASSIGN_OR_RETURN(const StoreHeader header, read_header(store, index));
  VerifyReport report;
  std::vector<std::uint8_t> content;
  const std::uint64_t size = data_bytes(store);
  PHUB_RETURN_IF_ERROR(
      each_entry(store, index, header.samples, [&](std::uint64_t sample, const StoreEntry& entry) {
        ++report.samples;
        report.bytes += entry.bytes;
        const bool is_within = entry.offset <= size && size - entry.offset >= entry.bytes;
        content.resize(is_within ? entry.bytes : 0);
        if (!is_within || !read_fully(data.get(), entry.offset, content) ||
            crc32c(std::as_bytes(std::span<const std::uint8_t>(content))) != entry.content_crc) {
          report.damaged.push_back(sample);
        }
      }));
  return report;
}

}  // namespace phub::data::cache
