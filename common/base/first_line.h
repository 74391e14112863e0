// What the kernel says in a file of sysfs or procfs: one line.
//
// A pure read; any thread, set-up only.
#pragma once

#include <fstream>
#include <string>

namespace phub {

// Where it says which start of this machine it is: the same in all of its containers.
inline constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

// The first line of `path` without its end; empty when it cannot be read.
inline std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace phub
