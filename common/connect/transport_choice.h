// Which transport reaches a server, and why. Set-up only.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/connect/verbs_ports.h"
#include "common/rendezvous/rendezvous.h"

namespace phub::client {

struct TransportChoice {
  std::string transport;  // shm, tcp, verbs
  std::string reason;
};

// `wanted`: auto, shm, tcp or verbs. auto: shm on the same host and in the server's network
// namespace (not from another container), verbs if the server has RDMA ports that `ports` reaches,
// else tcp. `ports` is null without usable ports; `obstacle` then says why. Error:
// kFailedPrecondition when what is wanted cannot be had, with the reason.
Result<TransportChoice> choose_transport(const std::string& wanted, const JoinInfo& joined,
                                         VerbsPorts* ports, const std::string& obstacle);

// For who requires encryption. Error: kFailedPrecondition where bytes would leave the host plain.
Status check_encryption(const TransportChoice& choice, const JoinInfo& joined);

}  // namespace phub::client
