#include "worker/data/cache/cached_set.h"

#include <utility>

namespace phub::data::cache {
namespace {

class CachedSet final : public SampleSet {
 public:
  CachedSet(std::unique_ptr<SampleSet> set, std::unique_ptr<SampleStore> store)
      : set_(std::move(set)), store_(std::move(store)) {}

  std::uint64_t samples() const override { return set_->samples(); }
  const std::vector<std::string>& classes() const override { return set_->classes(); }
  std::uint16_t label(std::uint64_t sample) const override { return set_->label(sample); }
  std::string name(std::uint64_t sample) const override { return set_->name(sample); }
  std::uint64_t index_bytes() const override { return set_->index_bytes(); }
  std::uint64_t fingerprint() const override { return set_->fingerprint(); }
  std::uint64_t content_number() const override { return set_->content_number(); }
  ReadCounts reads() const override {
    return {.source = source_.load(std::memory_order_relaxed),
            .disk = disk_.load(std::memory_order_relaxed)};
  }

  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override {
    if (const auto copy = store_->read(sample, buffer)) {
      disk_.fetch_add(1, std::memory_order_relaxed);
      return *copy;
    }
    auto bytes = set_->read(sample, buffer);
    source_.fetch_add(1, std::memory_order_relaxed);
    if (bytes) store_->keep(sample, *bytes);
    return bytes;
  }

  bool has_copies() const override { return true; }
  Result<std::span<const std::uint8_t>> deliver_anew(std::uint64_t sample,
                                                     std::vector<std::uint8_t>& buffer,
                                                     Receipt& receipt) const override {
    auto bytes = set_->deliver_anew(sample, buffer, receipt);
    source_.fetch_add(1, std::memory_order_relaxed);
    if (bytes) store_->replace(sample, *bytes);
    return bytes;
  }

 private:
  std::unique_ptr<SampleSet> set_;
  std::unique_ptr<SampleStore> store_;
  mutable std::atomic<std::uint64_t> source_{0}, disk_{0};
};

}  // namespace

std::unique_ptr<SampleSet> cached_set(std::unique_ptr<SampleSet> set,
                                      std::unique_ptr<SampleStore> store) {
  return std::make_unique<CachedSet>(std::move(set), std::move(store));
}

}  // namespace phub::data::cache
