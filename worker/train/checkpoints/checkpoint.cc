#include "worker/train/checkpoints/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "worker/train/exchange/parameter_digest.h"
#include "worker/train/schedule/loss_scaler.h"

namespace phub::train {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kSeed = "seed";
constexpr const char* kNextStep = "next_step";
constexpr const char* kSamples = "samples";
constexpr const char* kUsed = "samples_used";
constexpr const char* kLossScale = "loss_scale";  // in units of LossScaler::kSmallest
constexpr const char* kGoodSteps = "loss_scale_good_steps";
constexpr const char* kSnapshots = "snapshots";
constexpr const char* kTestAccuracy = "test_accuracy_ppm";  // millionths
constexpr double kMillion = 1e6;
constexpr std::uint64_t kNumberMax = std::uint64_t{1} << 48;  // of steps and of samples
constexpr const char* kDigest = "parameters_digest";  // of the optimizer's file: whose it is
constexpr const char* kUpdates = "updates";           // of the same, behind its state
constexpr const char* kCounterSuffix = ".num_batches_tracked";
constexpr const char* kStatisticSuffix = ".running_mean";

constexpr const char* kOther =
    ": is it of another model? Set model.name, model.classes and model.image to its own";

using Metadata = std::map<std::string, std::string>;

Status wrong(const std::string& text) { return {Code::kInvalidArgument, text}; }

std::string describe(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const std::uint64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

Status restore(const TensorFile& file, const std::string& name,
               const std::vector<std::uint64_t>& shape, std::span<float> to) {
  const NamedTensor* tensor = file.find(name);
  if (tensor == nullptr) return wrong("it has no tensor " + name + kOther);
  if (tensor->shape != shape) {
    return wrong("its tensor " + name + " is " + describe(tensor->shape) + ", the model's " +
                 describe(shape) + kOther);
  }
  std::copy(tensor->values.begin(), tensor->values.end(), to.begin());
  return {};
}

// Every tensor of the file is one of the model's, or PyTorch's counter of a normalisation layer.
Status check_known(const TensorFile& file, const nn::Executor& network,
                   const std::vector<nn::StateBuffer>& buffers) {
  std::set<std::string> known;
  for (const nn::ParameterSpec& spec : network.parameters()) known.insert(spec.name);
  for (const nn::StateBuffer& buffer : buffers) {
    known.insert(buffer.name);
    if (!buffer.name.ends_with(kStatisticSuffix)) continue;
    const std::size_t layer = buffer.name.size() - std::string_view(kStatisticSuffix).size();
    known.insert(buffer.name.substr(0, layer) + kCounterSuffix);
  }
  std::vector<std::string> names = file.counters;
  for (const NamedTensor& tensor : file.tensors) names.push_back(tensor.name);
  std::erase_if(names, [&](const std::string& name) { return known.contains(name); });
  if (names.empty()) return {};
  const std::string more =
      names.size() == 1 ? "" : " and " + std::to_string(names.size() - 1) + " more";
  return wrong("it has a tensor " + names.front() + more + " that the model does not have" +
               kOther + " (auxiliary heads are left out: save it without them)");
}

Result<std::uint64_t> number(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  std::uint64_t value = 0;
  if (found != metadata.end()) {
    const char* end = found->second.data() + found->second.size();
    const auto parsed = std::from_chars(found->second.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  }
  return Status(Code::kDataLoss,
                "its metadata has no number " + key + ": was it written by phub-worker?");
}

// Of a checkpoint of ours, if there is one.
std::optional<std::uint64_t> step_of(const std::filesystem::path& path) {
  const auto metadata = read_safetensors_metadata(path);
  if (!metadata) return std::nullopt;
  const auto step = number(*metadata, kNextStep);
  return step ? std::optional(*step) : std::nullopt;
}

Result<TensorFile> model_file(nn::Executor& network, const GradientExchange& exchange) {
  TensorFile file;
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    const auto values = exchange.parameter(key);
    file.tensors.push_back({spec.name, spec.shape, {values.begin(), values.end()}});
  }
  PHUB_ASSIGN_OR_RETURN(const auto buffers, network.read_buffers());
  for (const nn::StateBuffer& buffer : buffers) {
    file.tensors.push_back(
        {buffer.name, {buffer.values.size()}, {buffer.values.begin(), buffer.values.end()}});
  }
  return file;
}

std::string state_tensor(const std::string& parameter, const GradientExchange& exchange,
                         unsigned array) {
  return parameter + "." + std::string(state_name(exchange.facts().rule, array));
}

TensorFile optimizer_file(const nn::Executor& network, GradientExchange& exchange) {
  TensorFile file;
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    for (unsigned array = 0; array < state_arrays(exchange.facts().rule); ++array) {
      const auto values = exchange.state(key, array);
      file.tensors.push_back(
          {state_tensor(spec.name, exchange, array), spec.shape, {values.begin(), values.end()}});
    }
  }
  return file;
}

Status load_tensors(const TensorFile& file, nn::Executor& network, GradientExchange& exchange) {
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    PHUB_RETURN_IF_ERROR(restore(file, spec.name, spec.shape, exchange.gradient(key)));
  }
  PHUB_ASSIGN_OR_RETURN(const auto buffers, network.read_buffers());
  for (const nn::StateBuffer& buffer : buffers) {
    PHUB_RETURN_IF_ERROR(restore(file, buffer.name, {buffer.values.size()}, buffer.values));
  }
  return check_known(file, network, buffers);
}

