#include "worker/train/exchange/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "common/tensors/safetensors.h"
#include "worker/train/exchange/parameter_digest.h"

namespace phub::train {
namespace {

constexpr const char* kDigest = "parameters_digest";
constexpr const char* kLossScale = "loss_scale";  // where workers vote on it
constexpr const char* kRest = ".rest";
constexpr const char* kVelocity = ".velocity";
constexpr const char* kRounds = ".rounds";

std::string digest_now(const nn::Executor& network, const GradientExchange& exchange) {
  return std::to_string(
      parameter_digest(network, [&](KeyId key) { return exchange.parameter(key); }));
}

// Returns the loss scale of the residuals, the same for every key that was pushed. Null: workers do
// not vote on it.
const float* loss_scale_of(const nn::Executor& network, GradientExchange& exchange) {
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    if (const float* const scale = exchange.kept_back(key).loss_scale) return scale;
  }
  return nullptr;
}

// A parameter that was pushed whole before has no tensor.
Status restore(const TensorFile& file, const std::string& name, std::span<float> to) {
  const NamedTensor* const tensor = to.empty() ? nullptr : file.find(name);
  if (tensor == nullptr) return {};
  if (tensor->values.size() != to.size()) {
    return {Code::kInvalidArgument, "its tensor " + name + " has " +
                                        std::to_string(tensor->values.size()) +
                                        " elements, the parameter " + std::to_string(to.size()) +
                                        ": remove the file to go on without"};
  }
  std::copy(tensor->values.begin(), tensor->values.end(), to.begin());
  return {};
}

// Why it goes on without what is in the file; empty: it has it.
Result<std::string> resume_own(const std::filesystem::path& path,
                               const std::filesystem::path& checkpoint, const nn::Executor& network,
                               GradientExchange& exchange) {
  const std::string without = "; train.compress goes on without what was kept back";
  const auto file = read_safetensors(path);
  if (!file && file.error().code() == Code::kNotFound) return "no " + path.string() + without;
  if (!file) return file.error();
  const auto digest = file->metadata.find(kDigest);
  if (digest == file->metadata.end() || digest->second != digest_now(network, exchange)) {
    return path.string() + " is of other parameters than " + checkpoint.string() + without;
  }
  const auto loss_scale = file->metadata.find(kLossScale);
  const bool has_scale = loss_scale != file->metadata.end();
  if (has_scale != (loss_scale_of(network, exchange) != nullptr)) {
    return path.string() + " is of a job with another kind of loss scale" + without;
  }
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const std::string& name = network.parameters()[key].name;
    const KeptBack kept = exchange.kept_back(key);
    const auto rounds = file->metadata.find(name + kRounds);
    if (kept.rounds != nullptr && rounds != file->metadata.end()) {
      *kept.rounds =
          static_cast<std::uint32_t>(std::strtoul(rounds->second.c_str(), nullptr, /*base=*/10));
    }
    if (has_scale && kept.loss_scale != nullptr) {
      *kept.loss_scale = std::strtof(loss_scale->second.c_str(), nullptr);
    }
    PHUB_RETURN_IF_ERROR(restore(*file, name + kRest, kept.rest).with_context(path.string()));
    PHUB_RETURN_IF_ERROR(
        restore(*file, name + kVelocity, kept.velocity).with_context(path.string()));
  }
  return std::string();
}

// What to say of the residuals of a worker that is not there any more, as far as this host knows:
// the job has fewer workers than it had. Empty: there are none.
std::string dropped_residual(const std::filesystem::path& checkpoint, std::uint64_t next_step,
                             std::uint32_t workers) {
  const std::filesystem::path path = residual_path(checkpoint, next_step, workers);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "";
  return "the job has " + std::to_string(workers) + " workers now, and what is in " +
         path.string() + " is dropped";
}

