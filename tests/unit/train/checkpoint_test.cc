#include "worker/train/checkpoints/checkpoint.h"

#include <catch2/catch.hpp>

#include "common/tensors/safetensors.h"
#include "tests/support/temporary_directory.h"
#include "worker/nn/models/models.h"
#include "worker/nn/network.h"
#include "worker/nn/onednn/backend.h"

namespace phub::train {
namespace {

std::string with_header(const std::string& header, const std::string& data) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

// A network of a model with an exchange, bound to each other.
struct Bound {
  explicit Bound(const std::string& model, RuleKind rule = RuleKind::kSgd) {
    backend = std::move(*nn::make_onednn_backend({}));
    network = std::move(
        *nn::Network::create(*nn::make_model(model, {.classes = 10}), *backend, {.batch = 1}));
    std::vector<KeySpec> keys;
    for (const nn::ParameterSpec& spec : network->parameters()) {
      keys.push_back({.name = spec.name, .elements = spec.elements()});
    }
    exchange = make_local_exchange(keys, rule);
  }

  std::unique_ptr<nn::Backend> backend;
  std::unique_ptr<nn::Network> network;
  std::unique_ptr<GradientExchange> exchange;
};

TEST_CASE("A checkpoint restores parameters, running statistics and the position") {
  const TemporaryDirectory directory;
  const auto path = directory.path / "m.safetensors";
  Bound written("resnet20");
  float next = 0.0F;
  for (KeyId key = 0; key < written.network->parameters().size(); ++key) {
    for (float& value : written.exchange->gradient(key)) value = next += 0.25F;
  }
  REQUIRE(written.exchange->initialise().ok());
  for (const nn::StateBuffer& buffer : written.network->buffers()) {
    for (float& value : buffer.values) value = next += 0.25F;
  }
  REQUIRE(save_checkpoint(path, *written.network, *written.exchange, {"resnet20", 7, 99}).ok());

  Bound read("resnet20");
  const auto position = load_checkpoint(path, *read.network, *read.exchange);
  REQUIRE(position);
  REQUIRE(position->model == "resnet20");
  REQUIRE(position->seed == 7);
  REQUIRE(position->next_step == 99);
  for (KeyId key = 0; key < read.network->parameters().size(); ++key) {
    const auto from = written.exchange->parameter(key);
    REQUIRE(std::equal(from.begin(), from.end(), read.exchange->gradient(key).begin()));
  }
  REQUIRE(read.network->buffers().size() == 38);  // 19 layers, 2 each
  for (std::size_t i = 0; i < 38; ++i) {
    const auto from = written.network->buffers()[i].values;
    REQUIRE(std::equal(from.begin(), from.end(), read.network->buffers()[i].values.begin()));
  }

  Bound other("lenet");
  const auto refused = load_checkpoint(path, *other.network, *other.exchange);
  REQUIRE_FALSE(refused);
  REQUIRE(refused.error().message().find("conv1") != std::string::npos);
  REQUIRE(refused.error().message().find("another model") != std::string::npos);
}

// Two steps of momentum on every key, with gradients that count up.
void train_a_little(Bound& bound) {
  float next = 0.0F;
  REQUIRE(
      bound.exchange->set_hyper({.learning_rate = 0.25F, .momentum = 0.5F, .gradient_scale = 1.0F})
          .ok());
  for (KeyId key = 0; key < bound.network->parameters().size(); ++key) {
    for (int step = 0; step < 2; ++step) {
      for (float& value : bound.exchange->gradient(key)) value = next += 0.5F;
      REQUIRE(bound.exchange->push(key).ok());
    }
  }
}

TEST_CASE("Adam's means, their squares and their number are beside the checkpoint") {
  const TemporaryDirectory directory;
  const auto path = directory.path / "m.safetensors";
  Bound written("lenet", RuleKind::kAdam);
  REQUIRE(written.exchange->initialise().ok());
  train_a_little(written);
  for (int step = 0; step < 5; ++step) REQUIRE(written.exchange->end_step(1.0F).ok());
  REQUIRE(written.exchange->updates() == 5);
  REQUIRE(save_checkpoint(path, *written.network, *written.exchange, {"lenet", 7, 6}).ok());
  const auto file = read_safetensors(optimizer_path(path, 6));
  REQUIRE(file->find("conv1.weight.exp_avg") != nullptr);
  REQUIRE(file->find("conv1.weight.exp_avg_sq") != nullptr);
  Bound read("lenet", RuleKind::kAdam);
  REQUIRE(load_checkpoint(path, *read.network, *read.exchange));
  REQUIRE(load_optimizer(path, *read.network, *read.exchange, 6).ok());
  REQUIRE(read.exchange->updates() == 5);
  for (KeyId key = 0; key < read.network->parameters().size(); ++key) {
    for (const unsigned array : {0U, 1U}) {
      const auto from = written.exchange->state(key, array);
      REQUIRE(from[0] != 0.0F);
      REQUIRE(std::equal(from.begin(), from.end(), read.exchange->state(key, array).begin()));
    }
  }
  Bound other("lenet", RuleKind::kMomentum);
  REQUIRE(load_checkpoint(path, *other.network, *other.exchange));
  REQUIRE_THAT(load_optimizer(path, *other.network, *other.exchange, 6).message(),
               Catch::Contains("momentum_buffer"));
}

TEST_CASE("Momentum is beside the checkpoint, and comes back") {
  const TemporaryDirectory directory;
  const auto path = directory.path / "m.safetensors";
  Bound written("lenet", RuleKind::kMomentum);
  REQUIRE(written.exchange->initialise().ok());
  train_a_little(written);
  REQUIRE(save_checkpoint(path, *written.network, *written.exchange, {"lenet", 7, 2}).ok());
  REQUIRE(optimizer_path(path, 2) == directory.path / "m.optimizer-2.safetensors");
  Bound read("lenet", RuleKind::kMomentum);
  REQUIRE_THAT(load_optimizer(path, *read.network, *read.exchange, 2).message(),
               Catch::Contains("of another run") && Catch::Contains("train.restart_momentum"));
  REQUIRE(load_checkpoint(path, *read.network, *read.exchange));
  REQUIRE(load_optimizer(path, *read.network, *read.exchange, 2).ok());
  for (KeyId key = 0; key < read.network->parameters().size(); ++key) {
    const auto from = written.exchange->state(key);
    REQUIRE(from[0] != 0.0F);
    REQUIRE(std::equal(from.begin(), from.end(), read.exchange->state(key).begin()));
  }
  // The model's own file has nothing of it.
  REQUIRE(read_safetensors(path)->tensors.size() == read.network->parameters().size());

  // A later one takes its place.
  REQUIRE(save_checkpoint(path, *written.network, *written.exchange, {"lenet", 7, 3}).ok());
  REQUIRE(std::filesystem::exists(optimizer_path(path, 3)));
  REQUIRE_FALSE(std::filesystem::exists(optimizer_path(path, 2)));
  const Status none = load_optimizer(path, *read.network, *read.exchange, 2);
  REQUIRE_THAT(none.message(), Catch::Contains("no momentum beside it") &&
                                   Catch::Contains("train.restart_momentum"));
}

TEST_CASE("PyTorch's counters of batches are read over, other tensors refused") {
  const TemporaryDirectory directory;
  const std::string zeros(8, '\0');
  directory.write(
      "m",
      with_header(R"({"bn1.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})",
                  zeros));
  const auto file = read_safetensors(directory.path / "m");
  REQUIRE(file);
  REQUIRE(file->tensors.empty());
  REQUIRE(file->counters == std::vector<std::string>{"bn1.num_batches_tracked"});

