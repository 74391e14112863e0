// This member's requests to others: who has asked whom for what, and what has come of it.
//
// The threads that read wait here. The links' thread tells what has arrived. Any thread may call
// what says nothing else. No more requests are under way than there are slots, and an answer has a
// bound, so the memory of all answers under way is bounded.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "worker/data/spread/peer_links.h"
#include "worker/data/spread/peer_wire.h"

namespace phub::data {

class Requests {
 public:
  // `each`: what all requests say; the sample is set for each of them.
  Requests(std::uint32_t members, std::uint32_t slots, const PeerRequest& each);

  // Takes a slot for a request. Nothing: the member is gone, or no slot has become free in time;
  // `answer` then says so.
  std::optional<std::uint32_t> begin(std::uint32_t member, std::uint64_t sample,
                                     std::chrono::steady_clock::time_point deadline,
                                     PeerAnswer& answer);
  // Waits for the answer. Nothing: it has not come in time. Then, too, the caller goes on, and the
  // member is to be closed, which ends the request.
  std::optional<PeerAnswer> wait(std::uint32_t number,
                                 std::chrono::steady_clock::time_point deadline,
                                 std::vector<std::uint8_t>& buffer);

  // The member is asked no more, and all that it was asked for has ended. The first reason counts.
  // From then on no bytes of it arrive. The links' thread.
  void end(std::uint32_t member, const std::string& why);
  // The same without an end of what is under way: the links' thread calls `end` soon.
  void mark_gone(std::uint32_t member, const std::string& why);
  bool is_gone(std::uint32_t member) const;

  // ---- The links' thread ---------------------------------------------------------------------

  // What is sent. Nothing: the request has ended, or is another member's.
  std::optional<PeerRequest> request(std::uint32_t member, std::uint32_t number);
  // Room for an answer, or for a refusal. Null: the member was not asked for that, one of the two
  // has begun already, or there is no memory.
  std::byte* room(std::uint32_t member, std::uint32_t number, std::uint32_t bytes,
                  std::uint32_t checksum);
  std::byte* refusal_room(std::uint32_t member, std::uint32_t number, std::uint32_t bytes);
  // All of it has arrived. Nothing happens where the request has ended.
  void arrived(std::uint32_t member, std::uint32_t number);

 private:
  enum class State : std::uint8_t { kFree, kAsked, kOver };
  struct Slot {
    State state = State::kFree;
    bool is_left = false;    // nobody waits any more
    bool has_begun = false;  // its answer or refusal has room, and has it once
    std::uint32_t number = 0;
    std::uint32_t member = 0;
    PeerRequest request{};
    std::unique_ptr<std::uint8_t[]> bytes;
    std::uint32_t size = 0;
    std::uint8_t refusal = 0;
    PeerAnswer answer{};
  };

  Slot& slot(std::uint32_t number) { return slots_[number % slots_.size()]; }
  // The slot of a request to that member that is under way. REQUIRES: the mutex.
  Slot* find(std::uint32_t member, std::uint32_t number);
  void free(Slot& slot);

  const PeerRequest each_;
  mutable std::mutex mutex_;
  std::condition_variable over_, freed_;
  std::vector<Slot> slots_;
  std::vector<std::optional<std::string>> gone_;  // [member]: why
};

}  // namespace phub::data
