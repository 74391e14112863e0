#include "worker/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "worker/train/loss_scaler.h"

namespace phub::train {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kSeed = "seed";
constexpr const char* kNextStep = "next_step";
constexpr const char* kLossScale = "loss_scale";  // in units of LossScaler::kSmallest
constexpr const char* kGoodSteps = "loss_scale_good_steps";

Status restore(const TensorFile& file, const std::string& name,
               const std::vector<std::uint64_t>& shape, std::span<float> to) {
  const NamedTensor* tensor = file.find(name);
  if (tensor == nullptr) {
    return {Code::kInvalidArgument, "it has no tensor " + name + ": is it of another model?"};
  }
  if (tensor->shape != shape) {
    return {Code::kInvalidArgument,
            "its tensor " + name + " has another shape: is it of another model?"};
  }
  std::copy(tensor->values.begin(), tensor->values.end(), to.begin());
  return {};
}

Result<std::uint64_t> number(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  std::uint64_t value = 0;
  if (found != file.metadata.end()) {
    const char* end = found->second.data() + found->second.size();
    const auto parsed = std::from_chars(found->second.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  }
  return Status(Code::kDataLoss,
                "its metadata has no number " + key + ": was it written by phub-worker?");
}

}  // namespace

Status save_checkpoint(const std::filesystem::path& path, nn::Program& network,
                       const Exchanger& exchanger, const RunPosition& position) {
  TensorFile file;
  file.metadata = {{"format", "pt"},
                   {kModel, position.model},
                   {kSeed, std::to_string(position.seed)},
                   {kNextStep, std::to_string(position.next_step)}};
  if (position.loss_scale > 0.0F) {
    const float units = position.loss_scale / LossScaler::kSmallest;
    file.metadata[kLossScale] = std::to_string(static_cast<std::uint64_t>(units));
    file.metadata[kGoodSteps] = std::to_string(position.good_steps);
  }
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    const auto values = exchanger.parameter(key);
    file.tensors.push_back({spec.name, spec.shape, {values.begin(), values.end()}});
  }
  PHUB_ASSIGN_OR_RETURN(const auto buffers, network.read_buffers());
  for (const nn::Buffer& buffer : buffers) {
    file.tensors.push_back(
        {buffer.name, {buffer.values.size()}, {buffer.values.begin(), buffer.values.end()}});
  }
  return write_safetensors(path, file);
}

Result<RunPosition> load_checkpoint(const std::filesystem::path& path, nn::Program& network,
                                    Exchanger& exchanger) {
  PHUB_ASSIGN_OR_RETURN(const TensorFile file, read_safetensors(path));
  const std::string context = "checkpoint " + path.string();
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    const nn::ParameterSpec& spec = network.parameters()[key];
    PHUB_RETURN_IF_ERROR(
        restore(file, spec.name, spec.shape, exchanger.gradient(key)).with_context(context));
  }
  PHUB_ASSIGN_OR_RETURN(const auto buffers, network.read_buffers());
  for (const nn::Buffer& buffer : buffers) {
    PHUB_RETURN_IF_ERROR(
        restore(file, buffer.name, {buffer.values.size()}, buffer.values).with_context(context));
  }
  RunPosition position;
  const auto model = file.metadata.find(kModel);
  if (model != file.metadata.end()) position.model = model->second;
  const auto seed = number(file, kSeed);
  const auto next_step = number(file, kNextStep);
  if (!seed) return seed.error().with_context(context);
  if (!next_step) return next_step.error().with_context(context);
  position.seed = *seed;
  position.next_step = *next_step;
  if (file.metadata.find(kLossScale) != file.metadata.end()) {
    const auto units = number(file, kLossScale);
    const auto good_steps = number(file, kGoodSteps);
    if (!units) return units.error().with_context(context);
    if (!good_steps) return good_steps.error().with_context(context);
    position.loss_scale = static_cast<float>(*units) * LossScaler::kSmallest;
    position.good_steps = static_cast<std::uint32_t>(*good_steps);
  }
  return position;
}

}  // namespace phub::train
