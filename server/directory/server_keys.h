// The servers that keys in etcd name, PREFIX/RACK/HOST:PORT: bounded, whatever is written there,
// and each in one rack.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/directory/directory.h"

namespace phub::server {

struct ServerKey {
  std::string rack;
  std::string address;
};

// Of a server; nothing for every other key. An address is in the one form that to_string(Address)
// gives it, with a host that others can reach.
std::optional<ServerKey> parse_server_key(std::string_view prefix, std::string_view key);
std::string server_key(std::string_view prefix, const ServerKey& server);

// As people order them: 10.0.0.9:7077 is before 10.0.0.10:7077.
struct AddressOrder {
  bool operator()(std::string_view a, std::string_view b) const;
};

class ServerKeys {
 public:
  enum class Change { kNone, kChanged, kLeftOut };

  // `servers_max`, `racks_max`: keys beyond are left out.
  ServerKeys(std::string prefix, std::size_t servers_max, std::size_t racks_max);

  // As of this revision: of an address in two racks the later one counts, for a server that has
  // moved leaves its former key behind until the lease is over.
  Change put(std::string_view key, std::int64_t revision);
  // kLeftOut: none that is known here.
  Change remove(std::string_view key);

  std::size_t size() const { return places_.size(); }
  // By name, servers in AddressOrder; with `own` in any case.
  std::vector<RackEntry> racks(const ServerKey& own) const;

 private:
  std::string prefix_;
  std::size_t servers_max_;
  std::size_t racks_max_;
  struct Place {
    std::string rack;
    std::int64_t revision = 0;
  };
  using Racks = std::map<std::string, std::set<std::string, AddressOrder>>;
  static void take_out(Racks& racks, const std::string& rack, const std::string& address);

  Racks racks_;                          // addresses by rack; none is empty
  std::map<std::string, Place> places_;  // by address
};

}  // namespace phub::server
