// Which transport reaches each server, and why. Set-up only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/connect/link_options.h"
#include "common/connect/verbs_ports.h"
#include "common/rendezvous/membership.h"

namespace phub::client {

struct TransportChoice {
  std::string transport;  // shm, tcp, verbs
  std::string reason;
};

// Whether a port here reaches the one that serves a core there; else why not.
using VerbsReach = std::function<Status(const RdmaPort& peer, std::uint32_t core)>;

// `wanted`: auto, shm, tcp or verbs. auto: shm on the same host and in the server's network
// namespace (not from another container), verbs if the server has RDMA ports, all within reach,
// else tcp. Error: kFailedPrecondition when what is wanted cannot be had, with the reason.
Result<TransportChoice> choose_transport(const std::string& wanted, const JoinInfo& joined,
                                         const VerbsReach& reach);

// For who requires encryption. Error: kFailedPrecondition where bytes would leave the host plain.
Status check_encryption(const TransportChoice& choice, const JoinInfo& joined);

// Those of all servers of a job.
struct TransportChoices {
  std::vector<TransportChoice> by_server;
  std::string name;                   // of all of them, or "mixed"
  std::string reason;                 // why, server by server, in words
  std::unique_ptr<VerbsPorts> ports;  // null: not looked for, or there is none

  bool any(std::string_view transport) const;
};

// Errors: those of the two above, with the server.
Result<TransportChoices> choose_transports(const std::string& wanted, const LinkOptions& links,
                                           const Membership& membership, bool require_encryption);

}  // namespace phub::client
