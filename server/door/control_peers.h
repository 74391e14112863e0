// The callers at the other end of the control port's connections. gRPC knows connections by names
// only.
//
// The listener writes it, and forgets nobody of whom gRPC still has a call. Any thread.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "server/door/pump/tls_context.h"

namespace phub::server {

struct ControlPeer {
  std::string address = {};                         // "ipv4:192.0.2.7:40000", "ipv6:[::1]:40000"
  std::optional<PeerCertificate> certificate = {};  // shown and verified; none without TLS
};

class ControlPeers {
 public:
  // `peer`: as ServerContext::peer() names the connection.
  void add(const std::string& peer, ControlPeer who) {
    const std::lock_guard lock(mutex_);
    peers_.insert_or_assign(peer, std::move(who));
  }
  void remove(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    peers_.erase(peer);
  }
  // Nothing: gRPC has no such connection any more.
  std::optional<ControlPeer> find(const std::string& peer) const {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(peer);
    return found == peers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, ControlPeer> peers_;
};

}  // namespace phub::server
