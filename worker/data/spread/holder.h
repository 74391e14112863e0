// The samples of a set that this member holds in its memory: sample s is member s % members's.
//
// A sample is read from the source when it is first asked for. Threads of the holder's own read
// what other members ask for, and then ahead, in the order of the set. What was read stays until
// the holder goes, so its bytes may be used without a lock. What does not fit into the memory is
// read from the source by whom it is asked for. So is what could not be read twice; the first error
// is noted. While the source stalls, other members are told so, and none of them waits. Owned by
// the SpreadSet; any thread may ask.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/spread/reading.h"

namespace phub::data {

struct HolderOptions {
  std::uint32_t self = 0;
  std::uint32_t members = 1;
  std::uint64_t bytes = 0;                          // for samples, the allocator's share included
  std::uint32_t loaders = 1;                        // threads that read ahead and for others
  std::function<void(std::string_view)> note = {};  // by any thread, one at a time; may be empty
  std::chrono::milliseconds pause{100};  // of reading ahead after an error; doubled by each more
};

// What has been read from the source.
struct SourceCounts {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
};

class Holder {
 public:
  struct Held {
    std::span<const std::uint8_t> bytes;
    std::uint32_t checksum = 0;  // CRC-32C of the bytes
  };
  struct Reply {
    std::optional<Held> held{};  // nothing: the sample is not held
    bool is_late = false;        // it has not been read in time, and may be held later
  };
  using Answer = std::function<void(const Reply& reply)>;
  using Clock = std::chrono::steady_clock;

  // The index takes this for each own sample, besides its bytes.
  static constexpr std::uint64_t kIndexBytes = 17;

  // `source` outlives it.
  Holder(const SampleSet& source, const HolderOptions& options);
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  std::uint32_t self() const { return options_.self; }
  std::uint32_t members() const { return options_.members; }
  std::uint64_t samples() const { return source_.samples(); }
  // The low bits of the set's number, by which members compare their sets. With one member it is 0.
  std::uint32_t content_number() const { return content_number_; }
  std::uint32_t member_of(std::uint64_t sample) const {
    return static_cast<std::uint32_t>(sample % options_.members);
  }

  // An own sample, for this member's threads: it is read here if it has not been. Where another
  // thread is reading it, this waits as long as that read takes. The bytes lie in the holder's
  // memory, then `is_held`, or as SampleSet::read says.
  struct Taken {
    std::span<const std::uint8_t> bytes;
    bool is_held = false;
  };
  Result<Taken> take(std::uint64_t sample, std::vector<std::uint8_t>& buffer);
  // Any sample from the source, which is counted.
  Result<std::span<const std::uint8_t>> read_source(std::uint64_t sample,
                                                    std::vector<std::uint8_t>& buffer);

  // The same past the source's own copies.
  Result<std::span<const std::uint8_t>> read_source_anew(std::uint64_t sample,
                                                         std::vector<std::uint8_t>& buffer);
  // Holds other bytes of an own sample, if it is held. Those of before stay in memory, as their
  // readers have no lock. Without memory for both the sample is not held any more.
  void replace(std::uint64_t sample, std::span<const std::uint8_t> bytes);

  // An own sample, for another member. `answer` is called once: at once, or by a loader, or by
  // refuse_late after the deadline, or never when stop comes first. It must not block. REQUIRES: an
  // own sample.
  void want(std::uint64_t sample, Clock::time_point deadline, Answer answer);
  // Answers those whose deadline is over. From then on no other member waits until something could
  // be read. Returns the next deadline; Clock::time_point::max() where nobody waits.
  Clock::time_point refuse_late(Clock::time_point now);
  // Ends the loaders: no answer comes any more. What is held stays.
  void stop();

  SourceCounts counts() const;
  std::uint64_t held_bytes() const;  // of samples, the allocator's share included
  // Waits until the loaders have nothing to do: all is read, or memory is full. False: `timeout`.
  bool wait_until_loaded(std::chrono::milliseconds timeout);

 private:
  struct Entry {
    std::unique_ptr<std::uint8_t[]> bytes;
    std::uint32_t size = 0;
    std::uint32_t checksum = 0;
  };
  static_assert(sizeof(Entry) + sizeof(Reading) == kIndexBytes);
  enum class End : std::uint8_t { kRead, kFailed, kFull };  // of an own sample's read
  struct Waiting {
    Clock::time_point deadline{};
    Answer answer{};
  };

  std::uint64_t place_of(std::uint64_t sample) const { return sample / options_.members; }
  std::uint64_t sample_at(std::uint64_t place) const {
    return place * options_.members + options_.self;
  }
  void load(const std::stop_token& stop);
  std::optional<std::uint64_t> next_to_load();  // REQUIRES: the mutex
  bool has_work() const;
  // Reads an own sample, which this thread has marked, and keeps it if it can be read and fits.
  Result<Taken> read_in(std::uint64_t sample, std::vector<std::uint8_t>& buffer);
  Result<std::span<const std::uint8_t>> counted(Result<std::span<const std::uint8_t>> bytes);
  bool reserve(std::size_t size);
  Entry entry_of(std::span<const std::uint8_t> bytes);
  void settle(std::uint64_t sample, Entry entry, End end);
  Held held_at(std::uint64_t place) const;

  const SampleSet& source_;
  const HolderOptions options_;
  const std::uint32_t content_number_;
  mutable std::mutex mutex_;
  std::condition_variable_any work_, settled_;
  std::vector<Entry> entries_;  // [place]
  std::vector<std::unique_ptr<std::uint8_t[]>> replaced_;
  std::vector<Reading> states_;
  std::uint64_t ahead_ = 0;           // places before it are read ahead
  std::deque<std::uint64_t> wanted_;  // unread samples of `waiting_`
  std::unordered_multimap<std::uint64_t, Waiting> waiting_;
  std::uint64_t held_bytes_ = 0;
  std::uint32_t reading_ = 0;    // loaders that read
  bool is_full_ = false;         // nothing is taken in any more
  bool is_stalled_ = false;      // a deadline has passed since something was read last
  bool is_large_noted_ = false;  // that a large sample has not fitted
  ErrorPause pause_;             // of reading ahead
  std::atomic<bool> is_error_noted_{false};
  SourceCounts counts_;
  std::vector<std::jthread> loaders_;  // last: they end before what they use goes
};

}  // namespace phub::data
