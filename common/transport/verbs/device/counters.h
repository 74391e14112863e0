// What the kernel and the device count at a port: /sys/class/infiniband/DEVICE/ports/N/counters and
// hw_counters. Read where people ask (`phubctl server stats`, `phubctl doctor`), never on a core:
// a read may ask the device's firmware.
//
// Values and reads of files; any thread of the control plane.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phub::transport::verbs {

// As the kernel shows it: port_xmit_data and port_rcv_data are words of 4 bytes (InfiniBand
// architecture, PortCounters), see traffic_of.
struct PortCounter {
  std::string name;
  std::uint64_t value = 0;
};

// Every number in the two folders, by folder and name. One that is missing or cannot be read is
// left out, as is `lifespan`, which is a setting; none: the port does not exist or counts nothing.
std::vector<PortCounter> read_counters(const std::string& sysfs_root, const std::string& device,
                                       std::uint32_t port);

// Since the port came up. Empty: the device does not count it (Soft-RoCE counts packets only).
struct Traffic {
  std::optional<std::uint64_t> bytes_sent;
  std::optional<std::uint64_t> bytes_received;
  std::optional<std::uint64_t> packets_sent;
  std::optional<std::uint64_t> packets_received;
};
Traffic traffic_of(const std::vector<PortCounter>& counters);

// What a counter that is not zero is a sign of. Names of the InfiniBand architecture, of mlx5, and
// of Soft-RoCE.
enum class CounterKind : std::uint8_t {
  kOther,
  kLinkErrors,
  kLosses,             // packets that were lost, or out of sequence
  kReceiversNotReady,  // no receive was posted in time (RNR)
  kRefused,
  kCongestion,  // congestion that is managed (PFC, ECN, CNP), and sending again; no error
};
CounterKind kind_of(std::string_view counter_name);

// "link errors", "losses", "receivers not ready", "refused", "congestion"; kOther: "".
const char* name_of(CounterKind kind);

}  // namespace phub::transport::verbs
