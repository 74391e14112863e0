#include "worker/nn/onednn/choice/kernel_book.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/nn/onednn/choice/processor.h"

namespace phub::nn::onednn {
namespace {

KernelOptions checked(KernelOptions options) {
  if (options.rule == KernelRule::kMeasured && options.cache.empty()) {
    options.rule = KernelRule::kOwn;
    options.note(
        "kernels are not measured: there is no home folder to remember them in; give a file with "
        "--kernel-cache");
  }
  return options;
}

template <typename Is>
std::size_t index_of(std::span<const OfferedKernel> kernels, Is is) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), is);
  return found == kernels.end() ? 0 : static_cast<std::size_t>(found - kernels.begin());
}

// What the rule says without a measurement.
std::size_t forced(KernelRule rule, std::span<const OfferedKernel> kernels) {
  if (rule == KernelRule::kLibrary) return 0;
  if (rule == KernelRule::kBlocked) {
    return index_of(kernels, [](const OfferedKernel& kernel) { return kernel.is_blocked; });
  }
  const std::size_t own =
      index_of(kernels, [](const OfferedKernel& kernel) { return kernel.is_own; });
  if (own != 0) return own;
  return index_of(kernels, [](const OfferedKernel& kernel) { return kernel.is_preferred; });
}

}  // namespace

KernelBook::KernelBook(const KernelOptions& options, unsigned threads)
    : options_(checked(options)),
      cache_(options_.rule == KernelRule::kMeasured ? options_.cache : std::filesystem::path(),
             {.processor = processor_name(),
              .isa = instruction_set(),
              .onednn = library_version(),
              .threads = threads},
             options_.note) {}

Result<std::size_t> KernelBook::choose(const std::string& operation,
                                       std::span<const OfferedKernel> kernels) {
  PHUB_CHECK(!kernels.empty(), "an operation has an implementation");
  if (options_.rule == KernelRule::kMeasured) return measured(operation, kernels);
  const std::size_t index = forced(options_.rule, kernels);
  return tell(
      {.operation = operation, .kernel = kernels[index].name, .is_known = true, .times = {}},
      kernels);
}

Result<std::size_t> KernelBook::measured(const std::string& operation,
                                         std::span<const OfferedKernel> kernels) {
  if (const auto index = known(operation, kernels)) return *index;
  const UniqueFd held = cache_.lock();
  if (const auto index = known(operation, kernels)) return *index;
  if (!std::exchange(has_measured_, true)) {
    options_.note(
        "measuring this processor's kernels, once for each operation and number of threads, into " +
        options_.cache.string() +
        "; a run that is repeated or resumed with this file computes the same bits");
  }
  std::vector<Racer> racers;
  for (const OfferedKernel& kernel : kernels) racers.push_back({kernel.name, kernel.prepare()});
  PHUB_ASSIGN_OR_RETURN(RaceResult result, race(racers));
  const KernelChoice added = cache_.add({.operation = operation,
                                         .kernel = kernels[result.winner].name,
                                         .is_known = false,
                                         .times = std::move(result.times)},
                                        stale_.contains(operation));
  return tell(added, kernels);
}

std::optional<std::size_t> KernelBook::known(const std::string& operation,
                                             std::span<const OfferedKernel> kernels) {
  const auto choice = cache_.find(operation);
  if (!choice) return std::nullopt;
  const bool is_there =
      std::any_of(kernels.begin(), kernels.end(),
                  [&](const OfferedKernel& kernel) { return kernel.name == choice->kernel; });
  if (is_there) return tell(*choice, kernels);
  if (stale_.insert(operation).second) {
    options_.note(operation + ": the cache's kernel \"" + choice->kernel +
                  "\" is none that this machine has; it is measured again");
  }
  return std::nullopt;
}

std::size_t KernelBook::tell(const KernelChoice& choice, std::span<const OfferedKernel> kernels) {
  if (told_.insert(choice.operation).second) options_.chosen(choice);
  return index_of(kernels,
                  [&](const OfferedKernel& kernel) { return kernel.name == choice.kernel; });
}

}  // namespace phub::nn::onednn
