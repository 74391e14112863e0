// What the data connections of a client use on this host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/transport/transport.h"

namespace phub {

inline constexpr std::uint32_t kTcpBufferLeastKib = 32;
inline constexpr std::uint32_t kTcpBufferMostKib = 64 * 1024;

struct LinkOptions {
  std::vector<std::string> verbs_devices = {};        // "mlx5_0" or "mlx5_0:2"; empty: all
  std::optional<std::uint32_t> verbs_gid_index = {};  // nothing: chosen for each server
  // auto (within a host reno, else the system's), system, or a name that the kernel offers
  std::string tcp_congestion_control = "auto";
  std::uint32_t tcp_buffer_kib = 0;  // of a connection to another host; 0: the kernel's choice
  transport::EndpointFront tcp_front = {};
};

}  // namespace phub
