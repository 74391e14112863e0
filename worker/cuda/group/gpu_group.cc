// What is queued for all GPUs in what order, and how the host follows.
#include "worker/cuda/group/gpu_group.h"

#include <string>
#include <utility>

#include "common/base/check.h"

namespace phub::nn::cuda {

Result<std::unique_ptr<GpuGroup>> GpuGroup::create(std::vector<GpuRank> gpus,
                                                   std::unique_ptr<Collectives> collectives,
                                                   const GpuGroupOptions& options) {
  for (const GpuRank& gpu : gpus) {
    if (gpu.passes->schedule() == gpus.front().passes->schedule()) continue;
    return Status(Code::kFailedPrecondition,
                  "train.devices: GPU " + std::to_string(gpu.device) +
                      " would run other steps than GPU " + std::to_string(gpus.front().device) +
                      ": use GPUs of one model, or one of them (train.device)");
  }
  return std::unique_ptr<GpuGroup>(
      new GpuGroup(std::make_unique<GpuRanks>(std::move(gpus), std::move(collectives),
                                              options.timeout, options.note),
                   options));
}

GpuGroup::~GpuGroup() {
  if (gpus_->come_to_rest()) return;
  // A wait would have no end. The process keeps what the devices may still write to.
  options_.note("a GPU still works on what failed: its memory is left to the end of the process");
  static_cast<void>(exchange_.release());
  static_cast<void>(own_.release());
  static_cast<void>(gpus_.release());
}

// Where backward is cut, and what comes together in a forward: the layers of a segment in training.
void GpuGroup::cut(bool exchanges) {
  std::vector<std::size_t> elements;
  for (const ParameterSpec& spec : parameters()) elements.push_back(spec.elements());
  const PassSchedule& schedule = gpus_->first().schedule();
  parts_ = exchanges ? backward_parts(schedule, elements, options_.parts)
                     : std::vector<PassSegment>{{.first = 0, .last = schedule.backward_steps}};
  for (const GpuRank& gpu : gpus_->all())
    gpu.passes->captured().cut(Pass::kBackward, parts_.size());
  group_of_.resize(schedule.layers.size());
  for (std::size_t group = 0; group < schedule.forward.size(); ++group) {
    for (const std::size_t layer : schedule.forward[group].layers) group_of_[layer] = group;
  }
  brought_.resize(schedule.forward.size());
}

Status GpuGroup::bind_typed(const TypedBindings& bindings) {
  PHUB_CHECK(exchange_ == nullptr && own_ == nullptr, "bound once: captured passes have addresses");
  PHUB_RETURN_IF_ERROR(check_bindings(parameters(), bindings));
  cut(true);
  ShardedExchangeOptions options{.note = options_.note};
  for (const PassSegment& segment : gpus_->first().schedule().forward) {
    options.parameter_groups.push_back(segment.layers);
  }
  for (const PassSegment& part : parts_) options.gradient_groups.push_back(part.layers);
  PHUB_ASSIGN_OR_RETURN(
      exchange_, ShardedExchange::create(gpus_->all(), gpus_->collectives(), bindings, options));
  parameters_changed_ = true;
  return {};
}

Status GpuGroup::read_output(std::span<float> host) {
  PHUB_CHECK(host.size() == output_elements(), "the output of the whole batch");
  PHUB_RETURN_IF_ERROR(gpus_->settle());
  return gpus_->each([&](std::size_t rank, DevicePasses& passes) {
    const std::size_t part = passes.output_elements();
    return passes.read_output(host.subspan(rank * part, part));
  });
}

Status GpuGroup::start_loss(const LossOptions& options) {
  LossOptions share = options;
  share.gradient_scale /= static_cast<double>(gpus_->count());  // each divides by its own images
  return gpus_->each([&](std::size_t, DevicePasses& passes) { return passes.start_loss(share); });
}

Status GpuGroup::keep_parameters(std::span<const std::vector<float>> initial) {
  PHUB_CHECK(exchange_ == nullptr && own_ == nullptr, "bound once: captured passes have addresses");
  cut(false);
  PHUB_ASSIGN_OR_RETURN(own_, GroupOptimizer::create(*gpus_, initial));
  return {};
}

Status GpuGroup::update(const OwnRule& rule) {
  return own_ == nullptr ? Executor::update(rule) : own_->update(rule);
}

Status GpuGroup::forward(Mode mode, Hooks& hooks) {
  PHUB_CHECK(exchange_ != nullptr || own_ != nullptr, "bound before forward");
  const bool trains = mode == Mode::kTraining;
  PHUB_RETURN_IF_ERROR(statistics_.share_if_needed(trains));
  const Pass pass = trains ? Pass::kForward : Pass::kInference;
  PHUB_RETURN_IF_ERROR(
      gpus_->each([&](std::size_t, DevicePasses& passes) { return passes.begin_forward(pass); }));
  brought_.assign(brought_.size(), false);
  for (std::size_t i = 0; i < gpus_->first().schedule().segments(pass).size(); ++i) {
    PHUB_RETURN_IF_ERROR(run_segment(pass, i, hooks));
  }
  if (exchange_ != nullptr) parameters_changed_ = false;
  for (const GpuRank& gpu : gpus_->all()) gpu.passes->end_forward(pass);
  if (trains) statistics_.trained();
  return {};
}

// What a segment needs is on its way when the segment is queued.
Status GpuGroup::run_segment(Pass pass, std::size_t segment, Hooks& hooks) {
  if (exchange_ != nullptr) {
    for (const std::size_t layer : gpus_->first().schedule().segments(pass)[segment].layers) {
      const std::size_t group = group_of_[layer];
      if (!brought_[group]) PHUB_RETURN_IF_ERROR(bring(group, hooks));
      brought_[group] = true;
    }
  }
  return gpus_->each([&](std::size_t, DevicePasses& passes) -> Status {
    if (exchange_ != nullptr && parameters_changed_) {
      PHUB_RETURN_IF_ERROR(passes.follow(Stream::kCompute, Stream::kUpload));
    }
    return passes.run_segment(pass, segment);
  });
}

Status GpuGroup::bring(std::size_t group, Hooks& hooks) {
  for (const std::size_t layer : exchange_->parameters().regions()[group].layers) {
    PHUB_RETURN_IF_ERROR(hooks.weights_needed(gpus_->first().schedule().layers[layer]));
  }
  return parameters_changed_ ? gpus_->ended_by(exchange_->upload(group)) : Status();
}

Status GpuGroup::backward(Hooks& hooks) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    PHUB_RETURN_IF_ERROR(queue_part(part));
  }
  const auto end = [&](std::size_t, DevicePasses& passes) -> Status {
    PHUB_RETURN_IF_ERROR(passes.follow(Stream::kCompute, Stream::kDownload));
    return passes.end_backward();
  };
  PHUB_RETURN_IF_ERROR(gpus_->each(end));
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool finite,
                        gpus_->wait_told(StepStatus::kLossSlot));
  Loss sum;
  const auto take_loss = [&](std::size_t, DevicePasses& passes) -> Status {
    PHUB_ASSIGN_OR_RETURN(const Loss loss, passes.read_loss());
    sum.sum += loss.sum;
    sum.correct += loss.correct;
    return {};
  };
  PHUB_RETURN_IF_ERROR(gpus_->each(take_loss));
  PHUB_RETURN_IF_ERROR(hooks.loss_known(sum));
  return exchange_ != nullptr ? tell_gradients(hooks) : Status();
}

