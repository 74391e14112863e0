#include "server/snapshot/index.h"

#include <sys/stat.h>

#include <utility>

#include "common/base/folder.h"
#include "server/snapshot/file.h"
#include "server/snapshot/names.h"

namespace phub::server {

std::optional<SnapshotIndex::Stamp> SnapshotIndex::stamp_of(const std::filesystem::path& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return Stamp{.inode = found.st_ino,
               .bytes = static_cast<std::uint64_t>(found.st_size),
               .changed_ns = found.st_ctim.tv_sec * kNanoseconds + found.st_ctim.tv_nsec};
}

std::optional<SnapshotInfo> SnapshotIndex::read(const std::filesystem::path& path,
                                                const std::string& file, std::uint64_t bytes) {
  const auto metadata = read_safetensors_metadata(path);
  if (!metadata) return std::nullopt;
  auto head = head_of(*metadata);
  if (!head) return std::nullopt;
  return SnapshotInfo{.file = file,
                      .tenant = std::move(head->tenant),
                      .tenant_id = tenant_id_of_folder(file.substr(0, file.find('/'))),
                      .job = std::move(head->spec.name),
                      .round = head->round,
                      .bytes = bytes,
                      .created = std::move(head->created),
                      .sha256 = std::move(head->sha256)};
}

// Headers are read without the mutex, so a list of another folder does not wait. A header that two
// threads want at once is read twice.
std::vector<SnapshotInfo> SnapshotIndex::list(const std::filesystem::path& folder,
                                              const std::string& name) {
  Folder known;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = folders_.find(name); found != folders_.end()) known = found->second;
  }
  Folder now;
  std::vector<SnapshotInfo> snapshots;
  const std::filesystem::path path = folder / name;
  for (const std::string& file : names_in(path.string())) {
    if (!file.ends_with(kSnapshotSuffix)) continue;
    const auto stamp = stamp_of(path / file);
    if (!stamp) continue;
    const auto same = known.find(file);
    const bool is_known = same != known.end() && same->second.stamp == *stamp;
    Entry entry = is_known ? std::move(same->second)
                           : Entry{*stamp, read(path / file, name + "/" + file, stamp->bytes)};
    if (entry.info) snapshots.push_back(*entry.info);
    now.emplace(file, std::move(entry));
  }
  const std::lock_guard lock(mutex_);
  if (now.empty()) {
    folders_.erase(name);
  } else {
    folders_[name] = std::move(now);
  }
  return snapshots;
}

}  // namespace phub::server
