#include "worker/data/spread/holder.h"

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/protocol/crc32c.h"
#include "worker/data/spread/memory_share.h"

namespace phub::data {
namespace {

// A sample of less than this part of the memory does not fit when the memory is full.
constexpr std::uint64_t kLargePart = 16;

// The memory that the allocator takes for an array of `bytes`.
std::uint64_t cost_of(std::size_t bytes) {
  constexpr std::uint64_t kHead = 8, kUnit = 16;
  return (bytes + kHead + kUnit - 1) / kUnit * kUnit;
}

std::string first_error(const Status& error) {
  return "data.spread: " + error.message() +
         "; what cannot be read is tried once more, and is then not held in memory; other such "
         "errors are not told";
}

}  // namespace

Holder::Holder(const SampleSet& source, const HolderOptions& options)
    : source_(source),
      options_(options),
      content_number_(options.members == 1 ? 0
                                           : static_cast<std::uint32_t>(source.content_number())),
      pause_(options.pause) {
  PHUB_CHECK(options.self < options.members, "a member's place is below their number");
  const std::uint64_t samples = source.samples();
  const std::uint64_t own =
      samples > options.self ? most_own_samples(samples - options.self, options.members) : 0;
  entries_.resize(own);
  states_.resize(own, Reading::kUnread);
  try {
    for (std::uint32_t i = 0; i < options.loaders; ++i) {
      loaders_.emplace_back([this](const std::stop_token& stop) { load(stop); });
    }
  } catch (const std::system_error&) {
    // There can be no more of them. Without any, other members read from the source.
  }
}

Holder::~Holder() { stop(); }

void Holder::stop() {
  for (std::jthread& each : loaders_) each.request_stop();
  for (std::jthread& each : loaders_) {
    if (each.joinable()) each.join();
  }
  const std::lock_guard lock(mutex_);
  wanted_.clear();
  waiting_.clear();
}

Holder::Held Holder::held_at(std::uint64_t place) const {
  const Entry& entry = entries_[place];
  return {{entry.bytes.get(), entry.size}, entry.checksum};
}

Result<std::span<const std::uint8_t>> Holder::read_source(std::uint64_t sample,
                                                          std::vector<std::uint8_t>& buffer) {
  return counted(source_.read(sample, buffer));
}

Result<std::span<const std::uint8_t>> Holder::read_source_anew(std::uint64_t sample,
                                                               std::vector<std::uint8_t>& buffer) {
  Receipt of_source;
  return counted(source_.deliver_anew(sample, buffer, of_source));
}

Result<std::span<const std::uint8_t>> Holder::counted(Result<std::span<const std::uint8_t>> bytes) {
  const std::lock_guard lock(mutex_);
  ++counts_.samples;
  if (bytes) counts_.bytes += bytes->size();
  return bytes;
}

void Holder::replace(std::uint64_t sample, std::span<const std::uint8_t> bytes) {
  PHUB_DCHECK(member_of(sample) == options_.self, "an own sample");
  const std::uint64_t place = place_of(sample);
  {
    const std::lock_guard lock(mutex_);
    const bool is_held = states_[place] == Reading::kHeld;
    if (!is_held || std::ranges::equal(held_at(place).bytes, bytes)) return;
  }
  Entry entry = entry_of(bytes);
  const std::lock_guard lock(mutex_);
  states_[place] = entry.bytes ? Reading::kHeld : Reading::kAbsent;
  std::swap(entries_[place], entry);
  if (entry.bytes) replaced_.push_back(std::move(entry.bytes));
}

Result<Holder::Taken> Holder::take(std::uint64_t sample, std::vector<std::uint8_t>& buffer) {
  PHUB_DCHECK(member_of(sample) == options_.self, "an own sample");
  const std::uint64_t place = place_of(sample);
  {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [&] { return !is_read_now(states_[place]); });
    if (states_[place] == Reading::kHeld) return Taken{held_at(place).bytes, true};
    if (is_unread(states_[place]) && !is_full_) {
      states_[place] = begun(states_[place]);
      lock.unlock();
      return read_in(sample, buffer);
    }
  }
  PHUB_ASSIGN_OR_RETURN(const auto bytes, read_source(sample, buffer));
  return Taken{bytes, false};
}

bool Holder::reserve(std::size_t size) {
  std::int64_t held = 0;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_full_) return false;
    if (held_bytes_ + cost_of(size) <= options_.bytes) {
      held_bytes_ += cost_of(size);
      return true;
    }
    is_full_ = is_full = cost_of(size) < options_.bytes / kLargePart;
    if (!is_full && std::exchange(is_large_noted_, true)) return false;
    held = std::count(states_.begin(), states_.end(), Reading::kHeld);
  }
  // A note may take its time, and no reader waits for it.
  if (!options_.note) return false;
  options_.note("data.spread.memory_mib: " + std::to_string(options_.bytes) +
                " bytes are left for samples, and hold " + std::to_string(held) + " of the " +
                std::to_string(entries_.size()) + " that are this worker's; " +
                (is_full ? std::string("the others are read")
                         : "a sample of " + std::to_string(size) +
                               " bytes does not fit, and such ones are read") +
                " from the source each time: raise it, or add workers");
  return false;
}

// Without memory for it, an empty one.
Holder::Entry Holder::entry_of(std::span<const std::uint8_t> bytes) {
  Entry entry;
  if (reserve(bytes.size())) entry.bytes.reset(new (std::nothrow) std::uint8_t[bytes.size()]);
  if (!entry.bytes) return entry;
  std::copy(bytes.begin(), bytes.end(), entry.bytes.get());
  entry.size = static_cast<std::uint32_t>(bytes.size());
  entry.checksum = crc32c(std::as_bytes(bytes));
  return entry;
}

