#include "worker/data/formats/shards/shard_set.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/text/url.h"
#include "worker/data/formats/shards/kept_index.h"
#include "worker/data/formats/shards/shard_files.h"
#include "worker/data/formats/shards/shard_urls.h"

namespace phub::data {
namespace {

class ShardSet final : public SampleSet {
 public:
  ShardSet(std::unique_ptr<const ShardFormat> format, Shards shards,
           std::vector<ShardEntry> entries)
      : format_(std::move(format)), shards_(std::move(shards)), entries_(std::move(entries)) {
    std::uint64_t largest = 0;
    for (const ShardEntry& entry : entries_) {
      largest = std::max<std::uint64_t>(largest, entry.label);
    }
    for (std::uint64_t i = 0; i <= largest; ++i) classes_.push_back(std::to_string(i));
  }

  std::uint64_t samples() const override { return entries_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::uint16_t label(std::uint64_t sample) const override { return entries_[sample].label; }

  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override {
    const ShardEntry& entry = entries_[sample];
    PHUB_ASSIGN_OR_RETURN(const auto file, shards_[entry.shard]->open());
    return format_->read(*file, entry, buffer);
  }

  std::string name(std::uint64_t sample) const override {
    const ShardEntry& entry = entries_[sample];
    return shards_[entry.shard]->name() + " at offset " + std::to_string(entry.offset);
  }

  std::uint64_t index_bytes() const override {
    std::uint64_t bytes = entries_.capacity() * sizeof(ShardEntry);
    for (const auto& shard : shards_) bytes += shard->memory_bytes();
    return bytes + classes_.size() * sizeof(std::string);
  }

  // It depends on the shards' places, sizes and times, and on where samples lie in them: they are
  // numbered as this program reads the shards.
  std::uint64_t fingerprint() const override {
    Fingerprint number;
    for (const auto& shard : shards_) shard->add_to(number);
    const std::string_view entries(reinterpret_cast<const char*>(entries_.data()),
                                   entries_.size() * sizeof(ShardEntry));
    return number.add(entries).value();
  }

  // It depends on where the samples lie in the shards, and on their labels.
  std::uint64_t content_number() const override {
    Fingerprint number;
    for (const ShardEntry& entry : entries_) {
      number.add(entry.offset)
          .add(std::uint64_t{entry.bytes} << 32U | std::uint64_t{entry.shard} << 16U | entry.label);
    }
    return number.value();
  }

 private:
  std::unique_ptr<const ShardFormat> format_;
  Shards shards_;
  std::vector<ShardEntry> entries_;
  std::vector<std::string> classes_;
};

// Requests of one opening that wait for their answers at the same time.
constexpr std::uint32_t kFarThreads = 32;

Result<Shards> shards_at(const std::filesystem::path& path, Split split, ShardKind kind,
                         const OpenOptions& options) {
  if (!is_url(path.native())) {
    PHUB_ASSIGN_OR_RETURN(const auto paths, shards_of(path, split, kind));
    return local_shards(paths);
  }
  PHUB_ASSIGN_OR_RETURN(const auto urls, shard_urls(path.native(), split, kind));
  return web_shards(urls, {.threads = kFarThreads, .on_progress = options.on_progress});
}

// Null where nothing is kept: of this machine's files, and of files whose change nothing would
// tell.
Result<std::unique_ptr<IndexStore>> store_of(const Shards& shards, const ShardFormat& format,
                                             const OpenIndexStore& open) {
  Fingerprint number;
  number.add(kKeptIndexVersion);
  format.add_to(number);
  bool is_known = static_cast<bool>(open);
  for (const auto& shard : shards) {
    is_known = is_known && shard->is_far() && shard->is_known();
    shard->add_to(number);
  }
  if (!is_known) return std::unique_ptr<IndexStore>();
  return open(shards.size(), number.value());
}

}  // namespace

Result<std::unique_ptr<SampleSet>> open_shard_set(const std::filesystem::path& path, Split split,
                                                  ShardKind kind,
                                                  std::unique_ptr<const ShardFormat> format,
                                                  const OpenOptions& options) {
  PHUB_ASSIGN_OR_RETURN(Shards shards, shards_at(path, split, kind, options));
  const auto scan = [&](const ByteSource& file, ShardSamples& into) {
    return format->scan(file, into);
  };
  PHUB_ASSIGN_OR_RETURN(const auto store, store_of(shards, *format, options.open_index_store));
  const std::uint32_t threads = shards.front()->is_far() ? kFarThreads : 1;
  PHUB_ASSIGN_OR_RETURN(
      std::vector<ShardEntry> entries,
      scan_shards(shards, scan,
                  {.threads = threads, .on_progress = options.on_progress, .store = store.get()}));
  if (entries.empty()) {
    return Status(Code::kInvalidArgument,
                  shards.front()->name() + " and the other shards have no samples");
  }
  return std::unique_ptr<SampleSet>(
      std::make_unique<ShardSet>(std::move(format), std::move(shards), std::move(entries)));
}

}  // namespace phub::data
