// Which workers listen for each other, from a server's message. A pure function; any thread.
#pragma once

#include "common/base/status.h"
#include "common/rendezvous/join_info.h"
#include "common/rendezvous/peer_group.h"
#include "common/rendezvous/server_calls.h"
#include "proto/control.pb.h"

namespace phub::client {

// Errors: kInternal, the message makes no sense, or leaves this worker out; names the server.
Result<PeerGroup> read_peers(const control::StartReply& reply, const JoinInfo& joined,
                             const ServerCalls& server);

}  // namespace phub::client
