// The checks of `phubctl doctor`: what is right, doubtful or wrong with a machine, and the cure.
//
// Pure functions of values; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/doctor/checks/host.h"

namespace phub::doctor {

// kWarn: works, but slower or not always. kFail: something that was asked for, or is there to be
// used, will not work.
enum class Severity : std::uint8_t { kOk, kWarn, kFail };

struct Finding {
  Severity severity = Severity::kOk;
  std::string check;       // "port", "gid", "memlock"
  std::string where = {};  // "mlx5_0/1"; empty: the machine
  std::string text = {};
  std::string cure = {};  // empty: none is needed
};
using Findings = std::vector<Finding>;

inline void append(Findings& all, const Findings& some) {
  all.insert(all.end(), some.begin(), some.end());
}

// What the configuration will say.
struct Choices {
  std::vector<std::string> devices;        // verbs_devices
  std::optional<std::uint32_t> gid_index;  // verbs_gid_index
};

// All checks, in the order in which people read them.
Findings examine(const Host& host, const Choices& choices);

Findings check_devices(const Host& host);
Findings check_choice(const Host& host, const Choices& choices);  // of a port and its GID
Findings check_ports(const Host& host);
Findings check_mtu(const Host& host);
Findings check_counters(const Host& host);
// Of what a port has counted during a measurement: the errors among it.
Findings check_risen(const std::vector<Counter>& risen, const std::string& where);
Findings check_numa(const Host& host);
Findings check_memlock(const Host& host);
Findings check_huge_pages(const Host& host);
Findings check_tcp(const Host& host);

// The worst of them.
Severity severity_of(const Findings& findings);
const char* word_of(Severity severity);  // "ok", "warn", "fail"

}  // namespace phub::doctor
