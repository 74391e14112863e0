// Who owns namespaces and scratch folders: the name of each tells its owner's pid and start time,
// so that what a killed run left can be told from what a living one uses.
//
// Values and reads of /proc; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phub::bench {

struct RackOwner {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // since the machine started (proc(5), field 22): pids come again

  static RackOwner self();
  // Of "phub-rack-PID-START" and of names that begin with it and a '-'; nothing for other names.
  static std::optional<RackOwner> of(std::string_view name);

  bool is_alive() const;
  std::string prefix() const;  // "phub-rack-PID-START"
};

// Field 22 of /proc/PID/stat; nothing if there is no such process, or it is a zombie.
std::optional<std::uint64_t> start_ticks_of(pid_t pid);

}  // namespace phub::bench
