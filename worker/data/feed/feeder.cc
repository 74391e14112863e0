#include "worker/data/feed/feeder.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "common/base/affinity.h"
#include "common/base/check.h"

namespace phub::data {
namespace {

constexpr std::uint32_t kPartsOfBatch = 8;

// Images that a thread takes at a time. Where the order mixes, they are pairs.
std::uint32_t part_of(const BatchOrder& order) {
  const std::uint32_t part = std::max(1U, order.batch() / kPartsOfBatch);
  return order.mixes() ? (part + 1) / 2 * 2 : part;
}

}  // namespace

Feeder::Feeder(const Images& images, const BatchOrder& order, const FeederOptions& options)
    : maker_(images, order, options.form),
      end_(std::min(order.batches(), options.end)),
      part_(part_of(order)),
      ring_(std::max(1U, options.ahead)) {
  if (options.threads == 0) own_reader_ = images.reader();
  is_paused_ = true;  // until it is known where to start
  try {
    for (std::uint32_t i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this, cpus = options.cpus] { work(cpus); });
    }
  } catch (const std::system_error&) {
    // There can be no more of them. Those that there are do it, or else the thread that asks.
    if (threads_.empty()) own_reader_ = images.reader();
  }
}

Feeder::~Feeder() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  work_.notify_all();
}

Status Feeder::load(std::uint64_t index, Batch& batch) {
  PHUB_DCHECK(index < maker_.order().batches(), "the order has the batch");
  if (threads_.empty() || index >= end_) return load_here(index, batch);
  std::unique_lock lock(mutex_);
  if (is_paused_ || index != first_) start_at(index, lock);
  if (index >= held_end_) open();
  Entry& wanted = entry(index);
  made_.wait(lock, [&] { return next_.index > index && wanted.missing == 0; });
  Status status = std::exchange(wanted.status, {});
  if (status.ok()) {
    hand_over(wanted.batch, batch);
    ++first_;
  } else {
    is_paused_ = true;
  }
  lock.unlock();
  work_.notify_all();
  return status;
}

void Feeder::hold() {
  const std::lock_guard lock(mutex_);
  held_end_ = first_ + ring_.size();
}

void Feeder::go_on() {
  const std::lock_guard lock(mutex_);
  open();
}

// REQUIRES: the mutex.
void Feeder::open() {
  held_end_ = kNone;
  work_.notify_all();
}

Status Feeder::load_here(std::uint64_t index, Batch& batch) {
  if (!own_reader_) own_reader_ = maker_.images().reader();
  maker_.prepare(batch);
  return maker_.make(*own_reader_, index, 0, maker_.order().batch(), batch);
}

// The caller's bytes stay the caller's; all else changes hands.
void Feeder::hand_over(Batch& from, Batch& to) {
  std::swap(from.numbers, to.numbers);
  std::swap(from.moves, to.moves);
  std::swap(from.labels, to.labels);
  std::swap(from.second_labels, to.second_labels);
  std::swap(from.shares, to.shares);
  std::swap(from.receipts, to.receipts);
  const bool is_foreign = !to.bytes.empty() && to.bytes.data() != to.own_bytes.data();
  if (is_foreign) {
    PHUB_CHECK(to.bytes.size() == from.bytes.size(), "memory for a batch's pixels has their size");
    std::copy(from.bytes.begin(), from.bytes.end(), to.bytes.begin());
    return;
  }
  std::swap(from.own_bytes, to.own_bytes);
  from.bytes = from.own_bytes;
  to.bytes = to.own_bytes;
}

void Feeder::start_at(std::uint64_t index, std::unique_lock<std::mutex>& lock) {
  is_paused_ = true;
  made_.wait(lock, [&] { return busy_ == 0; });
  first_ = index;
  next_ = {.index = index};
  for (Entry& each : ring_) each.status = {};
  is_paused_ = false;
  open();
}

bool Feeder::has_part() const {
  return !is_paused_ && next_.index < std::min({first_ + ring_.size(), held_end_, end_});
}

// REQUIRES: has_part.
Feeder::Part Feeder::next_part() {
  const std::uint32_t batch = maker_.order().batch();
  if (next_.first == 0) {
    Entry& begun = entry(next_.index);
    maker_.prepare(begun.batch);
    begun.missing = batch;
  }
  const Part part{next_.index, next_.first, std::min(part_, batch - next_.first)};
  next_.first += part.count;
  if (next_.first == batch) next_ = {.index = next_.index + 1};
  return part;
}

Status Feeder::make(ImageReader& reader, const Part& part, Batch& batch) const {
  try {
    return maker_.make(reader, part.index, part.first, part.count, batch);
  } catch (const std::bad_alloc&) {
    return {Code::kResourceExhausted, "no memory to decode an image: lower data.threads"};
  }
}

void Feeder::work(const std::vector<std::uint32_t>& cpus) {
  // Where somebody has taken the CPUs away in the meantime, the thread runs anywhere.
  if (!cpus.empty()) (void)run_this_thread_on(cpus);
  const std::unique_ptr<ImageReader> reader = maker_.images().reader();
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return is_over_ || has_part(); });
    if (is_over_) return;
    const Part part = next_part();
    Entry& made = entry(part.index);
    ++busy_;
    lock.unlock();
    Status status = make(*reader, part, made.batch);
    lock.lock();
    --busy_;
    made.missing -= part.count;
    if (made.status.ok() && !status.ok()) made.status = std::move(status);
    if (made.missing == 0 || busy_ == 0) made_.notify_all();
  }
}

}  // namespace phub::data
