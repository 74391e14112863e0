// The newest snapshots of a folder, by their files' names, sizes and times alone.
//
// For who asks often: no file is opened, so a list costs the same however many keys the jobs have.
// What a file says of itself is in SnapshotStore::list. Pure reads; any control thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace phub::server {

struct SnapshotFile {
  std::string file;    // below the folder: what SnapshotStore::verify takes
  std::string job;     // as its name was; the end of a very long one is cut
  std::string tenant;  // likewise, or another folder's name
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
  std::int64_t unix_s = 0;  // when it was written
};

struct NewestFiles {
  std::vector<SnapshotFile> files;  // the newest first
  std::size_t in_all = 0;
};

// At most `most` files of those folders that `sees` allows, told by SnapshotStore::tenant_id_of.
// Files with other names are left out.
NewestFiles newest_files(const std::string& folder,
                         const std::function<bool(std::optional<std::uint32_t> tenant_id)>& sees,
                         std::size_t most);

}  // namespace phub::server
