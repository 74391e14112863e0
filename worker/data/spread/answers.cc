#include "worker/data/spread/answers.h"

#include <array>
#include <cstring>

namespace phub::data {
namespace {

// What refusals point to until they have been sent.
constexpr std::array<std::byte, 5> kRefusals = {std::byte{0}, std::byte{1}, std::byte{2},
                                                std::byte{3}, std::byte{4}};

}  // namespace

void Answers::open(std::uint32_t member, std::uint32_t requests_max) {
  askers_[member] =
      Asker{.requests_max = requests_max, .requests = std::vector<PeerRequest>(requests_max)};
}

void Answers::close(std::uint32_t member) { askers_[member] = Asker{}; }

std::byte* Answers::room(std::uint32_t member, std::uint32_t bytes, std::string& why) {
  Asker& asker = askers_[member];
  if (bytes != sizeof(PeerRequest)) {
    why = "it sent a request of " + std::to_string(bytes) + " bytes, which has " +
          std::to_string(sizeof(PeerRequest));
    return nullptr;
  }
  if (asker.under_way >= asker.requests_max) {
    why = "it has more than the " + std::to_string(asker.requests_max) +
          " requests under way that it said it would have";
    return nullptr;
  }
  ++asker.under_way;
  return reinterpret_cast<std::byte*>(&asker.requests[asker.arrived++ % asker.requests_max]);
}

std::optional<PeerRequest> Answers::take(const std::byte* data, std::string& why) const {
  PeerRequest request;
  std::memcpy(&request, data, sizeof(request));
  if (request.content_number != holder_.content_number()) return request;
  if (request.sample < holder_.samples() && holder_.member_of(request.sample) == holder_.self()) {
    return request;
  }
  why = "it asked for sample " + std::to_string(request.sample) + " of " +
        std::to_string(holder_.samples()) + ", which is not this worker's to hold";
  return std::nullopt;
}

void Answers::add(std::uint32_t member, std::uint32_t number, std::uint32_t largest_bytes,
                  const Holder::Reply& reply) {
  Asker& asker = askers_[member];
  if (asker.requests_max == 0) return;  // it is gone
  Due due{.number = number, .held = reply.held};
  if (reply.is_late) due.refusal = PeerRefusal::kLate;
  if (reply.held && reply.held->bytes.size() > largest_bytes) {
    due.held.reset();
    due.refusal = PeerRefusal::kTooLarge;
  }
  asker.due.push_back(due);
}

void Answers::refuse_other_set(std::uint32_t member, std::uint32_t number) {
  if (!is_open(member)) return;
  askers_[member].due.push_back({.number = number, .refusal = PeerRefusal::kOtherSet});
}

void Answers::post(std::uint32_t member, transport::PeerId peer, transport::TcpEndpoint& endpoint) {
  Asker& asker = askers_[member];
  while (!asker.due.empty() && endpoint.room(peer) > 0) {
    const Due& due = asker.due.front();
    const std::byte* const refusal = &kRefusals[static_cast<std::uint8_t>(due.refusal)];
    const transport::Write write{
        .data = due.held ? reinterpret_cast<const std::byte*>(due.held->bytes.data()) : refusal,
        .bytes = due.held ? static_cast<std::uint32_t>(due.held->bytes.size()) : 1,
        .immediate = due.number};
    posted_ = due.held ? &due.held->checksum : nullptr;
    const std::size_t accepted = endpoint.post(peer, {&write, 1});
    posted_ = nullptr;
    if (accepted == 0) return;
    asker.due.pop_front();
    --asker.under_way;
  }
}

const std::uint32_t* Answers::checksum(transport::PeerId /*peer*/,
                                       std::uint32_t /*immediate*/) const {
  return posted_;
}

}  // namespace phub::data
