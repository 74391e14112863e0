#include "worker/data/spread/requests.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/base/check.h"

namespace phub::data {

using Outcome = PeerAnswer::Outcome;

Requests::Requests(std::uint32_t members, std::uint32_t slots, const PeerRequest& each)
    : each_(each), slots_(slots), gone_(members) {
  for (std::uint32_t i = 0; i < slots; ++i) slots_[i].number = i;
}

std::optional<std::uint32_t> Requests::begin(std::uint32_t member, std::uint64_t sample,
                                             std::chrono::steady_clock::time_point deadline,
                                             PeerAnswer& answer) {
  std::unique_lock lock(mutex_);
  auto found = slots_.end();
  const auto is_free = [](const Slot& each) { return each.state == State::kFree; };
  freed_.wait_until(lock, deadline, [&] {
    found = std::ranges::find_if(slots_, is_free);
    return gone_[member].has_value() || found != slots_.end();
  });
  if (gone_[member] || found == slots_.end()) {
    answer = {.outcome = Outcome::kGone,
              .why = gone_[member] ? *gone_[member] : "other requests have not ended in time"};
    return std::nullopt;
  }
  found->state = State::kAsked;
  found->is_left = false;
  found->has_begun = false;
  // A number comes again only when nearly 2^32 others have been used.
  const auto count = static_cast<std::uint32_t>(slots_.size());
  found->number =
      found->number > UINT32_MAX - count ? found->number % count : found->number + count;
  found->member = member;
  found->request = each_;
  found->request.sample = sample;
  return found->number;
}

std::optional<PeerAnswer> Requests::wait(std::uint32_t number,
                                         std::chrono::steady_clock::time_point deadline,
                                         std::vector<std::uint8_t>& buffer) {
  std::unique_lock lock(mutex_);
  Slot& own = slot(number);
  if (!over_.wait_until(lock, deadline, [&] { return own.state == State::kOver; })) {
    own.is_left = true;
    return std::nullopt;
  }
  if (own.answer.outcome == Outcome::kBytes) {
    buffer.assign(own.bytes.get(), own.bytes.get() + own.size);
  }
  PeerAnswer answer = std::move(own.answer);
  free(own);
  return answer;
}

// REQUIRES: the mutex.
void Requests::free(Slot& slot) {
  slot.state = State::kFree;
  slot.bytes.reset();
  freed_.notify_all();
}

void Requests::mark_gone(std::uint32_t member, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!gone_[member]) gone_[member] = why;
  freed_.notify_all();
}

bool Requests::is_gone(std::uint32_t member) const {
  const std::lock_guard lock(mutex_);
  return gone_[member].has_value();
}

void Requests::end(std::uint32_t member, const std::string& why) {
  mark_gone(member, why);
  const std::lock_guard lock(mutex_);
  for (Slot& each : slots_) {
    if (each.state != State::kAsked || each.member != member) continue;
    if (each.is_left) {
      free(each);
      continue;
    }
    each.state = State::kOver;
    each.answer = {.outcome = Outcome::kGone, .why = *gone_[member]};
  }
  over_.notify_all();
}

Requests::Slot* Requests::find(std::uint32_t member, std::uint32_t number) {
  Slot& found = slot(number);
  const bool is_asked =
      found.state == State::kAsked && found.number == number && found.member == member;
  return is_asked ? &found : nullptr;
}

std::optional<PeerRequest> Requests::request(std::uint32_t member, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const Slot* const found = find(member, number);
  return found == nullptr ? std::nullopt : std::optional(found->request);
}

std::byte* Requests::room(std::uint32_t member, std::uint32_t number, std::uint32_t bytes,
                          std::uint32_t checksum) {
  const std::lock_guard lock(mutex_);
  Slot* const found = find(member, number);
  if (found == nullptr || found->has_begun || bytes > each_.largest_bytes) return nullptr;
  found->has_begun = true;
  found->bytes.reset(new (std::nothrow) std::uint8_t[bytes]);
  found->size = bytes;
  found->answer = {.outcome = Outcome::kBytes, .checksum = checksum};
  return reinterpret_cast<std::byte*>(found->bytes.get());
}

std::byte* Requests::refusal_room(std::uint32_t member, std::uint32_t number, std::uint32_t bytes) {
  const std::lock_guard lock(mutex_);
  Slot* const found = find(member, number);
  if (found == nullptr || found->has_begun || bytes != sizeof(found->refusal)) return nullptr;
  found->has_begun = true;
  found->answer = {.outcome = Outcome::kNotHeld};
  return reinterpret_cast<std::byte*>(&found->refusal);
}

void Requests::arrived(std::uint32_t member, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  Slot* const found = find(member, number);
  if (found == nullptr) return;
  if (!found->bytes) {
    const auto refusal = static_cast<PeerRefusal>(found->refusal);
    if (refusal == PeerRefusal::kTooLarge) found->answer.outcome = Outcome::kTooLarge;
    if (refusal == PeerRefusal::kOtherSet) found->answer.outcome = Outcome::kOtherSet;
    if (refusal == PeerRefusal::kLate) found->answer.outcome = Outcome::kLate;
  }
  found->state = State::kOver;
  if (found->is_left) free(*found);
  over_.notify_all();
}

}  // namespace phub::data
