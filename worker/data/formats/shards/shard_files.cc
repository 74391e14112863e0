#include "worker/data/formats/shards/shard_files.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>

#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array kCompressed = {".gz", ".tgz", ".bz2", ".xz", ".zst", ".lz4", ".zip"};

std::vector<std::string> prefixes_of(Split split) {
  if (split == Split::kTrain) return {"train"};
  return {"test", "val", "validation"};
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The N of "...-of-N"; empty for another name.
std::string_view total_in(std::string_view name) {
  const std::size_t place = name.rfind("-of-");
  if (place == std::string_view::npos || !all_digits(name.substr(place + 4))) return {};
  return name.substr(place + 4);
}

bool is_shard(std::string_view name, ShardKind kind) {
  if (kind == ShardKind::kTar) return name.ends_with(".tar");
  return name.ends_with(".tfrecord") || !total_in(name).empty();
}

// train-0.tar.gz, train-0.tgz, train-0.tfrecord.gz and train-0-of-2.gz.
bool is_compressed_shard(std::string_view name, ShardKind kind) {
  for (const std::string_view ending : kCompressed) {
    if (!name.ends_with(ending)) continue;
    if (ending == ".tgz") return kind == ShardKind::kTar;
    return is_shard(name.substr(0, name.size() - ending.size()), kind);
  }
  return false;
}

// Adds the shards in `folder` whose names begin with `start`.
Status add_shards(const fs::path& folder, std::string_view start, ShardKind kind,
                  std::vector<fs::path>& shards) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (!name.starts_with(start)) continue;
    if (is_compressed_shard(name, kind)) {
      return {Code::kInvalidArgument,
              printable(entry->path()) +
                  " is compressed; decompress it: samples are read where they lie, and JPEG and "
                  "PNG hardly become smaller"};
    }
    if (is_shard(name, kind)) shards.push_back(entry->path());
    if (shards.size() > kMaxShards) {
      return {Code::kInvalidArgument, printable(folder) + " has more than " +
                                          std::to_string(kMaxShards) + " shards; make larger ones"};
    }
  }
  if (error) return {Code::kNotFound, "cannot list " + printable(folder) + ": " + error.message()};
  return {};
}

// Shards that say how many there are must all be there.
Status check_complete(const std::vector<fs::path>& shards) {
  // If this one's total is that of all, so is every other's.
  const fs::path& shard = shards.front();
  const std::string name = shard.filename().native();
  const std::string total(total_in(name));
  if (total.empty()) return {};
  const auto is_of_it = [&](const fs::path& other) {
    return total_in(other.filename().native()) == total;
  };
  const auto of_it = std::count_if(shards.begin(), shards.end(), is_of_it);
  if (total.size() <= 6 && std::stol(total) == of_it &&
      static_cast<std::size_t>(of_it) == shards.size()) {
    return {};
  }
  return {Code::kInvalidArgument, printable(shard) + " is one of " + total + " shards, but " +
                                      std::to_string(of_it) + " of them and " +
                                      std::to_string(shards.size()) +
                                      " shards in all are there; fetch or remove the others"};
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
  for (const std::string& prefix : prefixes_of(split)) {
    PHUB_RETURN_IF_ERROR(take(folder, prefix + "-", prefix + "-*"));
    std::error_code error;
    if (kind == ShardKind::kTar && fs::is_directory(folder / prefix, error)) {
      PHUB_RETURN_IF_ERROR(take(folder / prefix, "", prefix + "/*.tar"));
    }
  }
  if (shards.empty()) return no_shards(folder, split, kind);
  std::sort(shards.begin(), shards.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  PHUB_RETURN_IF_ERROR(check_complete(shards));
  return shards;
}

}  // namespace phub::data
