#include "common/connect/transport_choice.h"

#include <algorithm>
#include <set>

#include "common/transport/shm/namespace.h"

namespace phub::client {

namespace {

// Empty: verbs can be used.
std::string verbs_obstacle(const JoinInfo& joined, const VerbsReach& reach) {
  if (joined.encrypts_data) return "the server encrypts its data plane, which verbs cannot";
  if (joined.rdma.empty()) return "the server offers no verbs (no RDMA port, or its `transports`)";
  for (std::uint32_t core = 0; core < joined.rdma.size(); ++core) {
    const Status reached = reach(joined.rdma[core], core);
    if (!reached.ok()) return reached.message();
  }
  return {};
}

std::string shm_obstacle(const JoinInfo& joined) {
  if (!joined.same_host) return "the server is on another host";
  if (joined.shm_socket.empty()) return "the server does not offer it (its `transports`)";
  if (transport::is_in_this_namespace(joined.shm_socket)) return {};
  return "its socket is not in this network namespace (another container?)";
}

}  // namespace

Result<TransportChoice> choose_transport(const std::string& wanted, const JoinInfo& joined,
                                         const VerbsReach& reach) {
  const auto unless = [&](const std::string& why_not,
                          const std::string& how = {}) -> Result<TransportChoice> {
    if (why_not.empty()) return TransportChoice{wanted, "as asked for" + how};
    return Status(Code::kFailedPrecondition,
                  "transport " + wanted + ": " + why_not + "; use another, or auto");
  };
  const std::string no_tcp =
      joined.tcp_port == 0 ? "the server does not offer it (its `transports`)" : "";
  if (wanted == "shm") return unless(shm_obstacle(joined));
  const std::string how = joined.encrypts_data ? "; encrypted (AES-128-GCM)" : "";
  if (wanted == "tcp") return unless(no_tcp, how);
  const std::string no_verbs = verbs_obstacle(joined, reach);
  if (wanted == "verbs") return unless(no_verbs);
  const std::string no_shm = shm_obstacle(joined);
  if (no_shm.empty()) return TransportChoice{"shm", "on the same host"};
  const std::string why = joined.same_host ? "no shm: " + no_shm + "; " : "";
  if (no_verbs.empty()) {
    return TransportChoice{"verbs", why + "through its " + joined.rdma[0].device};
  }
  if (no_tcp.empty()) return TransportChoice{"tcp", why + "no verbs: " + no_verbs + how};
  return Status(Code::kFailedPrecondition, "no transport is left: tcp: " + no_tcp +
                                               "; verbs: " + no_verbs + "; shm: " + no_shm);
}

Status check_encryption(const TransportChoice& choice, const JoinInfo& joined) {
  if (choice.transport == "shm" || (choice.transport == "tcp" && joined.encrypts_data)) return {};
  return {Code::kFailedPrecondition,
          "require_encryption: it does not encrypt what goes over " + choice.transport +
              "; set security { encrypt_data: true } in its configuration, or remove "
              "require_encryption"};
}

bool TransportChoices::any(std::string_view transport) const {
  return std::any_of(by_server.begin(), by_server.end(),
                     [&](const TransportChoice& choice) { return choice.transport == transport; });
}

Result<TransportChoices> choose_transports(const std::string& wanted, const LinkOptions& links,
                                           const Membership& membership, bool require_encryption) {
  TransportChoices choices;
  Status obstacle;
  if (wanted == "auto" || wanted == "verbs") {
    auto ports = VerbsPorts::create(links.verbs_devices, links.verbs_gid_index);
    if (ports) {
      choices.ports = std::move(*ports);
    } else {
      obstacle = ports.error();
    }
  }
  const VerbsReach reach = [&](const RdmaPort& peer, std::uint32_t core) -> Status {
    if (!choices.ports) return obstacle;
    return choices.ports->towards(peer, core).error();
  };
  std::set<std::string> used;
  for (std::size_t s = 0; s < membership.joined.size(); ++s) {
    const JoinInfo& joined = membership.joined[s];
    const std::string& name = membership.servers[s]->address();
    auto choice = choose_transport(wanted, joined, reach);
    if (!choice) return choice.error().with_context("server " + name);
    if (require_encryption) {
      const Status encrypted = check_encryption(*choice, joined);
      if (!encrypted.ok()) return encrypted.with_context("server " + name);
    }
    used.insert(choice->transport);
    choices.reason += (choices.reason.empty() ? "" : "; ") + name + ": " + choice->transport +
                      ", " + choice->reason;
    choices.by_server.push_back(std::move(*choice));
  }
  choices.name = used.size() == 1 ? *used.begin() : "mixed";
  return choices;
}

}  // namespace phub::client
