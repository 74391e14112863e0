#include "worker/train/report/step_meter.h"

#include <utility>

#include "common/base/affinity.h"

namespace phub::train {

StepMeter::StepMeter(std::uint32_t input_threads)
    : input_threads_(input_threads), cpus_(usable_cpu_count()) {}

void StepMeter::add(std::span<const data::Receipt> receipts) {
  for (const data::Receipt& receipt : receipts) {
    own_ += receipt.origin == data::Origin::kOwnMemory ? 1 : 0;
    peer_ += receipt.origin == data::Origin::kPeer ? 1 : 0;
    source_ += receipt.origin == data::Origin::kSource ? 1 : 0;
  }
}

std::optional<StepWaits> StepMeter::take(const StepReport& report, std::uint64_t samples,
                                         const data::ReadCounts& reads) {
  const double waited = std::exchange(waited_seconds_, 0.0);
  Result<StepWaits> times = step_waits_from(1, samples, report.seconds + waited,
                                            report.input_seconds, report.exchange_seconds + waited);
  const data::ReadCounts read = reads.since(std::exchange(reads_, reads));
  const std::uint64_t own = std::exchange(own_, 0);
  const std::uint64_t peer = std::exchange(peer_, 0);
  const std::uint64_t source = std::exchange(source_, 0);
  if (!times) return {};
  // A set that is spread over workers has both, and its receipts say more.
  const bool is_spread = own + peer + source > 0;
  times->from_source = is_spread ? source : read.source;
  times->from_disk = is_spread ? 0 : read.disk;
  times->from_memory = is_spread ? own : read.memory;
  times->from_peers = peer;
  times->input_threads = input_threads_;
  times->cpus = cpus_;
  return *times;
}

}  // namespace phub::train
