#include "worker/train/measure/step_bench.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "worker/train/exchange/initialise.h"
#include "worker/train/measure/noise.h"

namespace phub::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Pushes each key as soon as backward has written it, and measures that and the waits.
class UpdateHooks : public nn::Hooks {
 public:
  explicit UpdateHooks(GradientExchange* exchange) : exchange_(exchange) {}

  Status weights_needed(const nn::KeyRange& keys) override {
    return timed(keys, [&](KeyId key) { return exchange_->wait(key); });
  }
  Status loss_known(const nn::Loss& loss) override {
    is_finite_ = std::isfinite(loss.sum);
    return {};
  }
  Status grad_ready(const nn::KeyRange& keys) override {
    return timed(keys, [&](KeyId key) { return exchange_->push(key); });
  }
  Status grad_checked(const nn::KeyRange& keys, nn::Finite finite) override {
    return timed(
        keys, [&](KeyId key) { return exchange_->push_checked(key, finite == nn::Finite::kYes); });
  }

  double seconds() const { return seconds_; }
  bool is_finite() const { return is_finite_; }

 private:
  template <typename Each>
  Status timed(const nn::KeyRange& keys, Each each) {
    const auto start = Clock::now();
    for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
      PHUB_RETURN_IF_ERROR(each(key));
    }
    seconds_ += seconds_between(start, Clock::now());
    return {};
  }

  GradientExchange* exchange_;
  bool is_finite_ = true;
  double seconds_ = 0.0;
};

class StepBench {
 public:
  // No exchange: the executor keeps its parameters.
  StepBench(nn::Executor& network, GradientExchange* exchange, const StepBenchOptions& options)
      : network_(network), exchange_(exchange), options_(options), batch_(network, options.seed) {}

  // Initial parameters, and the noise.
  Status prepare() {
    PHUB_RETURN_IF_ERROR(exchange_ != nullptr ? prepare_exchange() : prepare_own());
    end_ = Clock::now();
    return network_.load(batch_.images, batch_.labels);
  }

  Result<StepTimes> step(std::uint32_t index) {
    UpdateHooks hooks(exchange_);
    network_.set_noise(index);
    const auto start = Clock::now();
    if (options_.executor.backend != BackendKind::kCuda) {
      PHUB_RETURN_IF_ERROR(network_.load(batch_.images, batch_.labels));
    }
    PHUB_RETURN_IF_ERROR(network_.forward(nn::Mode::kTraining, hooks));
    const auto forward = Clock::now();
    const double waited = hooks.seconds();
    PHUB_RETURN_IF_ERROR(network_.start_loss({.gradient_scale = double{options_.loss_scale}}));
    const auto at_loss = Clock::now();
    PHUB_RETURN_IF_ERROR(network_.backward(hooks));
    if (exchange_ != nullptr) {
      PHUB_RETURN_IF_ERROR(exchange_->end_step(options_.loss_scale));
    } else {
      PHUB_RETURN_IF_ERROR(network_.update({.kind = options_.rule,
                                            .learning_rate = kLearningRate,
                                            .momentum = kMomentum,
                                            .gradient_scale = 1.0F / options_.loss_scale}));
    }
    const auto end = Clock::now();
    if (!hooks.is_finite()) {
      return Status(Code::kAborted, "the loss is not finite in step " + std::to_string(index));
    }
    const auto last = std::exchange(end_, end);
    return StepTimes{.forward = seconds_between(start, forward) - waited,
                     .loss = seconds_between(forward, at_loss),
                     .backward = seconds_between(at_loss, end) - (hooks.seconds() - waited),
                     .update = hooks.seconds(),
                     .total = seconds_between(last, end)};
  }

  Status finish() {
    for (KeyId key = 0; exchange_ != nullptr && key < network_.parameters().size(); ++key) {
      PHUB_RETURN_IF_ERROR(exchange_->wait(key));
    }
    return {};
  }

 private:
  static constexpr float kLearningRate = 1e-4F;
  static constexpr float kMomentum = 0.9F;

  Status prepare_exchange() {
    fill_initial(network_, options_.seed, *exchange_);
    PHUB_RETURN_IF_ERROR(exchange_->initialise());
    PHUB_RETURN_IF_ERROR(bind(network_, *exchange_));
    return exchange_->set_hyper(
        {.learning_rate = kLearningRate,
         .momentum = kMomentum,
         .gradient_scale = 1.0F / static_cast<float>(exchange_->facts().workers)});
  }

  Status prepare_own() {
    std::vector<std::vector<float>> initial;
    for (KeyId key = 0; key < network_.parameters().size(); ++key) {
      initial.emplace_back(network_.parameters()[key].elements());
      fill_initial(network_.parameters()[key], options_.seed, key, initial.back());
    }
    return network_.keep_parameters(initial);
  }

  nn::Executor& network_;
  GradientExchange* exchange_;
  const StepBenchOptions& options_;
  NoiseBatch batch_;
  Clock::time_point end_;  // of the last step
};

Result<std::unique_ptr<GradientExchange>> make_exchange(const nn::Executor& network,
                                                        const StepBenchOptions& options) {
  const std::vector<KeySpec> keys = keys_of(network);
  if (options.exchange) return options.exchange(keys);
  const LossScaling kind = options.loss_scale == 1.0F ? LossScaling::kNone : LossScaling::kStatic;
  return make_local_exchange(keys, options.rule, {}, {kind, options.loss_scale});
}

}  // namespace

Result<std::vector<StepTimes>> bench_steps(const nn::Graph& graph, const StepBenchOptions& options,
                                           const std::function<void(std::uint32_t)>& on_step) {
  if (options.steps == 0) return Status(Code::kInvalidArgument, "steps is 0: give at least 1");
  PHUB_ASSIGN_OR_RETURN(auto made, make_executor(graph, options.executor));
  std::unique_ptr<GradientExchange> exchange;
  if (options.executor.backend != BackendKind::kCuda || options.exchange) {
    PHUB_ASSIGN_OR_RETURN(exchange, make_exchange(*made, options));
  }
  // A device may be writing to the exchange's arrays until it goes: before the exchange does.
  const std::unique_ptr<nn::Executor> network = std::move(made);
  StepBench bench(*network, exchange.get(), options);
  PHUB_RETURN_IF_ERROR(bench.prepare());
  std::vector<StepTimes> times;
  for (std::uint32_t index = 1; index <= options.warm_up + options.steps; ++index) {
    PHUB_ASSIGN_OR_RETURN(const StepTimes step, bench.step(index));
    if (index > options.warm_up) times.push_back(step);
    on_step(index);
  }
  PHUB_RETURN_IF_ERROR(bench.finish());
  return times;
}

Result<nn::DeviceProfile> bench_device_steps(const nn::Graph& graph,
                                             const StepBenchOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto network, make_executor(graph, options.executor));
  StepBench bench(*network, nullptr, options);
  PHUB_RETURN_IF_ERROR(bench.prepare());
  for (std::uint32_t index = 1; index <= options.warm_up + 1; ++index) {
    PHUB_RETURN_IF_ERROR(bench.step(index).error());
  }
  return network->time_steps(options.steps);
}

}  // namespace phub::train
