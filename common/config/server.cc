// What makes sense in a ServerConfig.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/config/check.h"
#include "common/config/config.h"
#include "common/config/racks.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

constexpr std::uint32_t kCoresMax = 4096;
constexpr std::uint32_t kHeartbeatDeadlineMsMin = 100;
constexpr std::uint32_t kHourMs = 3'600'000;
constexpr std::uint32_t kConnectionsMax = 65'536;

void check_cores(const ServerConfig& config, ConfigCheck& check) {
  const bool has_both = config.cores() != 0 && config.cpus_size() != 0;
  check.require(!has_both || config.cpus_size() == static_cast<int>(config.cores()), "cpus",
                fmt::format("{} CPUs are listed for {} cores; list one for each core, or leave "
                            "`cores` out",
                            config.cpus_size(), config.cores()));
  std::set<std::uint32_t> seen;
  for (int i = 0; i < config.cpus_size(); ++i) {
    check.require(
        seen.insert(config.cpus(i)).second, "cpus",
        fmt::format("CPU {} is listed twice; give every core a CPU of its own", config.cpus(i)), i);
  }
}

void check_waiting(const WaitingConfig& waiting, ConfigCheck check) {
  check.one_of("policy", waiting.policy(), {"adaptive", "poll"});
  const bool is_adaptive = waiting.policy() != "poll";
  check.unused_unless(is_adaptive, "spin_iterations", "with policy \"poll\"");
  check.unused_unless(is_adaptive, "yield_iterations", "with policy \"poll\"");
}

void check_security(const ServerConfig& config, ConfigCheck check) {
  const ServerSecurityConfig& security = config.security();
  const bool has_tls = security.has_ca() || security.has_certificate() || security.has_key();
  check.one_of("client_certificates", security.client_certificates(), {"require", "none"});
  for (const auto& [field, value] :
       {std::pair("ca", security.ca()), std::pair("certificate", security.certificate()),
        std::pair("key", security.key())}) {
    check.require(!has_tls || !value.empty(), field,
                  "is missing: TLS needs ca, certificate and key; `phubctl pki init` makes them");
  }
  check.unused_unless(has_tls, "client_certificates", "without ca, certificate and key");
  const bool asks_clients = has_tls && security.client_certificates() != "none";
  check.unused_unless(asks_clients, "crl_folder", "where clients show no certificates");
  check.in_range("connection_age_ms", security.connection_age_ms(), 1000U, 24 * kHourMs);
  check.require(!has_tls || !security.allow_plaintext(), "allow_plaintext",
                "contradicts ca, certificate and key; remove it");
  const auto address = parse_address(config.control_address());
  const bool is_secret = has_tls || !address || is_loopback(address->host);
  check.require(
      !security.encrypt_data() || is_secret, "encrypt_data",
      "needs TLS: the keys come from what a join tells, which would be readable; give ca, "
      "certificate and key (`phubctl pki init` makes them), or remove it");
  check.require(security.tokens() != "required" || !config.state_folder().empty(), "tokens",
                "\"required\" needs state_folder: tokens are kept there, and the first admin token "
                "is written to it; set state_folder (--state), or tokens: \"off\" (--tokens off)");
}

void check_plaintext(const ServerConfig& config, ConfigCheck& check) {
  const auto address = parse_address(config.control_address());
  const bool is_allowed = !address || is_loopback(address->host) || config.security().has_ca() ||
                          config.security().allow_plaintext();
  check.require(is_allowed, "control_address",
                fmt::format("{} can be reached from other hosts, and without TLS everybody there "
                            "could administer this server; give security {{ ca certificate key }} "
                            "(`phubctl pki init` makes them), or say security {{ allow_plaintext: "
                            "true }} (--allow-plaintext, and --tokens for who may call)",
                            config.control_address()));
}

