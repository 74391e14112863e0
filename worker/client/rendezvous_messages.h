// What the client says and hears at the rendezvous, between our types and the messages'.
//
// Pure functions; any thread.
#pragma once

#include <optional>

#include "common/transport/verbs/device.h"
#include "proto/control.pb.h"
#include "worker/client/rendezvous.h"

namespace phub::client {

void fill(const JobDescription& job, control::JobSpec& message);

// Nothing where the message is malformed.
std::optional<RdmaPort> port_from(const control::RdmaPort& message);

}  // namespace phub::client
