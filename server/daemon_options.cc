// What a ServerConfig means to the daemon.

#include <algorithm>
#include <string>

#include "proto/config.pb.h"
#include "server/daemon.h"

namespace phub::server {
namespace {

constexpr std::uint64_t kMebibyte = 1024 * 1024;

bool offers(const ServerConfig& config, const std::string& transport) {
  const auto& offered = config.transports();
  return offered.empty() || std::find(offered.begin(), offered.end(), transport) != offered.end();
}

OfferVerbs offer_verbs(const ServerConfig& config) {
  if (!offers(config, "verbs") || config.security().encrypt_data()) return OfferVerbs::kNo;
  return config.transports().empty() ? OfferVerbs::kIfPossible : OfferVerbs::kYes;
}

ClientSecurity security_of(const ClientSecurityConfig& security) {
  return {
      .tls = {.ca = security.ca(), .certificate = security.certificate(), .key = security.key()},
      .token_file = security.token_file(),
      .allow_plaintext = security.allow_plaintext()};
}

DirectoryOptions directory_of(const ServerConfig& config) {
  DirectoryOptions options{.rack = config.rack(),
                           .address = config.has_advertise_address() ? config.advertise_address()
                                                                     : config.control_address()};
  for (const RackConfig& rack : config.directory().racks()) {
    options.racks.push_back(
        {.name = rack.name(), .servers = {rack.servers().begin(), rack.servers().end()}});
  }
  if (config.directory().has_etcd()) {
    const EtcdConfig& etcd = config.directory().etcd();
    options.etcd = {.endpoints = {etcd.endpoints().begin(), etcd.endpoints().end()},
                    .prefix = etcd.prefix(),
                    .lease = std::chrono::seconds(etcd.lease_s()),
                    .timeout = std::chrono::milliseconds(etcd.timeout_ms()),
                    .tls = {.ca = etcd.ca(), .certificate = etcd.certificate(), .key = etcd.key()},
                    .user = etcd.user(),
                    .password_file = etcd.password_file()};
  }
  return options;
}

}  // namespace

DaemonOptions options_from(const ServerConfig& config) {
  const bool has_tls = !config.security().certificate().empty();
  const bool needs_tokens = config.has_security() && config.security().tokens() == "required";
  const bool lists_cpus = config.cores() == 0 && config.cpus_size() > 0;
  const Waiting waiting{.spin_iterations = config.waiting().spin_iterations(),
                        .yield_iterations = config.waiting().yield_iterations(),
                        .sleep = config.waiting().policy() == "adaptive"};
  return {.data_plane = {.cores = lists_cpus ? static_cast<std::uint32_t>(config.cpus_size())
                                             : config.cores(),
                         .cpus = {config.cpus().begin(), config.cpus().end()},
                         .allow_oversubscription = config.allow_oversubscription(),
                         .waiting = waiting,
                         .shm = offers(config, "shm"),
                         .tcp = offers(config, "tcp"),
                         .tcp_address = config.data_address(),
                         .tcp_congestion_control = config.tcp_congestion_control(),
                         .tcp_buffer_kib = config.tcp_buffer_kib(),
                         .encrypt_tcp = config.security().encrypt_data(),
                         .verbs = offer_verbs(config),
                         .verbs_devices = {config.verbs_devices().begin(),
                                           config.verbs_devices().end()},
                         .verbs_gid_index = config.has_verbs_gid_index()
                                                ? std::optional(config.verbs_gid_index())
                                                : std::nullopt,
                         .connections_per_core = config.connections_per_core(),
                         .memory_limit_bytes = config.memory_limit_mib() * kMebibyte},
          .control_address = config.control_address(),
          .http = {.address = config.http_address(),
                   .allow_plaintext =
                       config.http_allow_plaintext() || config.security().allow_plaintext(),
                   .certificate_file = config.security().certificate(),
                   .key_file = config.security().key()},
          .http_hosts = {.any = has_tls || needs_tokens,
                         .names = {config.http_hosts().begin(), config.http_hosts().end()}},
          .heartbeat_deadline = std::chrono::milliseconds(config.heartbeat_deadline_ms()),
          .drain_timeout = std::chrono::milliseconds(config.drain_timeout_ms()),
          .join_secret_lifetime = std::chrono::milliseconds(config.join_secret_lifetime_ms()),
          .tls = {.ca = config.security().ca(),
                  .certificate = config.security().certificate(),
                  .key = config.security().key()},
          .crl_folder = config.security().crl_folder(),
          .connection_age = std::chrono::milliseconds(config.security().connection_age_ms()),
          .require_client_certificates = config.security().client_certificates() == "require",
          .tenancy = {.state_folder = config.state_folder(), .tokens_required = needs_tokens},
          .snapshots_kept = config.snapshots_kept(),
          .snapshots_limit_bytes = config.snapshots_limit_mib() * kMebibyte,
          .snapshots_of_tenant = config.snapshots_of_tenant(),
          .snapshots_expire = std::chrono::seconds(config.snapshots_expire_s()),
          .drain_snapshots = config.drain_snapshots(),
          .directory = directory_of(config),
          .rack_transport = config.rack_transport(),
          .rack_security = security_of(config.rack_security())};
}

}  // namespace phub::server