Result<RunPosition> position_of(const Metadata& metadata) {
  RunPosition position;
  const auto model = metadata.find(kModel);
  if (model != metadata.end()) position.model = model->second;
  PHUB_ASSIGN_OR_RETURN(position.seed, number(metadata, kSeed));
  PHUB_ASSIGN_OR_RETURN(position.next_step, number(metadata, kNextStep));
  if (position.next_step > kNumberMax) {
    return Status(Code::kDataLoss,
                  std::string("its metadata has a ") + kNextStep +
                      " that no training reaches: " + std::to_string(position.next_step));
  }
  if (metadata.contains(kLossScale)) {
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t units, number(metadata, kLossScale));
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t good_steps, number(metadata, kGoodSteps));
    position.loss_scale = static_cast<float>(units) * LossScaler::kSmallest;
    if (!(position.loss_scale >= kLossScaleMin && position.loss_scale <= kLossScaleMax)) {
      return Status(Code::kDataLoss, std::string("its metadata has a ") + kLossScale +
                                         " that no training writes: " + std::to_string(units));
    }
    position.good_steps = static_cast<std::uint32_t>(good_steps);
  }
  if (metadata.contains(kSamples)) {
    PHUB_ASSIGN_OR_RETURN(position.samples, number(metadata, kSamples));
    PHUB_ASSIGN_OR_RETURN(position.used, number(metadata, kUsed));
    if (position.used < position.next_step || position.used > kNumberMax) {
      return Status(Code::kDataLoss, std::string("its metadata has ") + kUsed + " " +
                                         std::to_string(position.used) + " after " +
                                         std::to_string(position.next_step) +
                                         " steps, which no training writes");
    }
  }
  const auto snapshots = metadata.find(kSnapshots);
  if (snapshots != metadata.end()) position.snapshots = snapshots->second;
  if (metadata.contains(kTestAccuracy)) {
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t millionths, number(metadata, kTestAccuracy));
    position.test_accuracy = static_cast<double>(millionths) / kMillion;
  }
  return position;
}

std::string context_of(const std::filesystem::path& path) { return "checkpoint " + path.string(); }

}  // namespace

std::filesystem::path optimizer_path(const std::filesystem::path& checkpoint,
                                     std::uint64_t next_step) {
  std::filesystem::path path = checkpoint;
  return path.replace_filename(checkpoint.stem().string() + ".optimizer-" +
                               std::to_string(next_step) + checkpoint.extension().string());
}

