#include "worker/data/formats/shards/shard_scan.h"

#include <optional>
#include <string>

#include "worker/data/formats/sample_set.h"
#include "worker/data/formats/shards/kept_index.h"

namespace phub::data {
namespace {

// Counts what is read of a file, until the pass is stopped.
class CountedSource final : public ByteSource {
 public:
  CountedSource(const ByteSource& file, std::atomic<std::uint64_t>& bytes,
                const IsStopped& is_stopped)
      : file_(file), bytes_(bytes), is_stopped_(is_stopped) {}

  std::string name() const override { return file_.name(); }
  std::uint64_t bytes() const override { return file_.bytes(); }
  bool is_far() const override { return file_.is_far(); }
  Status read(std::uint64_t offset, std::span<std::uint8_t> into) const override {
    if (is_stopped_()) return {Code::kAborted, "stopped"};
    bytes_.fetch_add(into.size(), std::memory_order_relaxed);
    return file_.read(offset, into);
  }

 private:
  const ByteSource& file_;
  std::atomic<std::uint64_t>& bytes_;
  const IsStopped& is_stopped_;
};

std::optional<std::vector<ShardEntry>> kept_samples(const IndexStore& store, std::size_t shard,
                                                    std::uint64_t file_bytes) {
  std::vector<std::uint8_t> buffer;
  const auto content = store.find(shard, buffer);
  return content ? parse_kept(*content, file_bytes) : std::nullopt;
}

Status add_all(const ByteSource& file, const std::vector<ShardEntry>& entries, ShardSamples& into) {
  for (const ShardEntry& entry : entries) {
    PHUB_RETURN_IF_ERROR(into.add(file, entry.offset, entry.bytes, entry.label));
  }
  return {};
}

}  // namespace

Status ShardSamples::add(const ByteSource& file, std::uint64_t offset, std::uint64_t bytes,
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
  if (all_->fetch_add(1, std::memory_order_relaxed) >= kMaxSamples) {
    return file.refused(offset, "more than " + std::to_string(kMaxSamples) +
                                    " samples; leave some of the shards out");
  }
  entries_.push_back({.offset = offset,
                      .bytes = static_cast<std::uint32_t>(bytes),
                      .shard = static_cast<std::uint16_t>(shard_),
                      .label = static_cast<std::uint16_t>(label)});
  return {};
}

Result<std::vector<ShardEntry>> scan_shards(const Shards& shards, const ScanShard& scan,
                                            const ScanOptions& options) {
  std::vector<std::vector<ShardEntry>> found(shards.size());
  std::atomic<std::uint64_t> samples{0}, bytes{0};
  const auto scan_one = [&](std::size_t shard, const IsStopped& is_stopped) -> Status {
    PHUB_ASSIGN_OR_RETURN(const auto file, shards[shard]->open());
    ShardSamples into(shard, samples);
    const auto kept = options.store != nullptr ? kept_samples(*options.store, shard, file->bytes())
                                               : std::nullopt;
    if (kept) {
      PHUB_RETURN_IF_ERROR(add_all(*file, *kept, into));
    } else {
      PHUB_RETURN_IF_ERROR(scan(CountedSource(*file, bytes, is_stopped), into));
      if (options.store != nullptr) options.store->keep(shard, kept_form(into.entries()));
    }
    found[shard] = into.take();
    return {};
  };
  PHUB_RETURN_IF_ERROR(pass_over(shards.size(),
                                 {.threads = options.threads,
                                  .on_progress = options.on_progress,
                                  .bytes = [&] { return bytes.load(); }},
                                 scan_one));
  std::vector<ShardEntry> all;
  all.reserve(samples.load());
  for (std::vector<ShardEntry>& each : found) {
    all.insert(all.end(), each.begin(), each.end());
    each = {};
  }
  return all;
}

}  // namespace phub::data
