// One worker of a LeNet training on the bundled MNIST images, to be stepped by hand.
//
// Belongs to the thread that makes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/data/dataset.h"
#include "worker/data/feed/order.h"
#include "worker/nn/models/models.h"
#include "worker/nn/network.h"
#include "worker/nn/onednn/backend.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/trainer.h"

namespace phub::train {

// All parameters, key by key.
using Snapshot = std::vector<std::vector<float>>;

inline std::vector<KeySpec> lenet_keys() {
  std::vector<KeySpec> keys;
  const nn::Graph graph = nn::lenet(10);
  for (const nn::Layer& layer : graph.layers()) {
    for (const nn::ParameterSpec& spec : layer.parameters) {
      keys.push_back({.name = spec.name,
                      .elements = spec.elements(),
                      .weight_decay = spec.bias ? 0.0F : 5e-4F});
    }
  }
  return keys;
}

class TrainingWorker {
 public:
  struct Options {
    std::uint32_t batch = 32;
    std::uint32_t workers = 1;
    std::uint32_t worker_index = 0;
  };

  static Result<std::unique_ptr<TrainingWorker>> create(const data::Datasets& data,
                                                        const Options& options,
                                                        GradientExchange& exchange) {
    std::unique_ptr<TrainingWorker> worker(new TrainingWorker(exchange));
    PHUB_ASSIGN_OR_RETURN(worker->backend_, nn::make_onednn_backend({}));
    PHUB_ASSIGN_OR_RETURN(worker->network_, nn::Network::create(nn::lenet(10), *worker->backend_,
                                                                {.batch = options.batch}));
    worker->train_ = data::images_of(data.train);
    worker->test_ = data::images_of(data.test);
    worker->order_ = std::make_unique<data::TrainingOrder>(
        data.train.images(), data::TrainingOptions{.batch = options.batch,
                                                   .workers = options.workers,
                                                   .worker_index = options.worker_index,
                                                   .shift_pixels = 2});
    nn::Network& network = *worker->network_;
    std::vector<nn::Binding> bindings;
    for (KeyId key = 0; key < network.parameters().size(); ++key) {
      bindings.push_back({exchange.parameter(key), exchange.gradient(key)});
      fill_initial(network.parameters()[key], 1, key, exchange.gradient(key));
    }
    PHUB_RETURN_IF_ERROR(network.bind(bindings));
    PHUB_RETURN_IF_ERROR(exchange.initialise());
    worker->trainer_ = std::make_unique<Trainer>(
        TrainerParts{network, exchange, *worker->train_, *worker->order_, *worker->test_},
        TrainerOptions{.schedule = {.learning_rate = 0.02F, .warmup_steps = 10}, .momentum = 0.9F});
    return worker;
  }

  Status step(std::uint64_t index) {
    const auto report = trainer_->step(index);
    return report ? trainer_->wait_all() : report.error();
  }

  Snapshot snapshot() const {
    Snapshot all;
    for (KeyId key = 0; key < network_->parameters().size(); ++key) {
      const auto values = exchange_.parameter(key);
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

 private:
  explicit TrainingWorker(GradientExchange& exchange) : exchange_(exchange) {}

  GradientExchange& exchange_;
  std::unique_ptr<nn::Backend> backend_;
  std::unique_ptr<nn::Network> network_;
  std::unique_ptr<data::Images> train_, test_;
  std::unique_ptr<data::TrainingOrder> order_;
  std::unique_ptr<Trainer> trainer_;
};

// The largest difference of a key's elements, relative to the largest element, over all keys.
inline double relative_difference(const Snapshot& one, const Snapshot& other) {
  double worst = 0.0;
  for (std::size_t key = 0; key < one.size(); ++key) {
    double difference = 0.0;
    double size = 1e-30;
    for (std::size_t i = 0; i < one[key].size(); ++i) {
      difference = std::max(difference, std::abs(double{one[key][i]} - double{other[key][i]}));
      size = std::max(size, std::abs(double{other[key][i]}));
    }
    worst = std::max(worst, difference / size);
  }
  return worst;
}

// What one process with batch `batch` has after each of `steps` steps.
inline Result<std::vector<Snapshot>> train_alone(const data::Datasets& data, std::uint32_t batch,
                                                 std::uint64_t steps) {
  const auto exchange = make_local_exchange(lenet_keys(), RuleKind::kMomentum);
  PHUB_ASSIGN_OR_RETURN(const auto worker,
                        TrainingWorker::create(data, {.batch = batch}, *exchange));
  std::vector<Snapshot> after;
  for (std::uint64_t step = 0; step < steps; ++step) {
    PHUB_RETURN_IF_ERROR(worker->step(step));
    after.push_back(worker->snapshot());
  }
  return after;
}

}  // namespace phub::train