// What a command line can give, each value for itself.
void check_values(const ServerConfig& config, ConfigCheck& check) {
  check.address("control_address", config.control_address(), 0);
  check.address("data_address", config.data_address(), 0);
  if (config.has_http_address()) check.address("http_address", config.http_address(), 0);
  check.in_range("cores", config.cores(), 0U, kCoresMax);
  for (int i = 0; i < config.transports_size(); ++i) {
    check.one_of("transports", config.transports(i), {"shm", "tcp", "verbs"}, i);
  }
  check.log_level("log_level", config.log_level());
  if (!config.has_security()) return;
  check.nested("security", config.security())
      .one_of("tokens", config.security().tokens(), {"required", "off"});
}

}  // namespace

Status validate_values(const ServerConfig& config) {
  Status status;
  ConfigCheck check({}, nullptr, config, status);
  check_values(config, check);
  return status;
}

Status validate(const ServerConfig& config, const std::string& file,
                const ConfigCheck::Tree* tree) {
  Status status;
  ConfigCheck check(file, tree, config, status);
  check_values(config, check);
  if (config.has_security()) {
    check_security(config, check.nested("security", config.security()));
  }
  check_plaintext(config, check);
  check.in_range("join_secret_lifetime_ms", config.join_secret_lifetime_ms(), 1000U, kHourMs);
  check.unused_unless(config.has_http_address(), "http_allow_plaintext",
                      "because there is no http_address");
  check.unused_unless(config.has_http_address(), "http_hosts", "because there is no http_address");
  check_cores(config, check);
  std::set<std::string> transports;
  for (int i = 0; i < config.transports_size(); ++i) {
    const std::string& transport = config.transports(i);
    check.require(transports.insert(transport).second, "transports",
                  fmt::format("\"{}\" is listed twice", transport), i);
  }
  const bool encrypts = config.security().encrypt_data();
  check.require(!encrypts || transports.count("verbs") == 0, "transports",
                "\"verbs\" cannot be encrypted; remove it, or security.encrypt_data");
  check.require(!encrypts || transports.empty() || transports.count("tcp") != 0, "transports",
                "has no \"tcp\", which is all that security.encrypt_data encrypts; add it, or "
                "remove encrypt_data");
  const bool has_verbs = transports.empty() || transports.count("verbs") != 0;
  check.require(transports.empty() || !has_verbs || transports.count("tcp") != 0, "transports",
                "\"verbs\" needs \"tcp\" beside it: its connections are set up over the data port");
  check.unused_unless(has_verbs, "verbs_devices", "because transports has no \"verbs\"");
  check.unused_unless(has_verbs, "verbs_gid_index", "because transports has no \"verbs\"");
  check.in_range("verbs_gid_index", config.verbs_gid_index(), 0U, 255U);
  check.unused_unless(transports.empty() || transports.count("tcp") != 0, "data_address",
                      "because transports has no \"tcp\"");
  check.unused_unless(transports.empty() || transports.count("tcp") != 0, "tcp_congestion_control",
                      "because transports has no \"tcp\"");
  check.unused_unless(transports.empty() || transports.count("tcp") != 0, "tcp_buffer_kib",
                      "because transports has no \"tcp\"");
  if (config.tcp_buffer_kib() != 0) {
    check.in_range("tcp_buffer_kib", config.tcp_buffer_kib(), kTcpBufferKibMin, kTcpBufferKibMax);
  }
  check.in_range("heartbeat_deadline_ms", config.heartbeat_deadline_ms(), kHeartbeatDeadlineMsMin,
                 kHourMs);
  for (const char* const field :
       {"snapshots_kept", "snapshots_limit_mib", "snapshots_of_tenant", "snapshots_expire_s"}) {
    check.unused_unless(!config.state_folder().empty(), field, "without state_folder");
  }
  check.require(!config.drain_snapshots() || !config.state_folder().empty(), "drain_snapshots",
                "snapshots need a state_folder");
  check.in_range("connections_per_core", config.connections_per_core(), 1U, kConnectionsMax);
  check.in_range("drain_timeout_ms", config.drain_timeout_ms(), 0U, 24 * kHourMs);
  if (config.has_waiting()) {
    check_waiting(config.waiting(), check.nested("waiting", config.waiting()));
  }
  check_racks(config, check);
  return status;
}

}  // namespace phub
