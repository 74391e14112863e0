// Systems under test: how each is started, and what was measured of it.
//
// Belongs to the bench's main thread. All systems of a run live as long as the run and take turns.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/processes/phub_servers.h"
#include "bench/processes/process_group.h"
#include "bench/processes/work.h"

namespace phub::bench {

enum class SystemKind : std::uint8_t { kPhub, kGlooRing, kGlooHalvingDoubling, kOpenMpi, kRoof };

inline constexpr std::array<std::string_view, 5> kSystemNames = {
    "phub", "gloo-ring", "gloo-halving-doubling", "openmpi", "roof"};

constexpr std::string_view name_of(SystemKind kind) {
  return kSystemNames[static_cast<std::size_t>(kind)];
}

struct System {
  SystemKind kind = SystemKind::kPhub;
  Work work;
  bool has_one_clock = true;                // of all workers: they are on one machine
  std::unique_ptr<PhubServers> servers;     // of kPhub
  std::unique_ptr<ProcessGroup> group;      // its destructor comes before the servers'
  std::vector<std::vector<double>> blocks;  // seconds of each iteration, block by block
  std::string checksum;                     // of the last verification
  std::string failure;                      // why a verification failed; empty: all were right
  std::optional<ServerMemory> memory;

  // What the system really moves its bytes by: "shm", "tcp", "tcp, encrypted", or "memory" for the
  // roof.
  std::string transport() const;
  // "openmpi shm x4", for messages and progress.
  std::string label() const;
};

// Starts the processes; returns when all are connected and idle.
// Errors: kNotFound with the package to install, kInvalidArgument if the system cannot do the
// work, else what the process said.
Result<std::unique_ptr<System>> start_system(SystemKind kind, const Work& work, Places& places);

}  // namespace phub::bench