// The part on kCompute of every GPU; behind it, on kDownload, the gradients that it has completed.
Status GpuGroup::queue_part(std::size_t part) {
  const PassSegment& steps = parts_[part];
  const auto compute = [&](std::size_t, DevicePasses& passes) -> Status {
    if (steps.first < steps.last) {
      PHUB_RETURN_IF_ERROR(passes.captured().queue(Pass::kBackward, part, [&] {
        return passes.runner().run(Pass::kBackward, steps.first, steps.last);
      }));
    }
    return passes.follow(Stream::kDownload, Stream::kCompute);
  };
  PHUB_RETURN_IF_ERROR(gpus_->each(compute));
  if (exchange_ == nullptr || steps.layers.empty()) return {};
  return gpus_->ended_by(exchange_->download(part, StepStatus::gradient_slot(part)));
}

Status GpuGroup::tell_gradients(Hooks& hooks) {
  parameters_changed_ = true;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part].layers.empty()) continue;
    PHUB_ASSIGN_OR_RETURN(const bool finite, gpus_->wait_told(StepStatus::gradient_slot(part)));
    exchange_->arrived(part);
    for (const std::size_t layer : parts_[part].layers) {
      PHUB_RETURN_IF_ERROR(hooks.grad_checked(gpus_->first().schedule().layers[layer],
                                              finite ? Finite::kYes : Finite::kNo));
    }
  }
  return {};
}

}  // namespace phub::nn::cuda
