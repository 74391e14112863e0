#include "server/snapshot/newest_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/folder.h"
#include "server/snapshot/names.h"

namespace phub::server {

NewestFiles newest_files(const std::string& folder,
                         const std::function<bool(std::optional<std::uint32_t> tenant_id)>& sees,
                         std::size_t most) {
  NewestFiles newest;
  for (const std::string& tenant : names_in(folder)) {
    if (!sees(tenant_id_of_folder(tenant))) continue;
    for (const std::string& name : names_in(folder + "/" + tenant)) {
      std::optional<SnapshotName> known = parse_snapshot_name(name);
      struct stat status {};
      if (!known || ::stat((folder + "/" + tenant + "/" + name).c_str(), &status) != 0) continue;
      newest.files.push_back({.file = tenant + "/" + name,
                              .job = std::move(known->job),
                              .tenant = tenant_of_snapshot_folder(tenant),
                              .round = known->round,
                              .bytes = static_cast<std::uint64_t>(status.st_size),
                              .unix_s = status.st_mtim.tv_sec});
    }
  }
  newest.in_all = newest.files.size();
  const std::size_t shown = std::min(most, newest.in_all);
  std::partial_sort(newest.files.begin(), newest.files.begin() + static_cast<std::ptrdiff_t>(shown),
                    newest.files.end(), [](const SnapshotFile& a, const SnapshotFile& b) {
                      return std::tie(b.unix_s, b.round, b.file) <
                             std::tie(a.unix_s, a.round, a.file);
                    });
  newest.files.resize(shown);
  return newest;
}

}  // namespace phub::server
