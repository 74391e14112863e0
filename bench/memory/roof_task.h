// The roof as one of the interleaved systems: a single process that sums on all its threads.
#pragma once

#include "bench/base/worker_loop.h"
#include "bench/memory/roof.h"

namespace phub::bench {

class RoofTask final : public Task {
 public:
  RoofTask(Roof& roof, std::uint32_t workers, RoofPass pass)
      : roof_(roof), workers_(workers), pass_(pass) {}

  Status fill(std::uint32_t round) override;
  Status iterate() override;
  Result<std::uint64_t> verify(std::uint32_t round) override;  // of a sum

 private:
  Roof& roof_;
  std::uint32_t workers_;
  RoofPass pass_;
};

// The hidden subcommand "roof-worker".
Status run_roof_worker(const WorkerHello& hello, const Roof::Options& options, RoofPass pass);

}  // namespace phub::bench
