// What evaluation says of a data set, against what is counted by hand.
#include "worker/train/evaluation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "worker/data/dataset.h"
#include "worker/train/backends.h"

namespace phub::train {
namespace {

class Nothing : public nn::Hooks {
 public:
  Status weights_needed(const nn::KeyRange&) override { return {}; }
  Status grad_ready(const nn::KeyRange&) override { return {}; }
};

// One pixel, normalised to (byte / 255 - 0.5) / 0.5: bright ones are of class 1.
data::Dataset pixels(const std::vector<std::uint8_t>& bytes,
                     const std::vector<std::uint16_t>& labels) {
  return {.facts = {.channels = 1,
                    .height = 1,
                    .width = 1,
                    .classes = 2,
                    .mean = {0.5F},
                    .deviation = {0.5F}},
          .pixels = bytes,
          .labels = labels};
}

TEST_CASE("Images that fill no whole batch count once each") {
  // Logits are -x and x, so bright pixels are taken for class 1. Of seven images the second, the
  // fourth and the last have the other's label; the last fills up the last batch, and counts once.
  const data::Dataset dataset = pixels({255, 204, 0, 51, 153, 102, 255}, {1, 0, 0, 1, 1, 0, 0});
  double loss = 0.0;
  std::vector<double> losses;
  for (std::size_t i = 0; i < dataset.images(); ++i) {
    const double x = (dataset.pixels[i] / 255.0 - 0.5) / 0.5;
    const double right = dataset.labels[i] == 1 ? x : -x;
    losses.push_back(std::log(1.0 + std::exp(-2.0 * right)));
    loss += losses.back();
  }
  const BackendKind backend = GENERATE(BackendKind::kOnednn, BackendKind::kReference);
  for (const std::uint32_t batch : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 20U}) {
    INFO("batch " << batch);
    nn::Graph graph({.channels = 1, .height = 1, .width = 1});
    graph.add("fc", nn::InnerProduct{.outputs = 2}, {0});
    const auto network = make_executor(graph, {.backend = backend, .batch = batch});
    REQUIRE(network);
    const std::vector<float> weights = {-1.0F, 1.0F}, biases = {0.0F, 0.0F};
    std::vector<float> gradients(2), bias_gradients(2);
    const std::vector<nn::Binding> bindings = {{weights, gradients}, {biases, bias_gradients}};
    REQUIRE((*network)->bind(bindings).ok());
    Nothing hooks;
    std::size_t rows = 0;
    double done = 0.0;
    const auto evaluation = evaluate(**network, *data::images_of(dataset), {}, hooks,
                                     [&](std::span<const float> logits, double share) {
                                       rows += logits.size() / 2;
                                       done = share;
                                     });
    REQUIRE(evaluation);
    CHECK(evaluation->images == 7);
    CHECK(rows == 7);
    CHECK(done == 1.0);
    CHECK(evaluation->top1 == 4.0 / 7.0);
    CHECK(evaluation->loss == Approx(loss / 7.0).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace phub::train
