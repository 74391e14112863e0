#include "bench/memory/roof_task.h"

#include <fmt/format.h>

#include "bench/base/pattern.h"

namespace phub::bench {

Status RoofTask::fill(std::uint32_t round) {
  const Pattern pattern{pattern_modulus(DataType::kFloat32, workers_), round};
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    fill_pattern(roof_.source(worker), pattern, worker, 0);
  }
  return {};
}

Status RoofTask::iterate() {
  roof_.run(pass_);
  return {};
}

Result<std::uint64_t> RoofTask::verify(std::uint32_t round) {
  PHUB_RETURN_IF_ERROR(fill(round));
  roof_.run(RoofPass::kSum);
  const Pattern pattern{pattern_modulus(DataType::kFloat32, workers_), round};
  if (const auto wrong = first_wrong_sum(roof_.output(), pattern, workers_, 0)) {
    return Status(Code::kDataLoss, fmt::format("wrong sum at element {}", *wrong));
  }
  return checksum(roof_.output(), 0);
}

Status run_roof_worker(const WorkerHello& hello, const Roof::Options& options, RoofPass pass) {
  end_with_parent();
  auto roof = Roof::create(options);
  if (!roof) return tell(hello, roof.error());
  RoofTask task(**roof, options.workers, pass);
  return serve(hello, task);
}

}  // namespace phub::bench
