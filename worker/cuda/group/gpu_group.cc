#include "worker/cuda/group/gpu_group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/splitmix.h"

namespace phub::nn::cuda {
namespace {

bool equal(const std::vector<Segment>& a, const std::vector<Segment>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Segment& x, const Segment& y) {
    return x.first == y.first && x.last == y.last && x.layers == y.layers;
  });
}

// Whether what is told of one executor's steps and layers holds for the other.
bool have_one_schedule(const CudaExecutor& a, const CudaExecutor& b) {
  return equal(a.segments(Pass::kForward), b.segments(Pass::kForward)) &&
         equal(a.segments(Pass::kInference), b.segments(Pass::kInference)) &&
         a.runner().lowered().backward.size() == b.runner().lowered().backward.size() &&
         std::equal(a.marks().begin(), a.marks().end(), b.marks().begin(), b.marks().end(),
                    [](const GradientMark& x, const GradientMark& y) {
                      return x.end == y.end && x.layer == y.layer;
                    });
}

}  // namespace

std::uint64_t noise_of(std::uint64_t noise, std::size_t rank) {
  return rank == 0 ? noise : splitmix64(noise, rank);
}

Result<std::unique_ptr<GpuGroup>> GpuGroup::create(std::vector<GpuRank> gpus,
                                                   std::unique_ptr<Collectives> collectives,
                                                   const GpuGroupOptions& options) {
  PHUB_CHECK(!gpus.empty() && collectives->ranks() == gpus.size(), "a rank for each GPU");
  for (const GpuRank& gpu : gpus) {
    if (have_one_schedule(*gpus.front().executor, *gpu.executor)) continue;
    return Status(Code::kFailedPrecondition,
                  "train.devices: GPU " + std::to_string(gpu.device) +
                      " would run other steps than GPU " + std::to_string(gpus.front().device) +
                      ": use GPUs of one model, or one of them (train.device)");
  }
  std::unique_ptr<GpuGroup> group(new GpuGroup(std::move(gpus), std::move(collectives), options));
  PHUB_RETURN_IF_ERROR(group->make_events());
  return group;
}

Status GpuGroup::make_events() {
  return on_each(gpus_, [&](std::size_t, CudaExecutor& executor) -> Status {
    Events events;
    for (EventPointer* event : {&events.upload, &events.part, &events.downloads}) {
      PHUB_ASSIGN_OR_RETURN(*event, executor.runtime().make_event());
    }
    events_.push_back(std::move(events));
    return {};
  });
}

GpuGroup::~GpuGroup() {
  // Nothing may still write to memory that goes now; what does not end is aborted.
  if (failed_.ok()) static_cast<void>(settle());
  if (!failed_.ok() && !come_to_rest()) {
    // A wait would have no end. The process keeps what the devices may still write to.
    options_.note("a GPU still works on what failed: its memory is left to the end of the process");
    static_cast<void>(collectives_.release());
    static_cast<void>(exchange_.release());
    for (auto& check : own_checks_) static_cast<void>(check.release());
    for (auto& own : own_) static_cast<void>(own.release());
    for (Events& events : events_) {
      for (EventPointer* event : {&events.upload, &events.part, &events.downloads}) {
        static_cast<void>(event->release());
      }
    }
    for (GpuRank& gpu : gpus_) static_cast<void>(gpu.executor.release());
    return;
  }
  for (GpuRank& gpu : gpus_) {
    for (const Stream stream : {Stream::kCompute, Stream::kUpload, Stream::kDownload}) {
      static_cast<void>(gpu.executor->runtime().synchronise(stream));
    }
  }
  collectives_.reset();
  exchange_.reset();
  own_checks_.clear();
  own_.clear();
  events_.clear();
  for (GpuRank& gpu : gpus_) {
    static_cast<void>(gpu.executor->runtime().make_current());
    gpu.executor.reset();
  }
}

Status GpuGroup::ended_by(const Status& status) {
  if (status.ok() || !failed_.ok()) return failed_;
  failed_ = status;
  options_.note(status.message());  // at once: an abort may have to wait for a GPU
  collectives_->abort();
  return failed_;
}

// Where backward is cut, and what comes together in a forward: the layers of a segment in training.
void GpuGroup::cut(bool exchanges) {
  std::vector<std::size_t> elements;
  for (const ParameterSpec& spec : parameters()) elements.push_back(spec.elements());
  const std::size_t steps = first().runner().lowered().backward.size();
  parts_ = exchanges
               ? backward_parts(first().marks(), first().layers(), elements, steps, options_.parts)
               : std::vector<Segment>{{.first = 0, .last = steps}};
  for (GpuRank& gpu : gpus_) gpu.executor->cut_backward(parts_.size());
  const std::vector<Segment>& segments = first().segments(Pass::kForward);
  group_of_.resize(first().layers().size());
  for (std::size_t group = 0; group < segments.size(); ++group) {
    for (const std::size_t layer : segments[group].layers) group_of_[layer] = group;
  }
  brought_.resize(segments.size());
}

Status GpuGroup::bind(std::span<const Binding> bindings) {
  std::vector<TypedBinding> typed;
  for (const Binding& binding : bindings) {
    typed.push_back({std::as_bytes(binding.parameter), std::as_writable_bytes(binding.gradient)});
  }
  return bind_typed(DataType::kFloat32, typed);
}

Status GpuGroup::bind_typed(DataType type, std::span<const TypedBinding> bindings) {
  PHUB_CHECK(bindings.size() == parameters().size(), "one binding for each parameter");
  PHUB_CHECK(exchange_ == nullptr && own_.empty(), "bound once: captured passes have addresses");
  cut(true);
  ShardedExchangeOptions options{.type = type, .note = options_.note};
  for (const Segment& segment : first().segments(Pass::kForward)) {
    options.parameter_groups.push_back(segment.layers);
  }
  for (const Segment& part : parts_) options.gradient_groups.push_back(part.layers);
  PHUB_ASSIGN_OR_RETURN(exchange_,
                        ShardedExchange::create(gpus_, *collectives_, bindings, options));
  parameters_changed_ = true;
  return {};
}

