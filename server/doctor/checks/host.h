// What `phubctl doctor` looks at on this machine, as plain values; checks.h judges.
//
// Values; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/transport/verbs/device/counters.h"
#include "common/transport/verbs/device/device.h"

namespace phub::doctor {

struct Paths {
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
};

constexpr std::uint64_t kUnlimited = UINT64_MAX;

struct Memlock {
  std::uint64_t soft_bytes = kUnlimited;  // what counts
  std::uint64_t hard_bytes = kUnlimited;  // what this user may raise it to
  bool is_exempt = false;                 // this process has CAP_IPC_LOCK
};

// Words of the kernel; empty: it has no such thing.
struct HugePages {
  std::string anonymous;  // transparent ones of private memory: always, madvise, never
  std::string shared;     // of memfds: always, within_size, advise, never, deny, force
  std::string reserved;   // a number of pages, of the 2 MiB size
};

using Counter = transport::verbs::PortCounter;

struct PortCounters {
  std::string device;
  std::uint32_t port = 0;
  std::vector<Counter> counters;
};

struct NumaNode {
  int number = 0;
  std::string cpus;  // "0-15,32-47"
};

struct Host {
  std::vector<transport::verbs::DeviceInfo> devices;  // that libibverbs lists
  std::string devices_error;                          // why it cannot; empty: it can
  std::vector<std::string> kernel_devices;            // names in sysfs
  std::vector<PortCounters> counters;
  std::vector<NumaNode> numa_nodes;
  Memlock memlock;
  HugePages huge_pages;
  std::string congestion_control;   // of tcp
  std::string congestion_controls;  // that can be chosen
};

Host read_host(const Paths& paths);

}  // namespace phub::doctor