Status save_checkpoint(const std::filesystem::path& path, nn::Executor& network,
                       GradientExchange& exchange, const RunPosition& position) {
  Metadata metadata = {{"format", "pt"},
                       {kModel, position.model},
                       {kSeed, std::to_string(position.seed)},
                       {kNextStep, std::to_string(position.next_step)}};
  if (position.samples > 0) {
    metadata[kSamples] = std::to_string(position.samples);
    metadata[kUsed] = std::to_string(position.used);
  }
  if (position.loss_scale > 0.0F) {
    const float units = position.loss_scale / LossScaler::kSmallest;
    metadata[kLossScale] = std::to_string(static_cast<std::uint64_t>(units));
    metadata[kGoodSteps] = std::to_string(position.good_steps);
  }
  if (!position.snapshots.empty()) metadata[kSnapshots] = position.snapshots;
  if (position.test_accuracy >= 0.0) {
    metadata[kTestAccuracy] = std::to_string(std::llround(position.test_accuracy * kMillion));
  }
  remove_abandoned_safetensors(path.has_parent_path() ? path.parent_path() : ".", path.stem());
  const std::optional<std::uint64_t> before = step_of(path);
  if (exchange.facts().state_at == StateAt::kHere) {
    TensorFile optimizer = optimizer_file(network, exchange);
    optimizer.metadata = metadata;
    if (has_betas(exchange.facts().rule)) {
      optimizer.metadata[kUpdates] = std::to_string(exchange.updates());
    }
    optimizer.metadata[kDigest] = std::to_string(parameter_digest(
        network, [&](KeyId key) { return std::as_const(exchange).parameter(key); }));
    PHUB_RETURN_IF_ERROR(write_safetensors(optimizer_path(path, position.next_step), optimizer));
  }
  PHUB_ASSIGN_OR_RETURN(TensorFile model, model_file(network, exchange));
  model.metadata = std::move(metadata);
  PHUB_RETURN_IF_ERROR(write_safetensors(path, model));
  if (before && *before != position.next_step) {
    std::error_code gone_already;
    std::filesystem::remove(optimizer_path(path, *before), gone_already);
  }
  return {};
}

Result<RunPosition> read_position(const std::filesystem::path& path) {
  PHUB_ASSIGN_OR_RETURN(const Metadata metadata, read_safetensors_metadata(path));
  auto position = position_of(metadata);
  if (!position) return position.error().with_context(context_of(path));
  return position;
}

Status load_model(const std::filesystem::path& path, nn::Executor& network,
                  GradientExchange& exchange) {
  PHUB_ASSIGN_OR_RETURN(const TensorFile file, read_safetensors(path));
  return load_tensors(file, network, exchange).with_context(context_of(path));
}

Result<RunPosition> load_checkpoint(const std::filesystem::path& path, nn::Executor& network,
                                    GradientExchange& exchange) {
  PHUB_ASSIGN_OR_RETURN(const TensorFile file, read_safetensors(path));
  PHUB_RETURN_IF_ERROR(load_tensors(file, network, exchange).with_context(context_of(path)));
  auto position = position_of(file.metadata);
  if (!position) return position.error().with_context(context_of(path));
  return position;
}

Status load_optimizer(const std::filesystem::path& checkpoint, nn::Executor& network,
                      GradientExchange& exchange, std::uint64_t next_step) {
  const std::filesystem::path path = optimizer_path(checkpoint, next_step);
  constexpr const char* kCure =
      "; to go on with a momentum of 0, set train.restart_momentum (--restart-momentum)";
  auto file = read_safetensors(path);
  if (!file && file.error().code() == Code::kNotFound) {
    return wrong(context_of(checkpoint) + " has no momentum beside it: there is no " +
                 path.string() + kCure);
  }
  if (!file) return file.error();
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t digest, number(file->metadata, kDigest));
  if (digest != parameter_digest(network, [&](KeyId key) { return exchange.gradient(key); })) {
    return wrong(context_of(checkpoint) + " and the momentum in " + path.string() +
                 ": one of the two is of another run" + kCure);
  }
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    for (unsigned array = 0; array < state_arrays(exchange.facts().rule); ++array) {
      PHUB_RETURN_IF_ERROR(restore(*file, state_tensor(spec.name, exchange, array), spec.shape,
                                   exchange.state(key, array))
                               .with_context(path.string()));
    }
  }
  if (!has_betas(exchange.facts().rule)) return {};
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t updates, number(file->metadata, kUpdates));
  exchange.resume_updates(updates);
  return {};
}

}  // namespace phub::train