Result<Holder::Taken> Holder::read_in(std::uint64_t sample, std::vector<std::uint8_t>& buffer) {
  Result<std::span<const std::uint8_t>> bytes = Status(Code::kInternal, "not read");
  try {
    bytes = read_source(sample, buffer);
  } catch (const std::bad_alloc&) {
    bytes = Status(Code::kResourceExhausted, "no memory for an image's file: lower data.threads");
  }
  Entry entry = bytes ? entry_of(*bytes) : Entry();
  const bool is_held = entry.bytes != nullptr;
  settle(sample, std::move(entry), !bytes ? End::kFailed : is_held ? End::kRead : End::kFull);
  if (!bytes) {
    if (!is_error_noted_.exchange(true) && options_.note) options_.note(first_error(bytes.error()));
    return bytes.error();
  }
  return Taken{is_held ? held_at(place_of(sample)).bytes : *bytes, is_held};
}

// Tells all who wait for the sample what became of it.
void Holder::settle(std::uint64_t sample, Entry entry, End end) {
  const std::uint64_t place = place_of(sample);
  std::vector<Answer> answers;
  Reply reply;
  {
    const std::lock_guard lock(mutex_);
    Reading& state = states_[place];
    state = end == End::kRead     ? Reading::kHeld
            : end == End::kFailed ? failed(state)
                                  : Reading::kAbsent;
    entries_[place] = std::move(entry);
    if (end == End::kRead) {
      reply.held = held_at(place);
      pause_.on_success();
      is_stalled_ = false;
    }
    if (end == End::kFailed) pause_.on_error();
    if (is_unread(state)) {
      ahead_ = std::min(ahead_, place);
      work_.notify_all();
    }
    const auto [first, last] = waiting_.equal_range(sample);
    for (auto each = first; each != last; ++each) answers.push_back(std::move(each->second.answer));
    waiting_.erase(first, last);
  }
  settled_.notify_all();
  for (const Answer& answer : answers) answer(reply);
}

void Holder::want(std::uint64_t sample, Clock::time_point deadline, Answer answer) {
  PHUB_DCHECK(member_of(sample) == options_.self, "an own sample");
  const std::uint64_t place = place_of(sample);
  Reply reply;
  {
    const std::lock_guard lock(mutex_);
    const Reading state = states_[place];
    const bool will_be_read = is_unread(state) && !is_full_ && !loaders_.empty();
    const bool comes_later = will_be_read || is_read_now(state);
    if (comes_later && !is_stalled_) {
      if (will_be_read) wanted_.push_back(sample);
      waiting_.emplace(sample, Waiting{deadline, std::move(answer)});
      work_.notify_one();
      return;
    }
    reply.is_late = comes_later;
    if (state == Reading::kHeld) reply.held = held_at(place);
  }
  answer(reply);
}

Holder::Clock::time_point Holder::refuse_late(Clock::time_point now) {
  std::vector<Answer> late;
  Clock::time_point next = Clock::time_point::max();
  {
    const std::lock_guard lock(mutex_);
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      if (each->second.deadline > now) {
        next = std::min(next, each->second.deadline);
        ++each;
        continue;
      }
      late.push_back(std::move(each->second.answer));
      each = waiting_.erase(each);
    }
    if (!late.empty()) {
      is_stalled_ = true;
      std::erase_if(wanted_, [&](std::uint64_t sample) { return !waiting_.contains(sample); });
    }
  }
  for (const Answer& answer : late) answer({.is_late = true});
  return next;
}

bool Holder::has_work() const {
  return !wanted_.empty() || (!is_full_ && ahead_ < entries_.size());
}

std::optional<std::uint64_t> Holder::next_to_load() {
  while (!wanted_.empty()) {
    const std::uint64_t sample = wanted_.front();
    wanted_.pop_front();
    // Others wait for it also where memory is full: then nothing is read, and they are told so.
    if (is_unread(states_[place_of(sample)])) return sample;
  }
  if (!pause_.is_over()) return std::nullopt;
  for (; !is_full_ && ahead_ < entries_.size(); ++ahead_) {
    if (is_unread(states_[ahead_])) return sample_at(ahead_++);
  }
  return std::nullopt;
}

void Holder::load(const std::stop_token& stop) {
  std::vector<std::uint8_t> buffer;
  std::unique_lock lock(mutex_);
  while (work_.wait(lock, stop, [&] { return has_work(); }) && !stop.stop_requested()) {
    const auto sample = next_to_load();
    if (!sample) {
      settled_.notify_all();
      const ErrorPause::Clock::time_point end = pause_.end();
      if (has_work()) work_.wait_until(lock, stop, end, [&] { return !wanted_.empty(); });
      continue;
    }
    const bool is_full = is_full_;
    Reading& state = states_[place_of(*sample)];
    state = begun(state);
    ++reading_;
    lock.unlock();
    if (is_full) {
      settle(*sample, {}, End::kFull);
    } else {
      static_cast<void>(read_in(*sample, buffer));  // who asks next is told of errors
    }
    lock.lock();
    --reading_;
    settled_.notify_all();
  }
}

SourceCounts Holder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::uint64_t Holder::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

bool Holder::wait_until_loaded(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return settled_.wait_for(lock, timeout, [&] { return !has_work() && reading_ == 0; });
}

}  // namespace phub::data
