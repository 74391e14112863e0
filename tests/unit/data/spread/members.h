// Members of a spread set in one process, over sources that count what is read from them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/samples/sample_stream.h"
#include "worker/data/spread/spread_set.h"

namespace phub::data {

inline constexpr std::chrono::milliseconds kLongEnough{60'000};
inline constexpr std::uint64_t kSamples = 101;
inline constexpr std::uint64_t kPlenty = 64ULL << 20U;  // of memory

inline std::vector<std::uint8_t> bytes_of(std::uint64_t sample) {
  std::mt19937 random(static_cast<std::uint32_t>(sample) + 1);
  std::vector<std::uint8_t> bytes(40 + random() % 200);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

// The sum of an epoch over all members.
inline std::uint64_t whole_sum() {
  std::uint64_t sum = 0;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    sum += receipt_hash(sample, bytes_of(sample));
  }
  return sum;
}

// What members share: a store that counts.
struct Store {
  explicit Store(std::uint64_t samples, std::uint64_t damaged_sample = ~std::uint64_t{0})
      : damaged(damaged_sample), reads(samples) {}

  std::uint16_t label = 0;             // of each sample
  std::uint64_t large = kSamples;      // this sample, and the next one, have 20,000 bytes
  std::atomic<bool> is_closed{false};  // nothing can be read
  std::atomic<bool> is_short{false};   // samples have half of their bytes
  std::shared_future<void> gate{};     // all reads wait for it, where there is one

  const std::uint64_t damaged;          // cannot be read
  std::vector<std::atomic<int>> reads;  // of each sample
  std::atomic<std::uint64_t> bytes{0};

  int most_reads() const {
    int most = 0;
    for (const auto& each : reads) most = std::max(most, each.load());
    return most;
  }
  int all_reads() const {
    int all = 0;
    for (const auto& each : reads) all += each.load();
    return all;
  }
};

class StoredSet final : public SampleSet {
 public:
  explicit StoredSet(Store& store) : store_(store) {}

  std::uint64_t samples() const override { return store_.reads.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::uint16_t label(std::uint64_t) const override { return store_.label; }
  std::string name(std::uint64_t sample) const override { return std::to_string(sample); }
  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override {
    ++store_.reads[sample];
    if (store_.gate.valid()) store_.gate.wait_for(kLongEnough);
    if (sample == store_.damaged) return Status(Code::kDataLoss, "it is damaged");
    if (store_.is_closed) return Status(Code::kUnavailable, "it is closed");
    buffer = bytes_of(sample);
    if (sample == store_.large || sample == store_.large + 1) buffer.resize(20'000);
    if (store_.is_short) buffer.resize(buffer.size() / 2);
    store_.bytes += buffer.size();
    return std::span<const std::uint8_t>(buffer);
  }

 private:
  Store& store_;
  const std::vector<std::string> classes_ = {"one"};
};

// The sets whose samples have label 0 have this number.
inline std::uint32_t content_here() {
  Store store(kSamples);
  return static_cast<std::uint32_t>(StoredSet(store).content_number());
}

// Asks the holders of this process.
class NearLinks final : public PeerLinks {
 public:
  enum class Manner { kHonest, kDead, kForges, kRefuses, kHasOtherSet };
  struct Other {
    Holder* holder = nullptr;
    std::atomic<Manner> manner{Manner::kHonest};
    std::atomic<int> dropped{0};  // by others
  };

  NearLinks(std::vector<std::unique_ptr<Other>>& others, std::uint32_t largest)
      : others_(others), largest_(largest) {}

  PeerAnswer ask(std::uint32_t member, std::uint64_t sample,
                 std::vector<std::uint8_t>& buffer) override {
    using Outcome = PeerAnswer::Outcome;
    Other& other = *others_[member];
    {
      const std::lock_guard lock(mutex_);
      const auto dropped = dropped_.find(member);
      if (dropped != dropped_.end()) return {.outcome = Outcome::kGone, .why = dropped->second};
    }
    const Manner manner = other.manner;
    if (manner == Manner::kHasOtherSet) return {.outcome = Outcome::kOtherSet};
    if (manner == Manner::kDead) return {.outcome = Outcome::kGone, .why = "it has closed"};
    if (manner == Manner::kRefuses) return {.outcome = Outcome::kNotHeld};
    const auto promise = std::make_shared<std::promise<std::optional<Holder::Held>>>();
    other.holder->want(sample, Holder::Clock::time_point::max(),
                       [promise](const auto& reply) { promise->set_value(reply.held); });
    auto future = promise->get_future();
    if (future.wait_for(kLongEnough) != std::future_status::ready) {
      return {.outcome = Outcome::kGone, .why = "it has not answered"};
    }
    const auto held = future.get();
    if (!held) return {.outcome = Outcome::kNotHeld};
    if (held->bytes.size() > largest_) return {.outcome = Outcome::kTooLarge};
    buffer.assign(held->bytes.begin(), held->bytes.end());
    if (manner == Manner::kForges) buffer.front() ^= 1U;
    return {.outcome = Outcome::kBytes, .checksum = held->checksum};
  }
  void drop(std::uint32_t member, const std::string& why) override {
    const std::lock_guard lock(mutex_);
    dropped_.emplace(member, why);
    ++others_[member]->dropped;
  }
  std::string name(std::uint32_t member) const override {
    return "worker " + std::to_string(member);
  }

 private:
  std::vector<std::unique_ptr<Other>>& others_;
  const std::uint32_t largest_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::string> dropped_;  // why
};

class Notes {
 public:
  std::function<void(std::string_view)> note() {
    return [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      all_.emplace_back(text);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

}  // namespace phub::data
