#include "server/snapshot/newest_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/folder.h"
#include "server/snapshot/store.h"

namespace phub::server {
namespace {

// The name that SnapshotStore wrote with %XX for each byte that is no letter, digit, '-' or '_'.
std::string decoded(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      name += static_cast<char>(byte);
      i += 2;
    } else {
      name += text[i];
    }
  }
  return name;
}

// Without what tells cut names and tenants of one name apart.
std::string name_of(std::string_view text) { return decoded(text.substr(0, text.find('~'))); }

// "JOB.ROUND.safetensors" or "JOB.ROUND.worker.safetensors".
std::optional<SnapshotFile> parse(std::string_view name) {
  for (const std::string_view suffix : {".worker.safetensors", ".safetensors"}) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return {};
    SnapshotFile file{.file = {}, .job = name_of(name.substr(0, dot)), .tenant = {}};
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + dot + 1, end, file.round);
    if (parsed.ec != std::errc() || parsed.ptr != end) return {};
    return file;
  }
  return {};
}

}  // namespace

NewestFiles newest_files(const std::string& folder,
                         const std::function<bool(std::optional<std::uint32_t> tenant_id)>& sees,
                         std::size_t most) {
  NewestFiles newest;
  for (const std::string& tenant : names_in(folder)) {
    if (!sees(SnapshotStore::tenant_id_of(tenant + "/"))) continue;
    for (const std::string& name : names_in(folder + "/" + tenant)) {
      std::optional<SnapshotFile> file = parse(name);
      struct stat status {};
      if (!file || ::stat((folder + "/" + tenant + "/" + name).c_str(), &status) != 0) continue;
      file->file = tenant + "/" + name;
      file->tenant = name_of(tenant);
      file->bytes = static_cast<std::uint64_t>(status.st_size);
      file->unix_s = status.st_mtim.tv_sec;
      newest.files.push_back(std::move(*file));
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
