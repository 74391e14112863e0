// Several host runtimes as a group of GPUs, beside oneDNN: one network for each GPU, with its part
// of the batch, or one with all of it.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/executor/executor_rig.h"
#include "tests/cuda/support/host_collectives.h"
#include "worker/cuda/group/gpu_group.h"

namespace phub::nn::cuda::testing {

using phub::testing::HostCollectives;
using phub::testing::HostMachine;
using phub::testing::MemoryRanges;

// Numbers of GPUs that are not their ranks.
inline std::uint32_t device_of(std::size_t rank) { return static_cast<std::uint32_t>(rank) + 4; }

struct GroupOptions {
  std::size_t gpus = 2;
  std::uint32_t batch = 2;  // of each
  bool whole = false;       // the oracle is one network
  HostRuntime::Options runtime = {};
  HostCollectives::Options collectives = {};
  bool capture = true;
  bool fuse = true;
  std::size_t segments = 4, parts = 4;
  std::chrono::milliseconds timeout{60'000};
};

// Only takes losses.
struct Listener : Hooks {
  Status weights_needed(const KeyRange&) override { return {}; }
  Status loss_known(const Loss& known) override {
    loss = known;
    return {};
  }
  Status grad_ready(const KeyRange&) override { return {}; }
  Loss loss;
};

class GroupRig {
 public:
  GroupRig(const Graph& graph, const GroupOptions& options) : options_(options) {
    const auto machine = std::make_shared<HostMachine>(options.runtime.seed);
    std::vector<GpuRank> gpus;
    for (std::size_t rank = 0; rank < options.gpus; ++rank) {
      auto made = std::make_unique<HostRuntime>(options.runtime, machine);
      runtimes.push_back(made.get());
      auto lowered = require(lower(graph, {.batch = options.batch, .fuse = options.fuse}));
      auto runner = std::make_unique<HostRunner>(*made, std::move(lowered));
      gpus.push_back(
          {device_of(rank), require(DevicePasses::create(graph, std::move(made), std::move(runner),
                                                         {.batch = options.batch,
                                                          .capture = options.capture,
                                                          .segments = options.segments,
                                                          .note = note()}))});
    }
    auto made = std::make_unique<HostCollectives>(runtimes, machine, options.collectives);
    collectives = made.get();
    group = require(
        GpuGroup::create(std::move(gpus), std::move(made),
                         {.timeout = options.timeout, .parts = options.parts, .note = note()}));
    own = std::make_unique<Descent>(group->parameters(), 5);
    oracle = std::make_unique<Descent>(group->parameters(), 5);
    make_networks(graph);
  }

  void new_batch(unsigned seed, std::size_t missing_labels = 0, bool is_mixed = false) {
    std::mt19937 random(seed);
    std::vector<float> images(group->input_elements());
    for (float& pixel : images) pixel = 2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F - 1.0F;
    const std::size_t classes = group->output_elements() / group->batch();
    RandomLabels labels(random, group->batch(), classes, is_mixed);
    const Labels known = labels.all().part(0, group->batch() - missing_labels);
    group->set_noise(seed);
    require(group->load(images, known));
    const std::size_t pixels = images.size() / networks.size();
    const std::size_t part = group->batch() / networks.size();
    for (std::size_t i = 0; i < networks.size(); ++i) {
      networks[i]->set_noise(noise_of(seed, i));
      require(networks[i]->load(std::span<const float>(images).subspan(i * pixels, pixels),
                                known.part(i * part, part)));
    }
    // What they were given may go.
    std::fill(images.begin(), images.end(), NAN);
    labels.forget();
  }

  Status try_step(const LossOptions& options = {}) {
    own->needed.clear();
    own->told.clear();
    PHUB_RETURN_IF_ERROR(group->forward(Mode::kTraining, *own));
    PHUB_RETURN_IF_ERROR(group->start_loss(options));
    return group->backward(*own);
  }

