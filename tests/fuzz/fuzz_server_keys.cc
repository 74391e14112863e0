// Any keys, put ("+KEY") and removed ("-KEY") line by line: few racks and servers, each server in
// one rack, no rack without one, and keys that come back as they were.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "server/directory/server_keys.h"

namespace {

using phub::server::RackEntry;
using phub::server::ServerKey;
using phub::server::ServerKeys;

constexpr std::size_t kServersMax = 6;
constexpr std::size_t kRacksMax = 3;
const ServerKey kOwn{.rack = "a", .address = "10.0.0.1:1"};

void check(const ServerKeys& keys) {
  std::set<std::string> seen;
  const phub::server::AddressOrder before;
  const auto racks = keys.racks(kOwn);
  for (const RackEntry& rack : racks) {
    if (rack.servers.empty()) std::abort();
    for (std::size_t i = 0; i < rack.servers.size(); ++i) {
      if (!seen.insert(rack.servers[i]).second) std::abort();
      if (i > 0 && !before(rack.servers[i - 1], rack.servers[i])) std::abort();
    }
  }
  if (!seen.contains(kOwn.address)) std::abort();
  // The own one is there in any case.
  if (seen.size() > kServersMax + 1 || racks.size() > kRacksMax + 1) std::abort();
  if (keys.size() > kServersMax) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ServerKeys keys("/r", kServersMax, kRacksMax);
  std::int64_t revision = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::string_view key = line.substr(1);
    const auto server = phub::server::parse_server_key("/r", key);
    if (server && phub::server::server_key("/r", *server) != key) std::abort();
    const auto change = line[0] == '-' ? keys.remove(key) : keys.put(key, ++revision);
    if (!server && change != ServerKeys::Change::kLeftOut) std::abort();
    check(keys);
  }
  return 0;
}
