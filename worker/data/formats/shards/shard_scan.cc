#include "worker/data/formats/shards/shard_scan.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "worker/data/formats/sample_set.h"

namespace phub::data {
namespace {

// Counts what is read of a file.
class CountedSource final : public ByteSource {
 public:
  CountedSource(const ByteSource& file, std::atomic<std::uint64_t>& bytes)
      : file_(file), bytes_(bytes) {}

  std::string name() const override { return file_.name(); }
  std::uint64_t bytes() const override { return file_.bytes(); }
  Status read(std::uint64_t offset, std::span<std::uint8_t> into) const override {
    bytes_.fetch_add(into.size(), std::memory_order_relaxed);
    return file_.read(offset, into);
  }

 private:
  const ByteSource& file_;
  std::atomic<std::uint64_t>& bytes_;
};

class Pass {
 public:
  Pass(const Shards& shards, const ScanShard& scan) : shards_(shards), scan_(scan) {
    found_.resize(shards.size());
  }

  Result<std::vector<ShardEntry>> run(const ScanOptions& options) {
    std::vector<std::thread> threads;
    const std::size_t wanted = std::min<std::size_t>(options.threads, shards_.size());
    for (std::size_t i = 0; i < wanted; ++i) threads.emplace_back([this] { work(); });
    wait(options.on_progress);
    for (std::thread& thread : threads) thread.join();
    if (!failure_.ok()) return failure_;
    if (is_stopped_) {
      return Status(Code::kAborted, "stopped after " + std::to_string(done_) + " of " +
                                        std::to_string(shards_.size()) + " shards");
    }
    std::vector<ShardEntry> all;
    all.reserve(counts_.samples.load());
    for (std::vector<ShardEntry>& each : found_) {
      all.insert(all.end(), each.begin(), each.end());
      each = {};
    }
    return all;
  }

 private:
  // One thread's part: the next shard that nobody has, until there is none.
  void work() {
    for (;;) {
      const std::size_t shard = next_.fetch_add(1, std::memory_order_relaxed);
      if (shard >= shards_.size() || counts_.is_stopped.load(std::memory_order_relaxed)) return;
      const Status status = scan_one(shard);
      const std::lock_guard lock(mutex_);
      ++done_;
      if (!status.ok()) fail(shard, status);
      moved_.notify_one();
    }
  }

  Status scan_one(std::size_t shard) {
    PHUB_ASSIGN_OR_RETURN(const auto file, shards_[shard]->open());
    const CountedSource counted(*file, counts_.bytes);
    ShardSamples samples(shard, counts_);
    PHUB_RETURN_IF_ERROR(scan_(counted, samples));
    found_[shard] = samples.take();
    return {};
  }

  // Those that a failure has stopped have none of their own.
  void fail(std::size_t shard, const Status& status) {
    if (status.code() != Code::kAborted && shard < failed_) {
      failed_ = shard;
      failure_ = status;
    }
    counts_.is_stopped.store(true, std::memory_order_relaxed);
  }

  // Until all shards are done, or something stops the pass.
  void wait(const OnProgress& on_progress) {
    constexpr std::chrono::milliseconds kRedraw{100};
    std::unique_lock lock(mutex_);
    for (;;) {
      const std::uint64_t done = done_;
      if (done == shards_.size() || !failure_.ok()) break;
      lock.unlock();
      const bool goes_on =
          !on_progress ||
          on_progress({.samples = done, .of = shards_.size(), .bytes = counts_.bytes.load()});
      lock.lock();
      if (!goes_on) {
        is_stopped_ = true;
        counts_.is_stopped.store(true, std::memory_order_relaxed);
        break;
      }
      moved_.wait_for(lock, kRedraw, [&] { return done_ != done || !failure_.ok(); });
    }
    lock.unlock();
    if (on_progress) on_progress({.samples = shards_.size(), .of = shards_.size()});
  }

  const Shards& shards_;
  const ScanShard& scan_;
  ScanCounts counts_;
  std::vector<std::vector<ShardEntry>> found_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // of what follows
  std::condition_variable moved_;
  std::size_t done_ = 0;
  std::size_t failed_ = SIZE_MAX;
  Status failure_;
  bool is_stopped_ = false;
};

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
  if (counts_->samples.fetch_add(1, std::memory_order_relaxed) >= kMaxSamples) {
    return file.refused(offset, "more than " + std::to_string(kMaxSamples) +
                                    " samples; leave some of the shards out");
  }
  if (counts_->is_stopped.load(std::memory_order_relaxed)) return {Code::kAborted, "stopped"};
  entries_.push_back({.offset = offset,
                      .bytes = static_cast<std::uint32_t>(bytes),
                      .shard = static_cast<std::uint16_t>(shard_),
                      .label = static_cast<std::uint16_t>(label)});
  return {};
}

Result<std::vector<ShardEntry>> scan_shards(const Shards& shards, const ScanShard& scan,
                                            const ScanOptions& options) {
  return Pass(shards, scan).run(options);
}

}  // namespace phub::data
