// Which implementation each of a network's operations takes: as the rule says, and once for all
// layers whose operation is the same.
//
// Owned by the backend's OnednnContext; its thread.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "common/base/status.h"
#include "worker/nn/kernel_choice.h"
#include "worker/nn/onednn/choice/kernel_cache.h"
#include "worker/nn/onednn/choice/kernel_race.h"

namespace phub::nn::onednn {

// An implementation of an operation. The first of them is the library's for NHWC.
struct OfferedKernel {
  std::string name;
  bool is_own = false;        // this project's
  bool is_blocked = false;    // the library chose the images' layout
  bool is_preferred = false;  // where nothing is measured and there is none of ours
  // Makes it run on the operation's images: seconds of so many runs. Called where it is measured;
  // what it made goes with the function.
  std::function<std::function<Result<double>(std::size_t)>()> prepare;
};

class KernelBook {
 public:
  KernelBook(const KernelOptions& options, unsigned threads);

  // The index of one of `kernels`. Errors: the first kernel's, if none of them runs.
  // REQUIRES: at least one, with different names.
  Result<std::size_t> choose(const std::string& operation, std::span<const OfferedKernel> kernels);

 private:
  Result<std::size_t> measured(const std::string& operation,
                               std::span<const OfferedKernel> kernels);
  // Not there: the cache knows nothing, or a kernel that is not among these.
  std::optional<std::size_t> known(const std::string& operation,
                                   std::span<const OfferedKernel> kernels);
  std::size_t tell(const KernelChoice& choice, std::span<const OfferedKernel> kernels);

  KernelOptions options_;
  KernelCache cache_;
  bool has_measured_ = false;
  std::set<std::string> told_;   // operations that were chosen for
  std::set<std::string> stale_;  // whose kernel in the cache is none that there is
};

}  // namespace phub::nn::onednn
