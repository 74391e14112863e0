#include "server/process/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>

namespace phub::server {
namespace {

constexpr std::uint64_t kLeastLimit = 256;
constexpr std::uint64_t kOfServed = 3;           // of a connection that has a pump
constexpr std::uint64_t kOwnFiles = 128;         // state, logs, epoll sets, what libraries open
constexpr std::uint64_t kHttpConnections = 128;  // HttpOptions::connections_max, twice

}  // namespace

Result<std::uint64_t> raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_status("RLIMIT_NOFILE");
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur < kLeastLimit) {
    return Status(Code::kResourceExhausted,
                  "this process may open " + std::to_string(limit.rlim_cur) +
                      " files, which is too few to serve; it needs " + std::to_string(kLeastLimit) +
                      " at least (`ulimit -Hn`, LimitNOFILE= of systemd)");
  }
  return static_cast<std::uint64_t>(limit.rlim_cur);
}

DescriptorShares shares_of(std::uint64_t limit) {
  const auto part = [limit](std::uint64_t divisor, std::uint64_t least, std::uint64_t most) {
    return static_cast<std::size_t>(std::clamp(limit / divisor, least, most));
  };
  return {.handshakes = part(16, 8, 512),
          .control_silent = part(16, 8, 512),
          .control_strangers = part(48, 8, 192),
          .control_known = part(8, 32, 4096)};
}

DescriptorShares descriptor_shares() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? shares_of(limit.rlim_cur) : DescriptorShares{};
}

std::uint64_t descriptors_wanted(const DescriptorShares& shares, std::uint64_t data_connections) {
  return 2 * shares.handshakes + shares.control_silent +
         kOfServed * (shares.control_strangers + shares.control_known) + kHttpConnections +
         kOwnFiles + data_connections;
}

}  // namespace phub::server
