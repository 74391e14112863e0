#include "common/config/racks.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/base/rack.h"
#include "common/base/visible.h"
#include "common/plan/plan.h"
#include "common/plan/rack_trees.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"

namespace phub {
namespace {

constexpr int kEndpointsMax = 16;
constexpr std::size_t kPrefixBytesMax = 200;
constexpr char kNameRule[] =
    "\"{}\" is no name of a rack: give 1 to 64 of a-z A-Z 0-9 . _ -, a letter or a digit first; "
    "where "
    "it is goes before it, as in site1/row2/rack3";

// "HOST:PORT" in one form; empty where it is none, which is said elsewhere.
std::string normal(const std::string& address) {
  const auto parsed = parse_address(address);
  return parsed ? to_string(*parsed) : "";
}

bool is_wildcard(const std::string& address) {
  const auto parsed = parse_address(address);
  return parsed && (parsed->host == "0.0.0.0" || parsed->host == "::");
}

// Of one server, as others reach it. `port_min` 0: a port that is picked will do.
void check_reachable(ConfigCheck& check, const char* field, const std::string& address,
                     std::uint16_t port_min = 1, int index = 0) {
  check.address(field, address, port_min, index);
  check.require(address.size() <= kServerAddressCharsMax, field,
                fmt::format("an address has at most {} characters", kServerAddressCharsMax), index);
  check.require(
      !is_wildcard(address), field,
      fmt::format("\"{}\" names no host; give the address by which others reach it", address),
      index);
}

void check_list(const DirectoryConfig& directory, ConfigCheck check) {
  std::set<std::string> names;
  std::set<std::string> servers;
  check.require(
      directory.racks_size() > 0, "racks",
      "is missing: list each rack as racks { name: \"a\" servers: \"HOST:PORT\" }, or give "
      "etcd { endpoints: \"HOST:PORT\" }");
  check.require(
      directory.racks_size() <= static_cast<int>(kRacksMax), "racks",
      fmt::format("{} racks are listed; at most {} can be", directory.racks_size(), kRacksMax));
  for (int i = 0; i < directory.racks_size(); ++i) {
    const RackConfig& rack = directory.racks(i);
    ConfigCheck nested = check.nested("racks", rack, i);
    nested.require(is_rack_name(rack.name()), "name", fmt::format(kNameRule, rack.name()));
    nested.require(
        names.insert(rack.name()).second, "name",
        fmt::format("rack \"{}\" is listed twice: list all its servers in one", rack.name()));
    nested.require(rack.servers_size() > 0, "servers",
                   fmt::format("is missing: rack \"{}\" needs at least one", rack.name()));
    for (int j = 0; j < rack.servers_size(); ++j) {
      check_reachable(nested, "servers", rack.servers(j), 1, j);
      nested.require(
          servers.insert(normal(rack.servers(j))).second, "servers",
          fmt::format("\"{}\" is listed twice: a server is in one rack, once", rack.servers(j)), j);
    }
  }
  check.require(
      servers.size() <= kRackServersMax, "racks",
      fmt::format("{} servers are listed; at most {} can be", servers.size(), kRackServersMax));
}

// Which field says how other racks reach this server, and what it says.
std::pair<const char*, std::string> own_address(const ServerConfig& config) {
  if (config.has_advertise_address()) return {"advertise_address", config.advertise_address()};
  return {"control_address", config.control_address()};
}

void check_etcd_secrets(const EtcdConfig& etcd, ConfigCheck& check) {
  check.require(etcd.certificate().empty() == etcd.key().empty(), "certificate",
                "certificate and key go together: give both or none");
  check.require(etcd.certificate().empty() || !etcd.ca().empty(), "ca",
                "is missing: a certificate is for TLS, which needs the CA that signs etcd's");
  check.require(etcd.user().empty() == etcd.password_file().empty(), "user",
                "user and password_file go together: give both or none");
  const bool is_readable = !etcd.user().empty() && etcd.ca().empty();
  check.unused_unless(is_readable, "allow_plaintext", "where no password is sent, or TLS hides it");
  if (!is_readable || etcd.allow_plaintext()) return;
  for (int i = 0; i < etcd.endpoints_size(); ++i) {
    const auto address = parse_address(etcd.endpoints(i));
    check.require(!address || is_loopback(address->host), "endpoints",
                  fmt::format("without TLS everybody on the way to {} could read the password; "
                              "give ca, or say allow_plaintext: true",
                              etcd.endpoints(i)),
                  i);
  }
}

void check_etcd(const EtcdConfig& etcd, ConfigCheck check) {
  check.require(
      etcd.endpoints_size() > 0 && etcd.endpoints_size() <= kEndpointsMax, "endpoints",
      fmt::format("give 1 to {} addresses of etcd's members, \"HOST:PORT\"", kEndpointsMax));
  std::set<std::string> seen;
  for (int i = 0; i < etcd.endpoints_size(); ++i) {
    check.address("endpoints", etcd.endpoints(i), 1, i);
    check.require(seen.insert(etcd.endpoints(i)).second, "endpoints",
                  fmt::format("\"{}\" is listed twice", etcd.endpoints(i)), i);
  }
  const std::string& prefix = etcd.prefix();
  const bool is_prefix = !prefix.empty() && prefix.size() <= kPrefixBytesMax &&
                         prefix.back() != '/' && is_visible_name(prefix);
  check.require(is_prefix, "prefix",
                fmt::format("give 1 to {} bytes of UTF-8 without \"/\" at the end, as /phub/racks",
                            kPrefixBytesMax));
  check.in_range("lease_s", etcd.lease_s(), 2U, 3600U);
  check.in_range("timeout_ms", etcd.timeout_ms(), 50U, 60'000U);
  check.require(etcd.timeout_ms() < etcd.lease_s() * 1000, "timeout_ms",
                fmt::format("{} ms is not less than the lease, {} s: a call that fails would cost "
                            "the lease",
                            etcd.timeout_ms(), etcd.lease_s()));
  check_etcd_secrets(etcd, check);
}

// The server itself is in the list, where it says it is.
void check_own_place(const ServerConfig& config, ConfigCheck& check) {
  const auto [field, own] = own_address(config);
  const RackConfig* rack = nullptr;
  for (const RackConfig& listed : config.directory().racks()) {
    if (listed.name() == config.rack()) rack = &listed;
  }
  check.require(rack != nullptr, "rack",
                fmt::format("\"{}\" is not in directory.racks; add it there with its servers, or "
                            "correct the name",
                            config.rack()));
  if (rack == nullptr) return;
  bool is_listed = false;
  for (const std::string& server : rack->servers()) is_listed |= normal(server) == normal(own);
  check.require(is_listed, field,
                fmt::format("\"{}\" is not among the servers of rack \"{}\" in directory.racks; "
                            "add it there, or give the address that is listed as "
                            "advertise_address",
                            own, config.rack()));
}

}  // namespace

void check_job_racks(const WorkerConfig& config, ConfigCheck& check) {
  check.unused_unless(config.racks_size() > 0, "rack_shape", "without racks");
  check.unused_unless(config.racks_size() > 0, "rack_wire_type", "without racks");
  check.unused_unless(config.rack_shape() == name_of(RackShape::kHybrid), "rack_hybrid_bytes",
                      "with any rack_shape but hybrid");
  check.one_of("rack_wire_type", config.rack_wire_type(), {"fp32", "fp16", "bf16"});
  check.require(rack_shape_of(config.rack_shape()).has_value(), "rack_shape",
                fmt::format("\"{}\" is none of spread, chain, multicolour, hybrid, tree, nested",
                            config.rack_shape()));
  if (config.racks_size() == 0) return;
  std::uint64_t workers = 0;
  std::vector<std::string> names;
  for (int i = 0; i < config.racks_size(); ++i) {
    const JobRackConfig& rack = config.racks(i);
    ConfigCheck nested = check.nested("racks", rack, i);
    nested.require(is_rack_name(rack.name()), "name", fmt::format(kNameRule, rack.name()));
    nested.require(rack.workers() > 0, "workers", "a rack of the job has at least one worker");
    workers += rack.workers();
    names.push_back(rack.name());
  }
  const std::string fault =
      config.rack_shape() == name_of(RackShape::kNested) ? nesting_fault(names) : "";
  check.require(fault.empty(), "rack_shape", fault);
  check.require(config.racks_size() > 1, "racks", "a job of one rack needs no list; remove it");
  check.require(workers == config.workers(), "workers",
                fmt::format("is {}, but the racks have {} together", config.workers(), workers));
}

void check_racks(const ServerConfig& config, ConfigCheck& check) {
  const bool has_rack = !config.rack().empty();
  check.require(
      has_rack || !config.has_directory(), "directory",
      "has no effect without rack, which says where this server is; add rack: \"NAME\", or "
      "remove it");
  check.unused_unless(has_rack, "advertise_address", "without rack");
  check.unused_unless(has_rack, "rack_security", "without rack");
  check.unused_unless(has_rack, "rack_transport", "without rack");
  check.one_of("rack_transport", config.rack_transport(), {"auto", "shm", "tcp", "verbs"});
  check.require(!config.security().encrypt_data() || config.rack_transport() != "verbs",
                "rack_transport",
                "is \"verbs\", which cannot be encrypted, and security.encrypt_data asks for it; "
                "use tcp, or remove one");
  if (!has_rack) return;
  check.require(is_rack_name(config.rack()), "rack", fmt::format(kNameRule, config.rack()));
  check.require(config.has_directory(), "rack",
                "has no effect without a directory, which knows the servers of all racks; give "
                "directory { racks { name: \"a\" servers: \"HOST:PORT\" } }");
  ConfigCheck security = check.nested("rack_security", config.rack_security());
  for (const char* const field : {"nonce_file", "tenant", "require_encryption"}) {
    security.unused_unless(false, field, "between racks");
  }
  security.require(!config.rack_security().has_token_file(), "token_file",
                   "would go to whoever the directory names; show a certificate of the role rack "
                   "instead (`phubctl pki issue FOLDER NAME --role rack`): certificate and key");
  ConfigCheck directory = check.nested("directory", config.directory());
  if (config.directory().has_etcd()) {
    directory.unused_unless(false, "racks", "beside etcd");
    const auto [field, own] = own_address(config);
    check_reachable(check, field, own, 0);
    check_etcd(config.directory().etcd(), directory.nested("etcd", config.directory().etcd()));
    return;
  }
  if (config.has_advertise_address()) {
    check_reachable(check, "advertise_address", config.advertise_address());
  }
  check_list(config.directory(), directory);
  check_own_place(config, check);
}

}  // namespace phub
