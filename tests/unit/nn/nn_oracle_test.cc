// oneDNN's models against the reference's in fp64, on small images.
#include "tests/unit/nn/nn_run.h"
#include "worker/nn/onednn/backend.h"

namespace phub::nn {
namespace {

// What is not deep, and has no normalisation over few pixels, loses two digits of fp32's seven.
constexpr Tolerance kShallow{.output = 1e-5, .gradient = 2e-5};
// Normalisations over 16 pixels of a small image make rounding errors larger from layer to layer,
// and where a sum's sign changes with them, a ReLU lets another gradient through. The reference in
// fp32 is up to 0.02 from the reference in fp64 here, oneDNN 0.07 (both with Inception-v3).
// nn_reference_test compares each layer kind to six digits.
constexpr Tolerance kDeep{.output = 1e-3, .gradient = 0.15};

TEST_CASE("oneDNN's models are the reference's in fp64 but for rounding") {
  for (const GraphCase& each : small_models()) {
    const bool shallow = each.name == "lenet" || each.name == "fcn5" || each.name == "alexnet" ||
                         each.name == "vgg11" || each.name == "resnet20";
    auto backend = make_onednn_backend({});
    REQUIRE(backend);
    compare_with_fp64(each, std::move(*backend), shallow ? kShallow : kDeep);
  }
}

TEST_CASE(
    "Normalisations and sums on several threads are the reference's in fp64 but for rounding") {
  const Shape image{17, 29, 31};  // 15,283 elements
  for (const GraphCase& each : {normalised_sum_case(image, true), plain_sum_case(image, false),
                                plain_sum_case(image, true)}) {
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      CAPTURE(threads);
      auto backend = make_onednn_backend({.threads = threads});
      REQUIRE(backend);
      compare_with_fp64(each, std::move(*backend), {.output = 2e-6, .gradient = 4e-6});
    }
  }
}

}  // namespace
}  // namespace phub::nn