  Bound bound("resnet20");
  const auto path = directory.path / "resnet";
  REQUIRE(save_checkpoint(path, *bound.network, *bound.exchange, {"resnet20", 1, 2}).ok());
  auto more = read_safetensors(path);
  REQUIRE(more);
  more->tensors.push_back({"fc.scale", {1}, {1.0F}});
  REQUIRE(write_safetensors(path, *more).ok());
  const Status unknown = load_model(path, *bound.network, *bound.exchange);
  REQUIRE_THAT(unknown.message(), Catch::Contains("fc.scale that the model does not have"));
}

TEST_CASE("A checkpoint without a position is refused") {
  const TemporaryDirectory directory;
  const auto path = directory.path / "m.safetensors";
  Bound bound("lenet");
  REQUIRE(save_checkpoint(path, *bound.network, *bound.exchange, {"lenet", 1, 2}).ok());
  auto file = read_safetensors(path);
  REQUIRE(file);
  file->metadata["next_step"] = "12x";
  REQUIRE(write_safetensors(path, *file).ok());
  const auto refused = load_checkpoint(path, *bound.network, *bound.exchange);
  REQUIRE_FALSE(refused);
  REQUIRE(refused.error().message().find("next_step") != std::string::npos);
}

}  // namespace
}  // namespace phub::train
