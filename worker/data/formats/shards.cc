#include "worker/data/formats/shards.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "worker/data/formats/fingerprint.h"

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

Result<ShardIndex> ShardIndex::create(const std::vector<fs::path>& shards, const Scan& scan) {
  ShardIndex index;
  for (const fs::path& path : shards) {
    PHUB_ASSIGN_OR_RETURN(const SourceFile file, SourceFile::open(path));
    index.shards_.push_back({path, file.identity()});
    PHUB_RETURN_IF_ERROR(scan(file, index));
  }
  if (index.entries_.empty()) {
    return Status(Code::kInvalidArgument,
                  printable(shards.front()) + " and the other shards have no samples");
  }
  index.entries_.shrink_to_fit();
  std::uint64_t largest = 0;
  for (const ShardEntry& entry : index.entries_)
    largest = std::max<std::uint64_t>(largest, entry.label);
  for (std::uint64_t i = 0; i <= largest; ++i) index.classes_.push_back(std::to_string(i));
  return index;
}

Status ShardIndex::add(const SourceFile& file, std::uint64_t offset, std::uint64_t bytes,
                       std::uint64_t label) {
  if (bytes == 0 || bytes > kMaxSampleBytes) {
    return file.refused(offset, "a sample of " + std::to_string(bytes) +
                                    " bytes; it may have 1 to " + std::to_string(kMaxSampleBytes) +
                                    ": leave it out");
  }
  if (label >= kMaxClasses) {
    return file.refused(offset, "label " + std::to_string(label) + "; the largest is " +
                                    std::to_string(kMaxClasses - 1) + ": number the classes anew");
  }
  if (entries_.size() >= kMaxSamples) {
    return file.refused(offset, "more than " + std::to_string(kMaxSamples) +
                                    " samples; leave some of the shards out");
  }
  entries_.push_back({.offset = offset,
                      .bytes = static_cast<std::uint32_t>(bytes),
                      .shard = static_cast<std::uint16_t>(shards_.size() - 1),
                      .label = static_cast<std::uint16_t>(label)});
  return {};
}

Result<SourceFile> ShardIndex::file_of(std::uint64_t sample) const {
  const Shard& shard = shards_[entries_[sample].shard];
  return SourceFile::reopen(shard.path, shard.identity);
}

std::string ShardIndex::name(std::uint64_t sample) const {
  const ShardEntry& entry = entries_[sample];
  return printable(shards_[entry.shard].path) + " at offset " + std::to_string(entry.offset);
}

std::uint64_t ShardIndex::index_bytes() const {
  std::uint64_t bytes = entries_.capacity() * sizeof(ShardEntry);
  for (const Shard& shard : shards_) bytes += sizeof(Shard) + shard.path.native().size();
  return bytes + classes_.size() * sizeof(std::string);
}

std::uint64_t ShardIndex::fingerprint() const {
  Fingerprint number;
  for (const Shard& shard : shards_) {
    std::error_code error;
    number.add(fs::absolute(shard.path, error).native())
        .add(shard.identity.bytes)
        .add(static_cast<std::uint64_t>(shard.identity.written_s))
        .add(static_cast<std::uint64_t>(shard.identity.written_ns));
  }
  // Samples are numbered as this program reads the shards.
  const std::string_view entries(reinterpret_cast<const char*>(entries_.data()),
                                 entries_.size() * sizeof(ShardEntry));
  return number.add(entries).value();
}

std::uint64_t ShardIndex::content_number() const {
  Fingerprint number;
  for (const ShardEntry& entry : entries_) {
    number.add(entry.offset)
        .add(std::uint64_t{entry.bytes} << 32U | std::uint64_t{entry.shard} << 16U | entry.label);
  }
  return number.value();
}

}  // namespace phub::data
