// Batches, one after another, made ahead by threads of the feeder's own.
//
// Each thread makes a few images at a time of the earliest batch that is not complete. At most
// `ahead` batches are kept, so memory is bounded. Without threads a batch is made when it is asked
// for. Owned by one thread, which calls it; another thread may `load` for it while it holds the
// feeder or lets it go on. The set and the order outlive the feeder.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "worker/data/feed/maker.h"

namespace phub::data {

struct FeederOptions {
  Form form = Form::kNumbers;
  std::uint32_t threads = 0;              // 0: batches are made on the thread that asks
  std::uint32_t ahead = 2;                // batches; at least 1
  std::uint64_t end = ~std::uint64_t{0};  // no batch from this one on is made ahead
  std::vector<std::uint32_t> cpus = {};   // where the threads run; empty: anywhere
};

class Feeder {
 public:
  Feeder(const Images& images, const BatchOrder& order, const FeederOptions& options);
  ~Feeder();
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  // Batch `index`, as soon as it is made. What follows it is made ahead; another one than the next
  // starts anew there. If `batch` has bytes of the caller's, the pixels are written there. Errors:
  // the readers', each once; the batch is then made anew when it is asked for again.
  Status load(std::uint64_t index, Batch& batch);

  // From now on no batch is begun that the ring has no room for now, until `go_on`, or until a load
  // asks for one.
  void hold();
  void go_on();

  Form form() const { return maker_.form(); }
  const Images& images() const { return maker_.images(); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Entry {
    Batch batch{};
    std::uint32_t missing = 0;  // images
    Status status{};
  };
  struct Part {
    std::uint64_t index = 0;
    std::uint32_t first = 0, count = 0;
  };

  Status load_here(std::uint64_t index, Batch& batch);
  Status make(ImageReader& reader, const Part& part, Batch& batch) const;
  void work(const std::vector<std::uint32_t>& cpus);
  Part next_part();
  bool has_part() const;
  void start_at(std::uint64_t index, std::unique_lock<std::mutex>& lock);
  void open();
  Entry& entry(std::uint64_t index) { return ring_[index % ring_.size()]; }
  static void hand_over(Batch& from, Batch& to);

  const BatchMaker maker_;
  const std::uint64_t end_;                    // no batch from this one on is made ahead
  const std::uint32_t part_;                   // images that a thread takes at a time
  std::unique_ptr<ImageReader> own_reader_{};  // without threads
  std::mutex mutex_;
  std::condition_variable work_, made_;
  std::vector<Entry> ring_;
  std::uint64_t first_ = 0;         // the earliest batch that is kept
  std::uint64_t held_end_ = kNone;  // no batch from this one on is begun
  Part next_{};                     // the first image that no thread has taken
  std::uint32_t busy_ = 0;          // threads that make images
  bool is_paused_ = false, is_over_ = false;
  std::vector<std::jthread> threads_;  // last: they end before what they use goes
};

}  // namespace phub::data
