#include "worker/train/step_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "worker/data/random.h"
#include "worker/nn/program.h"
#include "worker/train/exchanger.h"
#include "worker/train/initialise.h"

namespace phub::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Updates each key as soon as backward has written it, and measures that.
class UpdateHooks : public nn::Hooks {
 public:
  explicit UpdateHooks(Exchanger& exchanger) : exchanger_(exchanger) {}

  Status weights_needed(const nn::KeyRange&) override { return {}; }
  Status loss_known(const nn::Loss& loss) override {
    is_finite_ = std::isfinite(loss.sum);
    return {};
  }
  Status grad_ready(const nn::KeyRange& keys) override {
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(exchanger_.push(key));
    }
    seconds_ += seconds_between(start, Clock::now());
    return {};
  }

  double seconds() const { return seconds_; }
  bool is_finite() const { return is_finite_; }

 private:
  Exchanger& exchanger_;
  bool is_finite_ = true;
  double seconds_ = 0.0;
};

class StepBench {
 public:
  StepBench(nn::Program& network, Exchanger& exchanger, const StepBenchOptions& options)
      : network_(network),
        exchanger_(exchanger),
        seed_(options.seed),
        images_(network.input_elements()),
        labels_(options.batch) {}

  // Noise as images, any labels, and initial parameters.
  Status prepare() {
    for (KeyId key = 0; key < network_.parameters().size(); ++key) {
      fill_initial(network_.parameters()[key], seed_, key, exchanger_.gradient(key));
    }
    PHUB_RETURN_IF_ERROR(exchanger_.initialise());
    PHUB_RETURN_IF_ERROR(bind(network_, exchanger_));
    data::CounterRandom random(seed_, data::Purpose::kSynthetic, 0, 0);
    for (float& pixel : images_) pixel = 2.0F * random.uniform() - 1.0F;
    const std::size_t outputs = network_.output_elements() / labels_.size();
    const std::size_t classes = std::min<std::size_t>(outputs, 65'536);
    for (auto& label : labels_) label = static_cast<nn::Label>(random.below(classes));
    return exchanger_.set_hyper({.learning_rate = 1e-4F, .momentum = 0.9F, .gradient_scale = 1.0F});
  }

  Result<StepTimes> step(std::uint32_t index) {
    UpdateHooks hooks(exchanger_);
    network_.set_noise(index);
    const auto start = Clock::now();
    PHUB_RETURN_IF_ERROR(network_.load(images_, labels_));
    PHUB_RETURN_IF_ERROR(network_.forward(nn::Mode::kTraining, hooks));
    const auto forward = Clock::now();
    PHUB_RETURN_IF_ERROR(network_.start_loss({}));
    const auto at_loss = Clock::now();
    PHUB_RETURN_IF_ERROR(network_.backward(hooks));
    PHUB_RETURN_IF_ERROR(exchanger_.end_step(1.0F));
    const auto end = Clock::now();
    if (!hooks.is_finite()) {
      return Status(Code::kAborted, "the loss is not finite in step " + std::to_string(index));
    }
    return StepTimes{.forward = seconds_between(start, forward),
                     .loss = seconds_between(forward, at_loss),
                     .backward = seconds_between(at_loss, end) - hooks.seconds(),
                     .update = hooks.seconds()};
  }

 private:
  nn::Program& network_;
  Exchanger& exchanger_;
  std::uint64_t seed_;
  std::vector<float> images_;
  std::vector<nn::Label> labels_;
};

}  // namespace

Result<std::vector<StepTimes>> bench_steps(const nn::Graph& graph, const StepBenchOptions& options,
                                           const std::function<void(std::uint32_t)>& on_step) {
  if (options.steps == 0) return Status(Code::kInvalidArgument, "steps is 0: give at least 1");
  PHUB_ASSIGN_OR_RETURN(const auto network,
                        make_program(graph, {.backend = options.backend,
                                             .compute_type = options.compute_type,
                                             .batch = options.batch,
                                             .threads = options.threads}));
  std::vector<KeySpec> keys;
  for (const nn::ParameterSpec& spec : network->parameters()) {
    keys.push_back({.name = spec.name, .elements = spec.elements()});
  }
  const auto exchanger = make_local_exchanger(keys, options.rule);
  StepBench bench(*network, *exchanger, options);
  PHUB_RETURN_IF_ERROR(bench.prepare());
  std::vector<StepTimes> times;
  for (std::uint32_t index = 1; index <= options.warm_up + options.steps; ++index) {
    PHUB_ASSIGN_OR_RETURN(const StepTimes step, bench.step(index));
    if (index > options.warm_up) times.push_back(step);
    on_step(index);
  }
  return times;
}

}  // namespace phub::train
