#include "common/transport/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/base/first_line.h"
#include "common/base/unique_fd.h"

namespace phub::transport {
namespace {

// With less room both ends wait for timers: 8 KiB over segments of 64 KiB carry 0.2 MB/s.
constexpr int kSegmentsMin = 2;

std::string setting(const std::string& name) { return first_line("/proc/sys/net/ipv4/" + name); }

bool set(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

bool is_same_host(const sockaddr_storage& own, const sockaddr_storage& peer) {
  if (own.ss_family != peer.ss_family) return false;
  if (own.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(own).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr;
  }
  return own.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(own).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, sizeof(in6_addr)) == 0;
}

bool is_within_host(int socket) {
  sockaddr_storage own = {};
  sockaddr_storage peer = {};
  socklen_t own_bytes = sizeof(own);
  socklen_t peer_bytes = sizeof(peer);
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
         is_same_host(own, peer);
}

}  // namespace

Result<CongestionControl> CongestionControl::parse(const std::string& name) {
  CongestionControl control;
  if (name == "system") return control;
  if (name == "auto") {
    control.first_ = "reno";  // every kernel has it; where it is forbidden, the system's stays
    control.elsewhere_ = setting("tcp_congestion_control");
    return control;
  }
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return errno_status("socket", Code::kResourceExhausted);
  if (name.empty() || !set(probe.get(), name)) {
    return Status(Code::kInvalidArgument,
                  "tcp_congestion_control: \"" + name + "\" is not offered by this kernel; " +
                      "use auto, system or one of: " + setting("tcp_available_congestion_control"));
  }
  control.first_ = name;
  return control;
}

void CongestionControl::prepare(int socket) const {
  if (!first_.empty()) set(socket, first_);
}

void CongestionControl::settle(int socket) const {
  if (is_within_host(socket)) return;
  if (buffer_bytes_ > 0) {
    int segment = 0;
    socklen_t size = sizeof(segment);
    ::getsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &segment, &size);
    const int bound = std::max(buffer_bytes_, kSegmentsMin * segment);
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bound, sizeof(bound));
    ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bound, sizeof(bound));
  }
  if (!elsewhere_.empty()) set(socket, elsewhere_);
  const int bytes = kUnsentBytes;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

}  // namespace phub::transport
