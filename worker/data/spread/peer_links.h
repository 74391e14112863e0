// How a member asks the others for samples: links that are abstract here, so that a test has its
// own. TcpLinks are the real ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/rendezvous/peer_group.h"
#include "worker/data/spread/holder.h"

namespace phub::data {

struct PeerAnswer {
  enum class Outcome : std::uint8_t {
    kBytes,
    kNotHeld,   // the member has it not in its memory, or it is too large to travel
    kLate,      // the member's source has not given it in time; the member is asked again
    kTooLarge,  // it is larger than this member has room for
    kOtherSet,  // the member has another set: its samples have nothing to do with this one's labels
    kGone       // the member is gone, or is silent, and is asked no more
  };

  Outcome outcome = Outcome::kGone;
  std::uint32_t checksum = 0;  // of kBytes: CRC-32C, as the member says
  std::string why = {};        // of kGone, in words
};

// Any thread may call.
class PeerLinks {
 public:
  virtual ~PeerLinks() = default;

  // Asks member `member` for a sample that it holds, and waits for the answer, within a deadline.
  // With kBytes, `buffer` has the sample's bytes. REQUIRES: `member` is not this member.
  virtual PeerAnswer ask(std::uint32_t member, std::uint64_t sample,
                         std::vector<std::uint8_t>& buffer) = 0;
  // The member has sent bytes that are wrong: it is asked no more.
  virtual void drop(std::uint32_t member, const std::string& why) = 0;
  // What messages call the member: "worker 2 (10.0.0.3:40000)".
  virtual std::string name(std::uint32_t member) const = 0;
};

// What both members are told of a set that is not the other's.
inline std::string other_set(const std::string& member) {
  return "data.spread: " + member +
         " has another set than this worker, so no samples go between them: give all workers of "
         "the job the same set in data.path, in one data.format";
}

// What links are made of.
struct LinkParts {
  const client::PeerGroup& group;
  Holder& holder;                   // outlives the links, and is stopped before they go
  std::uint32_t readers = 1;        // threads that ask at the same time; at most kRequestsMax
  std::uint32_t largest_bytes = 0;  // of an answer
  std::function<void(std::string_view)> note = {};  // by any thread, one at a time; may be empty
};
// Connects to the other members. One that cannot be reached counts as gone. Null: there are none.
using ConnectPeers = std::function<Result<std::unique_ptr<PeerLinks>>(const LinkParts& parts)>;

}  // namespace phub::data
