// What is known of the store's files, so that the header of each is read once: it names every key
// of its job and takes a second to parse.
//
// Part of the SnapshotStore; any thread. An entry holds as long as its file is the same: another
// file under its name has another size, time or inode. As many entries as files that were listed.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/snapshot/info.h"

namespace phub::server {

class SnapshotIndex {
 public:
  // Lists the folder `name` below the store's `folder`. Files that are no snapshots are left out.
  std::vector<SnapshotInfo> list(const std::filesystem::path& folder, const std::string& name);

 private:
  struct Stamp {
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Entry {
    Stamp stamp;
    std::optional<SnapshotInfo> info;  // nothing: it is no snapshot
  };
  using Folder = std::map<std::string, Entry>;  // by name

  static std::optional<Stamp> stamp_of(const std::filesystem::path& path);
  static std::optional<SnapshotInfo> read(const std::filesystem::path& path,
                                          const std::string& file, std::uint64_t bytes);

  std::mutex mutex_;
  std::map<std::string, Folder> folders_;
};

}  // namespace phub::server
