// What other members have asked this one for, and the answers that are on their way to them.
//
// A member has a bounded number of requests under way, as it said when it connected. Belongs to the
// links' thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/transport/tcp/tcp_endpoint.h"
#include "worker/data/spread/holder.h"
#include "worker/data/spread/peer_wire.h"

namespace phub::data {

class Answers final : public transport::Checksums {
 public:
  explicit Answers(const Holder& holder) : holder_(holder), askers_(holder.members()) {}

  // A member may ask from now on, over that connection.
  void open(std::uint32_t member, std::uint32_t requests_max);
  void close(std::uint32_t member);
  bool is_open(std::uint32_t member) const { return askers_[member].requests_max > 0; }

  // Room for a member's request. Null: it is none, or the member has too many under way; `why` says
  // which.
  std::byte* room(std::uint32_t member, std::uint32_t bytes, std::string& why);
  // The request has arrived. Nothing: it is for a sample that is not this member's; `why` says so.
  // The sample means nothing where the asker has another set, which its number tells.
  std::optional<PeerRequest> take(const std::byte* data, std::string& why) const;

  // An answer is known.
  void add(std::uint32_t member, std::uint32_t number, std::uint32_t largest_bytes,
           const Holder::Reply& reply);
  // The asker has another set.
  void refuse_other_set(std::uint32_t member, std::uint32_t number);
  // Posts what there is room for.
  void post(std::uint32_t member, transport::PeerId peer, transport::TcpEndpoint& endpoint);

  const std::uint32_t* checksum(transport::PeerId peer, std::uint32_t immediate) const override;

 private:
  struct Due {
    std::uint32_t number = 0;
    std::optional<Holder::Held> held{};  // nothing: a refusal
    PeerRefusal refusal = PeerRefusal::kNotHeld;
  };
  struct Asker {
    std::uint32_t requests_max = 0;       // 0: it is not connected
    std::uint32_t under_way = 0;          // requests that are not answered
    std::vector<PeerRequest> requests{};  // a ring: they arrive one after another
    std::uint64_t arrived = 0;
    std::deque<Due> due{};
  };

  const Holder& holder_;
  std::vector<Asker> askers_;              // [member]
  const std::uint32_t* posted_ = nullptr;  // the checksum of what is posted now
};

}  // namespace phub::data