// What the run wrote last, whose residuals have its name: "NAME.step-90" is NAME's after step 90.
std::filesystem::path last_name_of(const std::filesystem::path& checkpoint,
                                   std::uint64_t next_step) {
  const std::string step = ".step-" + std::to_string(next_step);
  const std::string stem = checkpoint.stem().string();
  std::filesystem::path path = checkpoint;
  if (!stem.ends_with(step)) return path;
  return path.replace_filename(stem.substr(0, stem.size() - step.size()) +
                               checkpoint.extension().string());
}

}  // namespace

std::filesystem::path residual_path(const std::filesystem::path& checkpoint,
                                    std::uint64_t next_step, std::uint32_t worker) {
  std::filesystem::path path = checkpoint;
  return path.replace_filename(checkpoint.stem().string() + ".residual-" +
                               std::to_string(next_step) + ".worker-" + std::to_string(worker) +
                               checkpoint.extension().string());
}

bool keeps_back(const nn::Executor& network, GradientExchange& exchange) {
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    if (!exchange.kept_back(key).rest.empty()) return true;
  }
  return false;
}

ResidualFiles::ResidualFiles(std::filesystem::path checkpoint, std::uint32_t count,
                             const nn::Executor& network, GradientExchange& exchange,
                             std::uint64_t first_step)
    : checkpoint_(std::move(checkpoint)),
      files_max_(std::max<std::size_t>(2, std::size_t{1} + count)),
      network_(network),
      exchange_(exchange) {
  if (first_step > 0) steps_.push_back(first_step);
}

Status ResidualFiles::save(std::uint64_t next_step) {
  std::vector<TensorView> tensors;
  TensorMetadata metadata{{kDigest, digest_now(network_, exchange_)}};
  for (KeyId key = 0; key < network_.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network_.parameters()[key];
    const KeptBack kept = exchange_.kept_back(key);
    const auto add = [&](const char* suffix, std::span<const float> values) {
      if (values.empty()) return;
      tensors.push_back({spec.name + suffix, spec.shape, values.data(), values.size()});
    };
    add(kRest, kept.rest);
    add(kVelocity, kept.velocity);
    if (kept.rounds != nullptr) metadata[spec.name + kRounds] = fmt::format("{}", *kept.rounds);
  }
  if (tensors.empty()) return {};
  remove_abandoned_safetensors(checkpoint_.has_parent_path() ? checkpoint_.parent_path() : ".",
                               checkpoint_.stem());
  const std::uint32_t worker = exchange_.facts().worker_index;
  if (const float* const scale = loss_scale_of(network_, exchange_)) {
    metadata[kLossScale] = fmt::format("{}", *scale);
  }
  PHUB_RETURN_IF_ERROR(
      write_safetensors(residual_path(checkpoint_, next_step, worker), tensors, metadata));
  if (steps_.empty() || steps_.back() != next_step) steps_.push_back(next_step);
  for (; steps_.size() > files_max_; steps_.pop_front()) {
    std::error_code gone_already;
    std::filesystem::remove(residual_path(checkpoint_, steps_.front(), worker), gone_already);
  }
  return {};
}

Result<std::string> resume_residuals(const std::filesystem::path& checkpoint,
                                     const nn::Executor& network, GradientExchange& exchange,
                                     std::uint64_t next_step) {
  if (!keeps_back(network, exchange)) return std::string();
  const auto rounds = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(next_step, std::numeric_limits<std::uint32_t>::max()));
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const KeptBack kept = exchange.kept_back(key);
    if (kept.rounds != nullptr) *kept.rounds = rounds;
  }
  if (checkpoint.empty()) return std::string();
  const std::uint32_t worker = exchange.facts().worker_index;
  const std::filesystem::path named = last_name_of(checkpoint, next_step);
  const std::string dropped =
      worker == 0 ? dropped_residual(named, next_step, exchange.facts().workers) : "";
  PHUB_ASSIGN_OR_RETURN(
      const std::string missing,
      resume_own(residual_path(named, next_step, worker), checkpoint, network, exchange));
  return missing + (missing.empty() || dropped.empty() ? "" : "; ") + dropped;
}

}  // namespace phub::train
