#include "worker/train/measure/profile.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/check.h"
#include "worker/nn/graph/cost.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/measure/noise.h"

namespace phub::train {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = ProfileSpan::Kind;

// That malloc has handed out, mapped pieces included.
std::uint64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The time line of the steps: what the layers do, and what the exchange does between them.
class Recorder : public nn::Hooks, public nn::LayerObserver {
 public:
  Recorder(const nn::Graph& graph, GradientExchange& exchange) : exchange_(exchange) {
    for (std::size_t layer = 0; layer < graph.layers().size(); ++layer) {
      layer_of_key_.insert(layer_of_key_.end(), graph.layers()[layer].parameters.size(), layer);
    }
  }

  // Forgets what was recorded: the warm-up.
  void restart() {
    spans_.clear();
    start_ = Clock::now();
  }

  Status weights_needed(const nn::KeyRange& keys) override {
    return recorded(Kind::kWait, layer_of_key_[keys.first], [&]() -> Status {
      for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
        PHUB_RETURN_IF_ERROR(exchange_.wait(key));
      }
      return {};
    });
  }
  Status loss_known(const nn::Loss& loss) override {
    if (std::isfinite(loss.sum)) return {};
    return {Code::kAborted, "the loss is not finite: the network cannot be profiled on noise"};
  }
  Status grad_ready(const nn::KeyRange& keys) override {
    return recorded(Kind::kPush, layer_of_key_[keys.first], [&]() -> Status {
      for (KeyId key = keys.first; key < keys.first + keys.count; ++key) {
        PHUB_RETURN_IF_ERROR(exchange_.push(key));
      }
      return {};
    });
  }
  void begin(nn::LayerPass, std::size_t) override { begun_ = Clock::now(); }
  void end(nn::LayerPass pass, std::size_t layer) override {
    add(pass == nn::LayerPass::kForward ? Kind::kForward : Kind::kBackward, layer, begun_);
  }

  template <typename Work>
  Status recorded(Kind kind, std::size_t layer, Work work) {
    const auto start = Clock::now();
    PHUB_RETURN_IF_ERROR(work());
    add(kind, layer, start);
    return {};
  }

  const std::vector<ProfileSpan>& spans() const { return spans_; }

 private:
  void add(Kind kind, std::size_t layer, Clock::time_point start) {
    const std::chrono::duration<double> before = start - start_;
    const std::chrono::duration<double> took = Clock::now() - start;
    spans_.push_back({kind, layer, before.count(), took.count()});
  }

  GradientExchange& exchange_;
  std::vector<std::size_t> layer_of_key_;
  std::vector<ProfileSpan> spans_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point begun_;
};

Status prepare(nn::Executor& network, GradientExchange& exchange, std::uint64_t seed) {
  fill_initial(network, seed, exchange);
  PHUB_RETURN_IF_ERROR(exchange.initialise());
  return bind(network, exchange);
}

// One step; its pushes are waited for by the next one's forward.
Status step(nn::Executor& network, GradientExchange& exchange, const NoiseBatch& batch,
            Recorder& recorder, std::uint32_t index) {
  network.set_noise(index);
  PHUB_RETURN_IF_ERROR(network.load(batch.images, batch.labels));
  PHUB_RETURN_IF_ERROR(network.forward(nn::Mode::kTraining, recorder));
  PHUB_RETURN_IF_ERROR(recorder.recorded(Kind::kLoss, 0, [&] { return network.start_loss({}); }));
  PHUB_RETURN_IF_ERROR(
      exchange.set_hyper({.learning_rate = 1e-4F,
                          .momentum = 0.9F,
                          .gradient_scale = 1.0F / static_cast<float>(exchange.facts().workers)}));
  PHUB_RETURN_IF_ERROR(network.backward(recorder));
  return exchange.end_step(1.0F);
}

// The highest rate of a layer's pass, in operations a second.
double fastest_pass(const std::vector<LayerProfile>& layers) {
  double best = 0.0;
  const auto look = [&](std::uint64_t flops, double seconds) {
    if (flops > 0 && seconds > 0.0) best = std::max(best, static_cast<double>(flops) / seconds);
  };
  for (const LayerProfile& layer : layers) {
    look(layer.forward_flops, layer.forward);
    look(layer.backward_flops, layer.backward);
  }
  return best;
}

// What the same backend reaches in one large inner product.
Result<double> measure_peak(const ProfileOptions& options) {
  const std::uint32_t side = options.executor.backend == BackendKind::kReference ? 256 : 1024;
  constexpr int kTries = 10;
  nn::Graph graph({.channels = side});
  graph.add("product", nn::InnerProduct{.outputs = side, .bias = false}, {0});
  ExecutorOptions executor = options.executor;
  executor.batch = side;
  executor.kernels = {};
  PHUB_ASSIGN_OR_RETURN(const auto network, make_executor(graph, executor));
  const auto exchange = make_local_exchange(keys_of(*network), RuleKind::kSgd);
  PHUB_RETURN_IF_ERROR(prepare(*network, *exchange, options.seed));
  const NoiseBatch batch(*network, options.seed);
  PHUB_RETURN_IF_ERROR(network->load(batch.images, batch.labels));
  Recorder recorder(graph, *exchange);
  network->observe(&recorder);
  for (int i = 0; i < kTries; ++i) {
    PHUB_RETURN_IF_ERROR(network->forward(nn::Mode::kInference, recorder));
  }
  double best = 0.0;
  for (const ProfileSpan& span : recorder.spans()) {
    if (span.kind != Kind::kForward) continue;
    best = std::max(best, 2.0 * side * side * side / span.seconds);
  }
  return best;
}

