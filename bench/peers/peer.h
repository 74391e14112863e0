// What the peers' processes (Gloo, Open MPI) have in common: one fp32 array, summed in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/base/pattern.h"
#include "bench/base/worker_loop.h"
#include "common/memory/memory.h"

namespace phub::bench {

struct PeerOptions {
  WorkerHello hello;
  std::uint32_t workers = 1;
  std::uint64_t elements = 0;
  std::string algorithm;
  std::string directory;           // for a rendezvous through files
  std::string host = "127.0.0.1";  // the address that others reach it at
};

// Reads the command line that systems.cc writes; `argv` of a peer's main.
PeerOptions parse_peer_options(int argc, char** argv);

// A peer is this task with its own `iterate`.
class PeerTask : public Task {
 public:
  explicit PeerTask(const PeerOptions& options);

  Status fill(std::uint32_t round) override;
  Result<std::uint64_t> verify(std::uint32_t round) override;

 protected:
  std::span<float> values() { return values_; }
  const PeerOptions& options() const { return options_; }

 private:
  PeerOptions options_;
  std::unique_ptr<Mapping> memory_;
  std::span<float> values_;
};

}  // namespace phub::bench
