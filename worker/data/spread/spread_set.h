// A set of samples that the workers of a job hold together in their memories, so that all of them
// read the source once. Sample s is held by member s % members (README.md).
//
// It stands in front of a source, the set as files hold it. `read` takes own samples from memory
// and others' from who holds them. What a member does not give is read from the source, and counted
// and noted once for each member. Until `begin`, and with one member, it is a cache in memory: what
// was read once is not read again. Any thread may read.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/data/formats/sample_set.h"
#include "worker/data/spread/holder.h"
#include "worker/data/spread/memory_share.h"
#include "worker/data/spread/peer_links.h"

namespace phub::data {

struct SpreadOptions {
  std::uint64_t memory_bytes = 0;
  std::uint32_t members = 1;                        // before the job is joined; 0: not known yet
  std::uint32_t readers = 1;                        // threads that read at the same time
  std::uint64_t link_bytes = 0;                     // of the links to another member, at least
  std::function<void(std::string_view)> note = {};  // by any thread, one at a time; may be empty
};

// This member's place among those that hold the set.
struct SpreadPlace {
  std::uint32_t self = 0;
  std::uint32_t members = 1;
  std::uint64_t link_bytes = 0;  // memory of the links to another member
};

// So far.
struct SpreadCounts {
  std::uint64_t own = 0, peer = 0, source = 0;  // samples that were handed out, by Origin
  SourceCounts read;                            // all that was read from the source
};

class SpreadSet final : public SampleSet {
 public:
  // Makes the links; `largest_bytes` is of an answer. The holder outlives them. With one member
  // there are none, and what listens is to be closed.
  using MakeLinks = std::function<Result<std::unique_ptr<PeerLinks>>(Holder& holder,
                                                                     std::uint32_t largest_bytes)>;

  // Errors: kInvalidArgument, the memory does not do for as many members as are known.
  static Result<std::unique_ptr<SpreadSet>> create(std::unique_ptr<SampleSet> source,
                                                   const SpreadOptions& options);
  ~SpreadSet() override;

  // Takes a place, and begins to read ahead. `make` may be empty with one member. REQUIRES: called
  // once, before the first read. Errors: kInvalidArgument, the memory does not do; those of `make`.
  Status begin(const SpreadPlace& place, const MakeLinks& make);

  std::uint64_t samples() const override { return source_->samples(); }
  const std::vector<std::string>& classes() const override { return source_->classes(); }
  std::uint16_t label(std::uint64_t sample) const override { return source_->label(sample); }
  std::string name(std::uint64_t sample) const override { return source_->name(sample); }
  std::uint64_t index_bytes() const override { return source_->index_bytes(); }
  std::uint64_t fingerprint() const override { return source_->fingerprint(); }
  std::uint64_t content_number() const override { return source_->content_number(); }
  ReadCounts reads() const override { return source_->reads(); }

  // REQUIRES, of both: begin succeeded. Errors: those of the source; kInvalidArgument, another
  // member has another set.
  Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                             std::vector<std::uint8_t>& buffer) const override;
  Result<std::span<const std::uint8_t>> deliver(std::uint64_t sample,
                                                std::vector<std::uint8_t>& buffer,
                                                Receipt& receipt) const override;

  bool has_copies() const override { return true; }
  // The copy in this member's memory is replaced. One in another member's memory is so when that
  // member is given the sample itself.
  Result<std::span<const std::uint8_t>> deliver_anew(std::uint64_t sample,
                                                     std::vector<std::uint8_t>& buffer,
                                                     Receipt& receipt) const override;

  // From now on nothing is noted: the training is over, and the other members go.
  void be_quiet() { is_quiet_->store(true); }
  // Notes what is of this set; by any thread.
  const std::function<void(std::string_view)>& note() const { return options_.note; }

  SpreadCounts counts() const;
  const Holder& holder() const { return *holder_; }

 private:
  SpreadSet(std::unique_ptr<SampleSet> source, SpreadOptions options);
  // From another member. False: it has not come from there. Error: kInvalidArgument, as above.
  Result<bool> ask(std::uint64_t sample, std::vector<std::uint8_t>& buffer) const;
  void note_once(std::uint32_t member, PeerAnswer::Outcome outcome, const std::string& why) const;

  const std::unique_ptr<SampleSet> source_;
  const std::shared_ptr<std::atomic<bool>> is_quiet_;
  const SpreadOptions options_;
  std::unique_ptr<Holder> holder_;
  std::unique_ptr<PeerLinks> links_;  // null: one member
  std::uint32_t largest_bytes_ = 0;
  mutable std::atomic<std::uint64_t> own_{0}, peer_{0}, from_source_{0};
  mutable std::mutex noted_mutex_;
  mutable std::set<std::pair<std::uint32_t, PeerAnswer::Outcome>> noted_;
};

// The hash of a receipt: it is equal only for the same sample with the same bytes, but for 2^-32.
std::uint64_t receipt_hash(std::uint64_t sample, std::span<const std::uint8_t> bytes);

}  // namespace phub::data
