// Networks for images of another size.
#include <catch2/catch.hpp>
#include <string>

#include "worker/nn/graph/resize.h"
#include "worker/nn/models/models.h"

namespace phub::nn {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a network that ends with a global average has the same parameters for each size") {
  const char* const model = GENERATE("resnet18", "resnet50", "googlenet", "inception_v3");
  const Graph full = *make_model(model);
  const auto small = resize(full, 160);
  REQUIRE(small);
  CHECK(*small == *make_model(model, {.image = Shape{3, 160, 160}}));
  REQUIRE(small->layers().size() == full.layers().size());
  for (std::size_t i = 0; i < full.layers().size(); ++i) {
    CHECK(small->layers()[i].parameters == full.layers()[i].parameters);
  }
  CHECK(*resize(*small, full.input_shape().height) == full);
}

TEST_CASE("what a layer was made with stays") {
  const Graph full = *make_model("resnet18", {.classes = 7, .zero_gamma = true});
  const auto small = resize(full, 96);
  REQUIRE(small);
  CHECK(*small ==
        *make_model("resnet18", {.classes = 7, .image = Shape{3, 96, 96}, .zero_gamma = true}));
}

TEST_CASE("a network that takes images of one size is refused by its layer, with the cure") {
  const auto alexnet = resize(*make_model("alexnet"), 128);
  REQUIRE_FALSE(alexnet);
  CHECK_THAT(alexnet.error().message(),
             Contains("layer \"") && Contains("has parameters for images of 224 x 224 pixels") &&
                 Contains("128 x 128") && Contains("put a global_average_pool in front of it"));
}

TEST_CASE("images that a layer is too large for are refused by its name") {
  Graph graph({.channels = 3, .height = 32, .width = 32});
  graph.add("pool", Pool{.window = {.kernel = 16}}, {0});
  graph.add("all", GlobalAveragePool{}, {1});
  CHECK(resize(graph, 16));
  const auto small = resize(graph, 8);
  REQUIRE_FALSE(small);
  CHECK_THAT(small.error().message(), Contains("images of 8 x 8 pixels: layer \"pool\": "));
}

}  // namespace
}  // namespace phub::nn
