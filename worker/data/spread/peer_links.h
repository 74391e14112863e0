// How a member asks the others for samples: links that are abstract here, so that a test has its
// own. TcpLinks are the real ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace phub::data {

struct PeerAnswer {
  enum class Outcome : std::uint8_t {
    kBytes,
    kNotHeld,   // the member has it not in its memory, or it is too large to travel
    kTooLarge,  // it is larger than this member has room for
    kGone       // the member is gone, or has not answered in time, and is asked no more
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
  // Of kBytes they are in `buffer`. REQUIRES: another member than this one.
  virtual PeerAnswer ask(std::uint32_t member, std::uint64_t sample,
                         std::vector<std::uint8_t>& buffer) = 0;
  // The member has sent bytes that are wrong: it is asked no more.
  virtual void drop(std::uint32_t member, const std::string& why) = 0;
  // What messages call the member: "worker 2 (10.0.0.3:40000)".
  virtual std::string name(std::uint32_t member) const = 0;
};

}  // namespace phub::data
