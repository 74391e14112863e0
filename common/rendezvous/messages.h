// What the client says and hears at the rendezvous, between our types and the messages'.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/rendezvous/rendezvous.h"
#include "common/transport/verbs/device/device.h"
#include "proto/control.pb.h"

namespace phub::client {

// All but the keys.
void fill(const JobDescription& job, control::JobSpec& message);

// Adds as many keys from index `first` on as a request should have; returns the next index.
std::size_t add_keys(const std::vector<KeySpec>& keys, std::size_t first,
                     control::JobSpec& message);

// Nothing where the message is malformed.
std::optional<RdmaPort> port_from(const control::RdmaPort& message);

}  // namespace phub::client
