#include "worker/data/spread/spread_set.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/splitmix.h"
#include "common/protocol/crc32c.h"

namespace phub::data {
namespace {

constexpr std::uint32_t kLoadersMax = 8;

SpreadOptions with_quiet(SpreadOptions options, std::shared_ptr<std::atomic<bool>> is_quiet) {
  if (!options.note) return options;
  options.note = [note = std::move(options.note),
                  is_quiet = std::move(is_quiet)](std::string_view text) {
    if (!is_quiet->load()) note(text);
  };
  return options;
}

}  // namespace

std::uint64_t receipt_hash(std::uint64_t sample, std::span<const std::uint8_t> bytes) {
  return splitmix64(splitmix64_mix(sample + 1), crc32c(std::as_bytes(bytes)) + std::uint64_t{1});
}

Result<std::unique_ptr<SpreadSet>> SpreadSet::create(std::unique_ptr<SampleSet> source,
                                                     const SpreadOptions& options) {
  if (options.members > 0) {
    PHUB_RETURN_IF_ERROR(share_memory({.bytes = options.memory_bytes,
                                       .samples = source->samples(),
                                       .members = options.members,
                                       .readers = std::max(1U, options.readers),
                                       .link_bytes = options.link_bytes})
                             .error());
  }
  return std::unique_ptr<SpreadSet>(new SpreadSet(std::move(source), options));
}

SpreadSet::SpreadSet(std::unique_ptr<SampleSet> source, SpreadOptions options)
    : source_(std::move(source)),
      is_quiet_(std::make_shared<std::atomic<bool>>(false)),
      options_(with_quiet(std::move(options), is_quiet_)) {}

SpreadSet::~SpreadSet() {
  // Answers go through the links, and come from the loaders.
  if (holder_) holder_->stop();
}

Status SpreadSet::begin(const SpreadPlace& place, const MakeLinks& make) {
  PHUB_CHECK(holder_ == nullptr, "a set has one place");
  PHUB_ASSIGN_OR_RETURN(const MemoryShare share,
                        share_memory({.bytes = options_.memory_bytes,
                                      .samples = source_->samples(),
                                      .members = place.members,
                                      .readers = std::max(1U, options_.readers),
                                      .link_bytes = place.link_bytes}));
  largest_bytes_ = share.largest_bytes;
  holder_ = std::make_unique<Holder>(
      *source_, HolderOptions{.self = place.self,
                              .members = place.members,
                              .bytes = share.held_bytes,
                              .loaders = std::clamp(options_.readers, 1U, kLoadersMax),
                              .note = options_.note});
  if (make) {
    PHUB_ASSIGN_OR_RETURN(links_, make(*holder_, share.largest_bytes));
  }
  PHUB_CHECK(place.members == 1 || links_ != nullptr, "several members have links");
  return {};
}

Result<std::span<const std::uint8_t>> SpreadSet::read(std::uint64_t sample,
                                                      std::vector<std::uint8_t>& buffer) const {
  Receipt receipt;
  return deliver(sample, buffer, receipt);
}

Result<std::span<const std::uint8_t>> SpreadSet::deliver(std::uint64_t sample,
                                                         std::vector<std::uint8_t>& buffer,
                                                         Receipt& receipt) const {
  PHUB_CHECK(holder_ != nullptr, "a set is read when it has its place");
  std::span<const std::uint8_t> bytes;
  Origin origin = Origin::kSource;
  if (holder_->member_of(sample) == holder_->self()) {
    PHUB_ASSIGN_OR_RETURN(const Holder::Taken taken, holder_->take(sample, buffer));
    bytes = taken.bytes;
    if (taken.is_held) origin = Origin::kOwnMemory;
  } else {
    PHUB_ASSIGN_OR_RETURN(const bool has_come, ask(sample, buffer));
    if (has_come) {
      bytes = buffer;
      origin = Origin::kPeer;
    } else {
      PHUB_ASSIGN_OR_RETURN(bytes, holder_->read_source(sample, buffer));
    }
  }
  auto& count = origin == Origin::kOwnMemory ? own_
                : origin == Origin::kPeer    ? peer_
                                             : from_source_;
  count.fetch_add(1, std::memory_order_relaxed);
  receipt = {receipt_hash(sample, bytes), origin};
  return bytes;
}

Result<std::span<const std::uint8_t>> SpreadSet::deliver_anew(std::uint64_t sample,
                                                              std::vector<std::uint8_t>& buffer,
                                                              Receipt& receipt) const {
  PHUB_CHECK(holder_ != nullptr, "a set is read when it has its place");
  PHUB_ASSIGN_OR_RETURN(const auto bytes, holder_->read_source_anew(sample, buffer));
  if (holder_->member_of(sample) == holder_->self()) holder_->replace(sample, bytes);
  from_source_.fetch_add(1, std::memory_order_relaxed);
  receipt = {receipt_hash(sample, bytes), Origin::kSource};
  return bytes;
}

Result<bool> SpreadSet::ask(std::uint64_t sample, std::vector<std::uint8_t>& buffer) const {
  const std::uint32_t member = holder_->member_of(sample);
  const PeerAnswer answer = links_->ask(member, sample, buffer);
  if (answer.outcome == PeerAnswer::Outcome::kOtherSet) {
    return Status(Code::kInvalidArgument, other_set(links_->name(member)));
  }
  if (answer.outcome != PeerAnswer::Outcome::kBytes) {
    note_once(member, answer.outcome, answer.why);
    return false;
  }
  const std::uint32_t checksum = crc32c(std::as_bytes(std::span(buffer)));
  if (checksum == answer.checksum) return true;
  const std::string why = "it sent sample " + std::to_string(sample) + " with CRC32C " +
                          std::to_string(answer.checksum) + ", and the bytes have " +
                          std::to_string(checksum);
  links_->drop(member, why);
  note_once(member, PeerAnswer::Outcome::kGone, why);
  return false;
}

void SpreadSet::note_once(std::uint32_t member, PeerAnswer::Outcome outcome,
                          const std::string& why) const {
  {
    const std::lock_guard lock(noted_mutex_);
    if (!noted_.emplace(member, outcome).second) return;
  }
  if (!options_.note) return;
  const std::string name = "data.spread: " + links_->name(member);
  switch (outcome) {
    case PeerAnswer::Outcome::kNotHeld:
      return options_.note(name +
                           " has not all of its samples in memory: its data.spread.memory_mib is "
                           "full, or a sample is damaged; these are read from data.path");
    case PeerAnswer::Outcome::kLate:
      return options_.note(name +
                           " has not read samples in time: its data.path is slow, or stands still; "
                           "until it has, they are read from data.path here");
    case PeerAnswer::Outcome::kTooLarge:
      return options_.note(name + " has samples of more than " + std::to_string(largest_bytes_) +
                           " bytes, which is what an answer may have here; they are read from "
                           "data.path: raise data.spread.memory_mib");
    default:
      options_.note(name + " is asked for no more samples: " + why +
                    "; they are read from data.path from now on");
  }
}

SpreadCounts SpreadSet::counts() const {
  return {.own = own_.load(std::memory_order_relaxed),
          .peer = peer_.load(std::memory_order_relaxed),
          .source = from_source_.load(std::memory_order_relaxed),
          .read = holder_ ? holder_->counts() : SourceCounts()};
}

}  // namespace phub::data
