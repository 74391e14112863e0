#include "server/directory/server_keys.h"

#include <algorithm>
#include <utility>

#include "common/base/rack.h"
#include "common/rpc/address.h"

namespace phub::server {
namespace {

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_' || c == ':' || c == '%';
}

bool is_reachable(std::string_view text) {
  if (text.size() > kServerAddressCharsMax) return false;
  const auto address = parse_address(text);
  return address && address->port != 0 && to_string(*address) == text &&
         address->host != "0.0.0.0" && address->host != "::" &&
         std::all_of(address->host.begin(), address->host.end(), is_host_character);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes the first run of digits, without zeros in front, or else the first character.
std::string_view take_part(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && is_digit(text[size])) ++size;
  std::string_view part = text.substr(0, std::max<std::size_t>(size, 1));
  text.remove_prefix(part.size());
  while (part.size() > 1 && part.front() == '0') part.remove_prefix(1);
  return part;
}

}  // namespace

bool AddressOrder::operator()(std::string_view a, std::string_view b) const {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const std::string_view part_a = take_part(rest_a);
    const std::string_view part_b = take_part(rest_b);
    if (part_a == part_b) continue;
    const bool are_numbers = is_digit(part_a[0]) && is_digit(part_b[0]);
    if (are_numbers && part_a.size() != part_b.size()) return part_a.size() < part_b.size();
    return part_a < part_b;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;
}

std::optional<ServerKey> parse_server_key(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  if (!key.starts_with('/')) return std::nullopt;
  key.remove_prefix(1);
  const std::size_t slash = key.rfind('/');  // a rack's name may have some, an address has none
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view rack = key.substr(0, slash);
  const std::string_view address = key.substr(slash + 1);
  if (!is_rack_name(rack) || !is_reachable(address)) return std::nullopt;
  return ServerKey{.rack = std::string(rack), .address = std::string(address)};
}

std::string server_key(std::string_view prefix, const ServerKey& server) {
  return std::string(prefix) + "/" + server.rack + "/" + server.address;
}

ServerKeys::ServerKeys(std::string prefix, std::size_t servers_max, std::size_t racks_max)
    : prefix_(std::move(prefix)), servers_max_(servers_max), racks_max_(racks_max) {}

void ServerKeys::take_out(Racks& racks, const std::string& rack, const std::string& address) {
  const auto found = racks.find(rack);
  if (found == racks.end()) return;
  found->second.erase(address);
  if (found->second.empty()) racks.erase(found);
}

ServerKeys::Change ServerKeys::put(std::string_view key, std::int64_t revision) {
  const auto server = parse_server_key(prefix_, key);
  if (!server) return Change::kLeftOut;
  const auto known = places_.find(server->address);
  if (known == places_.end()) {
    if (places_.size() >= servers_max_) return Change::kLeftOut;
  } else {
    if (revision < known->second.revision) return Change::kLeftOut;
    if (known->second.rack == server->rack) {
      known->second.revision = revision;
      return Change::kNone;
    }
  }
  if (!racks_.contains(server->rack) && racks_.size() >= racks_max_) return Change::kLeftOut;
  if (known != places_.end()) take_out(racks_, known->second.rack, server->address);
  racks_[server->rack].insert(server->address);
  places_[server->address] = {.rack = server->rack, .revision = revision};
  return Change::kChanged;
}

ServerKeys::Change ServerKeys::remove(std::string_view key) {
  const auto server = parse_server_key(prefix_, key);
  if (!server) return Change::kLeftOut;
  const auto known = places_.find(server->address);
  if (known == places_.end() || known->second.rack != server->rack) return Change::kLeftOut;
  take_out(racks_, server->rack, server->address);
  places_.erase(known);
  return Change::kChanged;
}

std::vector<RackEntry> ServerKeys::racks(const ServerKey& own) const {
  Racks all = racks_;
  if (const auto known = places_.find(own.address); known != places_.end()) {
    take_out(all, known->second.rack, own.address);
  }
  all[own.rack].insert(own.address);
  std::vector<RackEntry> entries;
  entries.reserve(all.size());
  for (const auto& [name, servers] : all) {
    entries.push_back({.name = name, .servers = {servers.begin(), servers.end()}});
  }
  return entries;
}

}  // namespace phub::server
