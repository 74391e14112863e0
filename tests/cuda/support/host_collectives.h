// Collectives of devices that are the host (host_runtime.h). Each waits for every rank's stream,
// reads all, and then writes rank by rank, in any order.
//
// Sums are rounded to the type after each addition, in the order of ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/cuda/support/host_runtime.h"
#include "worker/cuda/group/collectives.h"

namespace phub::testing {

class HostCollectives : public nn::cuda::Collectives {
 public:
  using Stream = nn::cuda::Stream;

  struct Options {
    std::size_t sticks_at = 0;  // that collective, from 1, never ends; 0: all do
    std::size_t fails_at = 0;   // that one is refused
  };

  // The runtimes are on the machine; both outlive it.
  HostCollectives(std::vector<HostRuntime*> runtimes, std::shared_ptr<HostMachine> machine,
                  const Options& options)
      : options_(options), runtimes_(std::move(runtimes)), machine_(std::move(machine)) {}

  std::size_t ranks() const override { return runtimes_.size(); }
  Status reduce_scatter(std::span<void* const> regions, std::size_t slice_elements, DataType type,
                        Stream stream) override;
  Status all_gather(std::span<void* const> regions, std::size_t slice_bytes,
                    Stream stream) override;
  Status all_reduce(std::span<void* const> regions, std::size_t elements, DataType type,
                    Stream stream) override;
  Status check() override { return {}; }
  void abort() override;

  std::size_t collectives() const { return collectives_; }
  bool is_aborted() const { return is_aborted_; }

 private:
  using Bytes = std::vector<std::byte>;
  // What becomes of a rank's region, of all regions as they were.
  using Outcome =
      std::function<void(const std::vector<Bytes>& all, std::size_t rank, void* region)>;

  Status queue(std::span<void* const> regions, std::size_t bytes, Stream stream,
               const Outcome& outcome);

  Options options_;
  std::vector<HostRuntime*> runtimes_;
  std::shared_ptr<HostMachine> machine_;
  std::size_t collectives_ = 0;
  bool is_aborted_ = false;
};

}  // namespace phub::testing
