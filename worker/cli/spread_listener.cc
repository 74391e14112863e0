#include "worker/cli/spread_listener.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"
#include "worker/cli/options/run_options.h"
#include "worker/data/spread/tcp_links.h"

namespace phub {
namespace {

// Where the server has a loopback address, the workers are on this host. Of one that is not, the
// links' notes name the cure.
std::string address_of(const WorkerConfig& config) {
  const std::string& own = config.data().spread().address();
  if (!own.empty()) return own;
  const auto server = parse_address(config.servers(0));
  return server && is_loopback(server->host) ? to_string(Address{.host = server->host, .port = 0})
                                             : "";
}

// What the others are told of it. Where it listens at all addresses, or has chosen none, they take
// the one from which it joins.
std::string host_of(const WorkerConfig& config) {
  const auto own = parse_address(config.data().spread().address());
  return own && own->host != "0.0.0.0" && own->host != "::" ? own->host : "";
}

// How many workers will hold the set together: those of this worker's rack. 0: nobody can know
// before the server has chosen the rack's place for it.
std::uint32_t members_of(const WorkerConfig& config) {
  if (config.racks().empty()) return config.workers();
  std::int64_t first = 0;
  std::uint32_t members = config.racks(0).workers();
  for (const JobRackConfig& rack : config.racks()) {
    const std::int64_t end = first + rack.workers();
    if (config.worker_index() >= first && config.worker_index() < end) return rack.workers();
    if (rack.workers() != members) members = 0;
    first = end;
  }
  return members;
}

Status check_encryption(const WorkerConfig& config, const client::PeerGroup& group) {
  const auto is_near = [](const client::PeerPlace& peer) { return is_loopback(peer.host); };
  if (!config.security().require_encryption() || group.encrypts || group.peers.size() == 1 ||
      std::ranges::all_of(group.peers, is_near)) {
    return {};
  }
  return {Code::kFailedPrecondition,
          "security.require_encryption: samples would travel to other workers unencrypted "
          "(data.spread): start the servers with security.encrypt_data"};
}

}  // namespace

Result<PeerAddress> listen_for_peers(const WorkerConfig& config, train::SessionOptions& options) {
  if (!config.data().has_spread()) return PeerAddress{};
  constexpr std::uint64_t kMiB = 1024 * 1024;
  options.data.spread.memory_bytes = config.data().spread().memory_mib() * kMiB;
  if (config.servers_size() == 0 || config.workers() == 1) return PeerAddress{};
  options.data.spread.connect = {};  // with the listener of a session before
  options.data.spread.members = members_of(config);
  options.data.feed.yields = true;
  PHUB_ASSIGN_OR_RETURN(data::PeerListener opened, data::PeerListener::open(address_of(config)));
  const std::uint16_t port = opened.port();
  const auto listener = std::make_shared<data::PeerListener>(std::move(opened));
  const std::chrono::milliseconds timeout(config.timeout_ms());
  // The configuration outlives the session.
  options.data.spread.connect =
      [listener, timeout,
       &config](const data::LinkParts& parts) -> Result<std::unique_ptr<data::PeerLinks>> {
    PHUB_RETURN_IF_ERROR(check_encryption(config, parts.group));
    PHUB_ASSIGN_OR_RETURN(
        auto links,
        data::TcpLinks::create(parts, data::TcpLinkOptions::within(timeout), std::move(*listener)));
    return std::unique_ptr<data::PeerLinks>(std::move(links));
  };
  return PeerAddress{.host = host_of(config), .port = port};
}

}  // namespace phub