  // The mean over all images, and its step of descent; `updates`: as soon as it is known.
  void oracle_step(LossOptions options, bool updates = true) {
    options.gradient_scale /= static_cast<double>(networks.size());
    for (auto& gradient : oracle->gradients) std::fill(gradient.begin(), gradient.end(), 0.0F);
    oracle->loss = {};
    for (std::size_t i = 0; i < networks.size(); ++i) {
      Listener listener;
      require(networks[i]->forward(Mode::kTraining, listener));
      require(networks[i]->start_loss(options));
      require(networks[i]->backward(listener));
      oracle->loss.sum += listener.loss.sum;
      oracle->loss.correct += listener.loss.correct;
      for (std::size_t key = 0; key < oracle->gradients.size(); ++key) {
        for (std::size_t e = 0; e < oracle->gradients[key].size(); ++e) {
          oracle->gradients[key][e] += gradients_[i][key][e];
        }
      }
    }
    const KeyRange all{0, static_cast<std::uint32_t>(oracle->gradients.size())};
    if (updates) require(oracle->grad_ready(all));
  }

  void step(const LossOptions& options = {}) {
    require(try_step(options));
    oracle_step(options);
  }

  void check_equal(double tolerance = 2e-3) {
    CHECK(own->loss.sum == Approx(oracle->loss.sum).epsilon(1e-4));
    CHECK(own->loss.correct == oracle->loss.correct);
    for (std::size_t key = 0; key < own->gradients.size(); ++key) {
      INFO(group->parameters()[key].name);
      CHECK(distance(own->gradients[key], oracle->gradients[key]) < tolerance);
      CHECK(distance(own->parameters[key], oracle->parameters[key]) < tolerance);
    }
  }

  // The statistics are the first GPU's.
  void check_buffers(double tolerance = 2e-3) {
    const auto mine = require(group->read_buffers());
    const auto theirs = require(networks.front()->read_buffers());
    REQUIRE(mine.size() == theirs.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      CHECK(mine[i].name == theirs[i].name);
      CHECK(distance(mine[i].values, theirs[i].values) < tolerance);
    }
  }

  std::vector<std::string> notes;
  std::vector<HostRuntime*> runtimes;
  HostCollectives* collectives = nullptr;
  std::unique_ptr<Descent> own, oracle;  // their arrays outlive who is bound to them
  std::unique_ptr<GpuGroup> group;
  std::vector<std::unique_ptr<Network>> networks;

 private:
  std::function<void(std::string_view)> note() {
    return [this](std::string_view text) { notes.emplace_back(text); };
  }

  void make_networks(const Graph& graph) {
    const std::size_t count = options_.whole ? 1 : options_.gpus;
    const auto batch = static_cast<std::uint32_t>(options_.batch * options_.gpus / count);
    for (std::size_t i = 0; i < count; ++i) {
      networks.push_back(
          require(Network::create(graph, require(make_onednn_backend({})), {.batch = batch})));
    }
    gradients_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Binding> bindings;
      for (const auto& parameter : oracle->parameters) gradients_[i].emplace_back(parameter.size());
      for (std::size_t key = 0; key < oracle->parameters.size(); ++key) {
        bindings.push_back({oracle->parameters[key], gradients_[i][key]});
      }
      require(networks[i]->bind(bindings));
    }
  }

  GroupOptions options_;
  std::vector<std::vector<std::vector<float>>> gradients_;  // by network, then key
};

// Nothing in it looks at more than one image, so that a batch is the sum of its parts; all sizes
// are odd.
inline Graph image_by_image() {
  Graph graph({.channels = 3, .height = 9, .width = 7});
  const Window window{.kernel = 3, .padding = 1};
  TensorId x = graph.add("conv1", Convolution{.channels = 5, .window = window}, {0});
  x = graph.add("relu1", Relu{}, {x});
  x = graph.add("pool", Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}, true}, {x});
  x = graph.add("conv2", Convolution{.channels = 7, .window = window}, {x});
  x = graph.add("relu2", Relu{}, {x});
  x = graph.add("fc1", InnerProduct{.outputs = 11}, {x});
  x = graph.add("relu3", Relu{}, {x});
  graph.add("fc2", InnerProduct{.outputs = 5}, {x});
  return graph;
}

}  // namespace phub::nn::cuda::testing
