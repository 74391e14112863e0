#include "server/process/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

namespace phub::server {
namespace {

constexpr std::uint64_t kKibibyte = 1024;
constexpr std::uint64_t kMebibyte = 1024 * kKibibyte;

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes / kMebibyte + (bytes % kMebibyte == 0 ? 0 : 1)) + " MiB";
}

}  // namespace

std::uint64_t available_bytes(bool reserved_pages, const std::string& meminfo) {
  std::ifstream file(meminfo);
  std::map<std::string, std::uint64_t> values;
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    values[name] = value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (values.count("MemAvailable:") == 0) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t kibibytes = values["MemAvailable:"];
  if (reserved_pages) kibibytes += values["HugePages_Free:"] * values["Hugepagesize:"];
  return kibibytes * kKibibyte;
}

Status admit(std::uint64_t wanted_bytes, const Room& room, const std::string& what) {
  if (room.limit_bytes > 0 && room.admitted_bytes + wanted_bytes > room.limit_bytes) {
    return {Code::kResourceExhausted, what + " needs " + mebibytes(wanted_bytes) + ", " +
                                          mebibytes(room.admitted_bytes) + " of memory_limit_mib " +
                                          std::to_string(room.limit_bytes / kMebibyte) +
                                          " are taken; end another job or raise memory_limit_mib"};
  }
  const std::uint64_t free =
      room.available_bytes - std::min(room.available_bytes, room.untouched_bytes);
  if (wanted_bytes > free) {
    return {Code::kResourceExhausted,
            what + " needs " + mebibytes(wanted_bytes) + ", this host has " + mebibytes(free) +
                " left (" + mebibytes(room.available_bytes) + " available, " +
                mebibytes(room.untouched_bytes) +
                " of them promised to other jobs); end another job or use a larger host"};
  }
  return {};
}

}  // namespace phub::server