void GpuGroup::set_noise(std::uint64_t noise) {
  for (std::size_t rank = 0; rank < n(); ++rank) {
    gpus_[rank].executor->set_noise(noise_of(noise, rank));
  }
}

std::span<const Label> GpuGroup::labels_of(std::size_t rank, std::span<const Label> labels) const {
  PHUB_CHECK(labels.size() <= batch(), "at most a label for each image");
  const std::size_t part = first().batch();
  const std::size_t begin = std::min(rank * part, labels.size());
  return labels.subspan(begin, std::min(part, labels.size() - begin));
}

Status GpuGroup::load(std::span<const float> images, std::span<const Label> labels) {
  PHUB_CHECK(images.size() == input_elements(), "images of a whole batch");
  return each([&](std::size_t rank, CudaExecutor& executor) {
    const std::size_t part = executor.input_elements();
    return executor.load(images.subspan(rank * part, part), labels_of(rank, labels));
  });
}

Status GpuGroup::load_bytes(const ByteImages& images, std::span<const Label> labels) {
  PHUB_CHECK(images.pixels.size() == input_elements() && images.moves.size() == batch(),
             "images of a whole batch");
  return each([&](std::size_t rank, CudaExecutor& executor) {
    const std::size_t part = executor.input_elements();
    ByteImages own = images;
    own.pixels = images.pixels.subspan(rank * part, part);
    own.moves = images.moves.subspan(rank * executor.batch(), executor.batch());
    return executor.load_bytes(own, labels_of(rank, labels));
  });
}

Result<std::vector<nn::Buffer>> GpuGroup::read_buffers() {
  PHUB_RETURN_IF_ERROR(settle());
  const auto read = [&](std::size_t rank, CudaExecutor& executor) -> Status {
    if (rank > 0) return {};
    PHUB_ASSIGN_OR_RETURN(statistics_, executor.read_buffers());
    return {};
  };
  PHUB_RETURN_IF_ERROR(each(read));
  return statistics_;
}

// The first GPU's, or what the host has made of them, are everyone's with the next forward.
Status GpuGroup::share_statistics() {
  if (statistics_.empty()) {
    PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto read, read_buffers());
  }
  const auto copy = [&](std::size_t rank, CudaExecutor& executor) -> Status {
    if (rank == 0) return {};
    PHUB_ASSIGN_OR_RETURN(const auto buffers, executor.read_buffers());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      std::copy(statistics_[i].values.begin(), statistics_[i].values.end(),
                buffers[i].values.begin());
    }
    return {};
  };
  PHUB_RETURN_IF_ERROR(each(copy));
  statistics_.clear();
  statistics_differ_ = false;
  return {};
}

Status GpuGroup::read_output(std::span<float> host) {
  PHUB_CHECK(host.size() == output_elements(), "the output of the whole batch");
  PHUB_RETURN_IF_ERROR(settle());
  return each([&](std::size_t rank, CudaExecutor& executor) {
    const std::size_t part = executor.output_elements();
    return executor.read_output(host.subspan(rank * part, part));
  });
}

Status GpuGroup::start_loss(const LossOptions& options) {
  LossOptions share = options;
  share.gradient_scale /= static_cast<double>(n());  // each divides by its own images
  return each([&](std::size_t, CudaExecutor& executor) { return executor.start_loss(share); });
}

Status GpuGroup::keep_parameters(std::span<const std::vector<float>> initial) {
  PHUB_CHECK(exchange_ == nullptr && own_.empty(), "bound once: captured passes have addresses");
  cut(false);
  own_type_ = first().runner().type_of(first().runner().lowered().output);
  return each([&](std::size_t, CudaExecutor& executor) -> Status {
    PHUB_ASSIGN_OR_RETURN(auto own, OwnOptimizer::create(executor.runtime(), executor.runner(),
                                                         parameters(), initial, own_type_));
    const FiniteCheck::Array gradients{own->gradients().address,
                                       own->gradients().bytes / size_of(own_type_)};
    PHUB_ASSIGN_OR_RETURN(auto check,
                          FiniteCheck::create(executor.runtime(), {&gradients, 1}, own_type_));
    own_.push_back(std::move(own));
    own_checks_.push_back(std::move(check));
    return {};
  });
}

Status GpuGroup::update(const OwnRule& rule) {
  if (own_.empty()) return Executor::update(rule);
  const auto flag = [](CudaExecutor& executor) {
    return executor.status().not_finite(CudaExecutor::kLossSlot);
  };
  const auto publish = [&](std::size_t rank, CudaExecutor& executor) {
    return own_[rank]->publish(flag(executor));
  };
  PHUB_RETURN_IF_ERROR(each(publish));
  std::vector<void*> gradients;
  for (const auto& own : own_) gradients.push_back(own->gradients().address);
  const std::size_t elements = own_.front()->gradients().bytes / size_of(own_type_);
  PHUB_RETURN_IF_ERROR(
      ended_by(collectives_->all_reduce(gradients, elements, own_type_, Stream::kCompute)));
  return each([&](std::size_t rank, CudaExecutor& executor) -> Status {
    PHUB_RETURN_IF_ERROR(
        executor.runtime().launch(own_checks_[rank]->of(0, flag(executor)), Stream::kCompute));
    return own_[rank]->apply(rule, flag(executor));
  });
}

}  // namespace phub::nn::cuda
