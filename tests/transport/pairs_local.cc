// The backends that every machine has.
#include "bench/delay/delayed_endpoint.h"
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

// Both sides' writes leave later.
std::unique_ptr<EndpointPair> delayed_pair(std::unique_ptr<EndpointPair> pair,
                                           const bench::DelayOptions& options) {
  for (Side* side : {&pair->a, &pair->b}) {
    std::shared_ptr<Endpoint> behind = std::move(side->endpoint);
    side->endpoint = std::move(*bench::DelayedEndpoint::create(*behind, options));
    side->kept = std::move(behind);
  }
  pair->settle = [](Side& side) {
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    while (!dynamic_cast<bench::DelayedEndpoint&>(*side.endpoint).is_empty()) {
      PHUB_CHECK(std::chrono::steady_clock::now() < deadline, "what was posted leaves");
      side.endpoint->poll({});
    }
  };
  return pair;
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
