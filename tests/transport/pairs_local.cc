// The backends that every machine has.
#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
namespace {

constexpr std::chrono::microseconds kPairDelay{300};

std::unique_ptr<EndpointPair> plain_pair(int family) {
  auto [near, far] = loopback(family);
  return tcp_pair(std::move(near), std::move(far));
}

std::unique_ptr<EndpointPair> encrypted_pair(int family) {
  auto [near, far] = loopback(family);
  return tcp_pair({std::move(near), sealed_stream(HandshakeRole::kServer)},
                  {std::move(far), sealed_stream(HandshakeRole::kWorker)});
}

}  // namespace

std::vector<NamedPair> endpoint_pairs() {
  return {{"shm", shm_pair},
          {"tcp over IPv4", [] { return plain_pair(AF_INET); }},
          {"tcp over IPv6", [] { return plain_pair(AF_INET6); }},
          {"encrypted tcp", [] { return encrypted_pair(AF_INET); }},
          {"tcp with a delay",
           [] { return delayed_pair(plain_pair(AF_INET), {.delay = kPairDelay, .max_peers = 4}); }},
          {"encrypted tcp with a delay", [] {
             return delayed_pair(encrypted_pair(AF_INET), {.delay = kPairDelay, .max_peers = 4});
           }}};
}

}  // namespace phub::transport