std::vector<LayerProfile> layers_of(const nn::Graph& graph, std::uint32_t batch) {
  std::vector<LayerProfile> layers;
  for (std::size_t index = 0; index < graph.layers().size(); ++index) {
    const nn::Layer& layer = graph.layers()[index];
    const nn::LayerCost cost = nn::cost_of(graph, index);
    LayerProfile& profile = layers.emplace_back();
    profile.name = layer.name;
    profile.kind = nn::name_of(layer.kind);
    profile.forward_flops = cost.forward_flops() * batch;
    profile.backward_flops = cost.backward_flops() * batch;
    for (const nn::ParameterSpec& spec : layer.parameters) {
      profile.key_bytes.push_back(spec.elements() * sizeof(float));
    }
  }
  return layers;
}

// Medians over the steps. `starts`: index of each step's first span, and one past the last.
void add_times(const std::vector<std::size_t>& starts, Profile& profile) {
  constexpr std::size_t kKinds = 4;
  const std::size_t steps = starts.size() - 1;
  std::vector<std::vector<double>> times(profile.layers.size() * kKinds,
                                         std::vector<double>(steps, 0.0));
  std::vector<double> losses(steps, 0.0);
  for (std::size_t index = 0; index < steps; ++index) {
    for (std::size_t i = starts[index]; i < starts[index + 1]; ++i) {
      const ProfileSpan& span = profile.spans[i];
      const bool is_loss = span.kind == Kind::kLoss;
      (is_loss ? losses
               : times[span.layer * kKinds + static_cast<std::size_t>(span.kind)])[index] +=
          span.seconds;
    }
  }
  for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
    LayerProfile& each = profile.layers[layer];
    double* const values[kKinds] = {&each.forward, &each.backward, &each.push, &each.wait};
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      *values[kind] = median(times[layer * kKinds + kind]);
    }
  }
  profile.loss = median(losses);
}

// `made_bytes`: what malloc handed out when the network was made.
MemoryProfile memory_of(nn::Executor& network, GradientExchange& exchange,
                        std::uint64_t made_bytes) {
  MemoryProfile memory;
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    memory.weights += network.parameters()[key].elements() * sizeof(float);
    if (exchange.facts().state_at == StateAt::kHere) {
      memory.dynamic += exchange.state(key).size_bytes();
    }
  }
  memory.gradients = memory.weights;
  const nn::FeatureMaps maps = network.feature_maps();
  memory.feature_maps = maps.values + maps.gradients;
  const std::uint64_t all = made_bytes + maps.mapped;
  memory.workspace = all > memory.feature_maps ? all - memory.feature_maps : 0;
  memory.dynamic += network.input_elements() * sizeof(float) + network.batch() * sizeof(nn::Label);
  return memory;
}

}  // namespace

std::uint64_t Profile::flops() const {
  std::uint64_t sum = 0;
  for (const LayerProfile& layer : layers) sum += layer.forward_flops + layer.backward_flops;
  return sum;
}

Result<Profile> profile(const nn::Graph& graph, const ProfileOptions& options,
                        const ExchangeFactory& factory,
                        const std::function<void(std::uint32_t)>& on_step) {
  if (options.steps == 0) return Status(Code::kInvalidArgument, "--steps: is 0; give at least 1");
  if (options.executor.backend == BackendKind::kCuda) {
    return Status(
        Code::kInvalidArgument,
        "train.backend: cuda queues a whole step, whose layers cannot be timed one by one: "
        "profile onednn, or time the step with phub-worker bench --backend cuda");
  }
  Profile result;
  result.layers = layers_of(graph, options.executor.batch);
  result.peak_flops = options.peak_flops;
  if (options.peak_flops <= 0.0) {
    PHUB_ASSIGN_OR_RETURN(result.peak_flops, measure_peak(options));
    result.peak_is_measured = true;
  }
  const std::uint64_t before = allocated_bytes();
  PHUB_ASSIGN_OR_RETURN(const auto network, make_executor(graph, options.executor));
  const std::uint64_t after = allocated_bytes();
  if (network->parameters().empty()) {
    return Status(Code::kInvalidArgument, "the model has no parameters: there is nothing to train");
  }
  PHUB_ASSIGN_OR_RETURN(const auto exchange, factory(keys_of(*network)));
  PHUB_RETURN_IF_ERROR(prepare(*network, *exchange, options.seed));
  const NoiseBatch batch(*network, options.seed);
  Recorder recorder(graph, *exchange);
  PHUB_CHECK(network->observe(&recorder), "a CPU's executor has layers");
  std::vector<std::size_t> starts;
  std::vector<double> step_seconds;
  for (std::uint32_t index = 1; index <= options.warm_up + options.steps; ++index) {
    if (index == options.warm_up + 1) recorder.restart();
    if (index > options.warm_up) starts.push_back(recorder.spans().size());
    const auto start = Clock::now();
    PHUB_RETURN_IF_ERROR(step(*network, *exchange, batch, recorder, index));
    if (index > options.warm_up) {
      step_seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    on_step(index);
  }
  starts.push_back(recorder.spans().size());
  for (KeyId key = 0; key < network->parameters().size(); ++key) {
    PHUB_RETURN_IF_ERROR(exchange->wait(key));
  }
  result.spans = recorder.spans();
  result.step = median(step_seconds);
  add_times(starts, result);
  // A convolution's algorithm may do better than the product, and then the product is no peak.
  if (result.peak_is_measured) {
    result.peak_flops = std::max(result.peak_flops, fastest_pass(result.layers));
  }
  result.memory = memory_of(*network, *exchange, after > before ? after - before : 0);
  PHUB_ASSIGN_OR_RETURN(const auto buffers, network->read_buffers());
  for (const nn::StateBuffer& buffer : buffers) {
    result.memory.weights += buffer.values.size_bytes();
  }
  return result;
}

}  // namespace phub::train
