#include "worker/data/formats/shards/shard_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

// Adds the shards in `folder` whose names begin with `start`.
Status add_shards(const fs::path& folder, std::string_view start, ShardKind kind,
                  std::vector<fs::path>& shards) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (!name.starts_with(start)) continue;
    PHUB_RETURN_IF_ERROR(check_not_compressed(name, kind, printable(entry->path())));
    if (is_shard_name(name, kind)) shards.push_back(entry->path());
    if (shards.size() > kMaxShards) {
      return {Code::kInvalidArgument, printable(folder) + " has more than " +
                                          std::to_string(kMaxShards) + " shards; make larger ones"};
    }
  }
  if (error) return {Code::kNotFound, "cannot list " + printable(folder) + ": " + error.message()};
  return {};
}

Status no_shards(const fs::path& folder, Split split, ShardKind kind) {
  const std::string name(name_of(split));
  const std::string wanted = kind == ShardKind::kTar
                                 ? name + "-*.tar and no " + name + "/*.tar"
                                 : name + "-*.tfrecord and no " + name + "-NNNNN-of-NNNNN";
  const std::string others = split == Split::kTrain ? "" : " (nor with val or validation)";
  return {Code::kNotFound, printable(folder) + " has no " + wanted + others};
}

}  // namespace

Result<std::vector<fs::path>> shards_of(const fs::path& folder, Split split, ShardKind kind) {
  std::vector<fs::path> shards;
  std::string where;
  const auto take = [&](const fs::path& in, const std::string& start,
                        const std::string& pattern) -> Status {
    std::vector<fs::path> found;
    PHUB_RETURN_IF_ERROR(add_shards(in, start, kind, found));
    if (!found.empty() && !shards.empty()) {
      return {Code::kInvalidArgument, printable(folder) + " has both " + where + " and " + pattern +
                                          "; leave one of them there"};
    }
    if (found.empty()) return {};
    shards = std::move(found);
    where = pattern;
    return {};
  };
  for (const std::string& prefix : words_of(split)) {
    PHUB_RETURN_IF_ERROR(take(folder, prefix + "-", prefix + "-*"));
    std::error_code error;
    if (kind == ShardKind::kTar && fs::is_directory(folder / prefix, error)) {
      PHUB_RETURN_IF_ERROR(take(folder / prefix, "", prefix + "/*.tar"));
    }
  }
  if (shards.empty()) return no_shards(folder, split, kind);
  std::sort(shards.begin(), shards.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  std::vector<std::string> names;
  for (const fs::path& shard : shards) names.push_back(shard.filename().native());
  PHUB_RETURN_IF_ERROR(check_complete(names, printable(shards.front())));
  return shards;
}

}  // namespace phub::data
