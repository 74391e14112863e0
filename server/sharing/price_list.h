// What pushes cost a core, by kind: the currency of fair shares.
//
// Pushes of one kind have one price for a byte, whoever pushes them: the core time that such pushes
// took lately, with their reading and their replies. A kind is whatever changes that time: the rule
// and what is done besides it, the wire types, workers, racks, the transport, the size to a power
// of two. So jobs that are alike get exchanges in the proportion of their weights, whatever the
// caches do to each of them; jobs that are not alike get core time in it. A job with a quorum is
// like no other: it has Prices of its own (JobOnCore).
//
// Belongs to a core's thread. Only of() allocates, for a kind that is new.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/encoding.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"

namespace phub::server {

// The prices of pushes that differ in their size only.
class Prices {
 public:
  // So many ticks went into pushes of about this size.
  void spent(std::uint32_t bytes, std::uint64_t ticks) { size_of(bytes).ticks += ticks; }

  // So many pushes of this size were served.
  void served(std::uint32_t bytes, std::uint64_t pushes) {
    Size& size = size_of(bytes);
    size.bytes += bytes * pushes;
    size.pushes += pushes;
    if (size.pushes >= kSample) learn(size);
  }

  // What one push costs, in ticks.
  std::uint64_t cost(std::uint32_t bytes) const {
    const std::uint64_t price = sizes_[static_cast<std::size_t>(std::bit_width(bytes))].price;
    return std::max<std::uint64_t>(1, (bytes * price) >> kFraction);
  }

 private:
  static constexpr std::uint64_t kSample = 64;  // pushes
  // Nothing is cheaper (768 GB/s at 3 GHz): from much less, steps of a quarter would be rounded
  // away.
  static constexpr std::uint64_t kLowestPrice = 1ULL << 8;
  static constexpr std::uint64_t kSmoothing = 4;
  static constexpr int kFraction = 16;

  struct Size {
    std::uint64_t price = 1ULL << kFraction;  // ticks for a byte, in units of 2^-kFraction
    bool known = false;
    std::uint64_t pushes = 0;  // of the sample that is being taken
    std::uint64_t bytes = 0;
    std::uint64_t ticks = 0;
  };

  Size& size_of(std::uint32_t bytes) {
    return sizes_[static_cast<std::size_t>(std::bit_width(bytes))];
  }

  // A sample counts as twice the price at most, so it raises it by a quarter: a core that was taken
  // off its CPU in the middle of a service must not make its pushes dear for long.
  static void learn(Size& size) {
    const std::uint64_t sample = (size.ticks << kFraction) / std::max<std::uint64_t>(1, size.bytes);
    if (size.known) {
      const std::uint64_t next =
          (size.price * (kSmoothing - 1) + std::min(sample, 2 * size.price)) / kSmoothing;
      size.price = std::max(kLowestPrice, next);
    } else {
      size.price = std::max(kLowestPrice, sample);
      size.known = true;
    }
    size.pushes = 0;
    size.bytes = 0;
    size.ticks = 0;
  }

  std::array<Size, 33> sizes_;  // by bit width of the bytes
};

class PriceList {
 public:
  struct Kind {
    RuleKind rule = RuleKind::kSum;
    DataType wire_type = DataType::kFloat32;
    std::uint32_t workers = 1;
    LossScaling loss_scaling = LossScaling::kNone;
    Encoding encoding = Encoding::kDense;
    bool checksums = false;
    bool averages = false;  // a moving average of the parameters
    bool clips = false;     // by the norm of all keys
    bool looks = false;     // for values that are not finite
    // Of the job; among several each sum goes up, in this type, or a reply comes down.
    std::uint32_t racks = 1;
    DataType rack_wire_type = DataType::kFloat32;
    const void* transport = nullptr;  // the endpoint
    bool operator==(const Kind&) const = default;
  };

  // Valid as long as the list. Kinds are few and are kept.
  Prices& of(const Kind& kind) {
    for (const auto& entry : entries_) {
      if (entry->kind == kind) return entry->prices;
    }
    entries_.push_back(std::make_unique<Entry>(Entry{kind, {}}));
    return entries_.back()->prices;
  }

 private:
  struct Entry {
    Kind kind;
    Prices prices;
  };
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace phub::server
