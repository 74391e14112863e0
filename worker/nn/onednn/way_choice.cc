#include "worker/nn/onednn/way_choice.h"

#include <chrono>

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

// A layer's parameters and their gradients while its ways are measured.
class Bench {
 public:
  Bench(const std::vector<Memory::desc>& parameters, OnednnContext& context) : context_(context) {
    for (const Memory::desc& desc : parameters) {
      std::span<float> parameter = zeros(desc);
      bindings_.push_back({parameter, zeros(desc)});
    }
  }

  std::function<Result<double>(std::size_t)> prepare(const WayPlan& plan) {
    const std::shared_ptr<ComputeWay> way = plan.make(room_);
    way->bind(bindings_);
    return [way, &context = context_](std::size_t times) -> Result<double> {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < times; ++i) PHUB_RETURN_IF_ERROR(way->run(context));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      return took.count();
    };
  }

 private:
  // As the images are before the first step.
  std::span<float> zeros(const Memory::desc& desc) {
    const Memory& memory = memories_.emplace_back(desc, context_.engine);
    const std::span values(static_cast<float*>(memory.get_data_handle()),
                           desc.get_size() / sizeof(float));
    std::fill(values.begin(), values.end(), 0.0F);
    return values;
  }

  OnednnContext& context_;
  OpScratch room_;
  std::vector<Memory> memories_;
  std::vector<Binding> bindings_;
};

// oneDNN gives different implementations the same name here and there.
void tell_apart(std::vector<WayPlan>& plans) {
  for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
    const auto same = std::count_if(plans.begin(), plan, [&](const WayPlan& other) {
      return other.kernel.name.substr(0, other.kernel.name.find('#')) == plan->kernel.name;
    });
    if (same > 0) plan->kernel.name += "#" + std::to_string(same + 1);
  }
}

// oneDNN's scalar code is hundreds of times slower: it stays where there is nothing else.
void drop_scalar(std::vector<WayPlan>& plans) {
  const auto is_scalar = [](const WayPlan& plan) {
    return plan.implementation.find("ref") != std::string::npos;
  };
  if (std::all_of(plans.begin(), plans.end(), is_scalar)) return;
  plans.erase(std::remove_if(plans.begin(), plans.end(), is_scalar), plans.end());
}

bool is_outdated(const std::string& implementation) {
  return implementation.find("sse41") != std::string::npos &&
         dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::sse41;
}

}  // namespace

bool add_plan(const std::string& implementation, const LibraryWay::Arguments& arguments,
              const AskedLayout& layout, const OnednnContext& context,
              std::vector<WayPlan>& plans) {
  if (is_outdated(implementation)) return false;
  const std::vector<Memory::desc> layouts = arguments.layouts();
  const bool is_there = std::any_of(plans.begin(), plans.end(), [&](const WayPlan& plan) {
    return plan.kernel.is_blocked != layout.is_blocked && plan.implementation == implementation &&
           plan.layouts == layouts;
  });
  if (is_there) return false;
  // In bf16 kernels for blocked images are a fifth faster where no image is moved for them.
  const bool is_preferred = layout.is_blocked && !arguments.moves_images() &&
                            arguments.has_blocked_images() && context.type == DataType::kBfloat16;
  plans.push_back({.kernel = {.name = layout.name + " " + implementation,
                              .is_own = false,
                              .is_blocked = layout.is_blocked,
                              .is_preferred = is_preferred,
                              .prepare = {}},
                   .implementation = implementation,
                   .layouts = layouts,
                   .make = {}});
  return true;
}

std::unique_ptr<ComputeWay> choose_way(const std::string& operation, std::vector<WayPlan> plans,
                                       const std::vector<Memory::desc>& parameters,
                                       OnednnContext& context) {
  if (plans.empty()) throw dnnl::error(dnnl_unimplemented, "oneDNN has no such operation");
  drop_scalar(plans);
  tell_apart(plans);
  const auto bench = std::make_shared<Bench>(parameters, context);
  std::vector<OfferedKernel> kernels;
  for (const WayPlan& plan : plans) {
    kernels.push_back(plan.kernel);
    kernels.back().prepare = [&plan, bench] { return bench->prepare(plan); };
  }
  const auto index = context.kernels.choose(operation, kernels);
  if (!index) throw dnnl::error(dnnl_runtime_error, "no implementation of an operation runs");
  return plans[*index].make(context.room);
}

}  // namespace phub::nn::onednn
