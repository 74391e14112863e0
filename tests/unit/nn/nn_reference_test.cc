// The reference backend against finite differences in fp64, and the others against it.
#include "tests/unit/nn/nn_run.h"
#include "worker/nn/onednn/backend.h"
#include "worker/nn/reference/backend.h"
#include "worker/nn/reference/tensor.h"

namespace phub::nn {
namespace {

using DoubleTensor = reference::ReferenceTensor<double>;

// Differences upwards and downwards. Where they differ by more than kKink (of the largest gradient
// of the array), there is a kink of a ReLU or a maximum between them; a smaller one that is missed
// shifts their mean by half of that. A curve's bend shifts it by the step's square.
constexpr double kStep = 1e-6;
constexpr double kKink = 1e-5;
constexpr double kStepTolerance = 6e-6;
class DoubleCheck {
 public:
  // Compares up to about `samples` elements of each array.
  explicit DoubleCheck(const GraphCase& graph_case, std::size_t samples = 40)
      : samples_(samples),
        run_(graph_case, make_double_backend()),
        input_(static_cast<DoubleTensor&>(run_.network().input())),
        output_(static_cast<DoubleTensor&>(run_.network().output())) {
    run_.network().input().write_value(run_.input);
  }

  // Differences make no sense at a kink: elements next to one are left out, and are few.
  void check() {
    loss();
    run_.backward();
    const std::vector<double> by_input(input_.gradient().begin(), input_.gradient().end());
    compare("input", input_.value(), by_input);
    for (std::size_t key = 0; key < run_.parameters.size(); ++key) {
      const auto& gradient = run_.gradients[key];
      const std::vector<double> analytic(gradient.begin(), gradient.end());
      compare(run_.network().parameters()[key].name, std::span(run_.parameters[key]), analytic);
    }
    REQUIRE(kinks_ * 20 <= compared_);
  }

 private:
  double loss() {
    run_.forward();
    double sum = 0.0;
    for (std::size_t i = 0; i < output_.elements(); ++i) {
      sum += output_.value()[i] * double{run_.output_weights[i]};
    }
    return sum;
  }

  template <typename T>
  double loss_at(T& value, T other) {
    const T before = value;
    value = other;
    const double result = loss();
    value = before;
    return result;
  }

  template <typename T>
  void compare(const std::string& what, std::span<T> values, const std::vector<double>& analytic) {
    double largest = 0.0;
    for (const double value : analytic) largest = std::max(largest, std::abs(value));
    REQUIRE(largest > 0.0);
    const double centre = loss();
    const std::size_t stride = std::max<std::size_t>(1, values.size() / samples_);
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const T above = static_cast<T>(values[i] + static_cast<T>(kStep));
      const T below = static_cast<T>(values[i] - static_cast<T>(kStep));
      const double up =
          (loss_at(values[i], above) - centre) / static_cast<double>(above - values[i]);
      const double down =
          (centre - loss_at(values[i], below)) / static_cast<double>(values[i] - below);
      ++compared_;
      if (std::abs(up - down) > kKink * largest) {
        ++kinks_;
        continue;
      }
      INFO("gradient by " << what << "[" << i << "]");
      REQUIRE(std::abs((up + down) / 2.0 - analytic[i]) <= kStepTolerance * largest);
    }
  }

  std::size_t samples_;
  NetworkRun run_;
  DoubleTensor& input_;
  DoubleTensor& output_;
  std::size_t compared_ = 0, kinks_ = 0;
};

TEST_CASE("The reference's gradients are the finite differences of fp64, for every layer kind") {
  for (const auto& cases : {window_cases(), other_cases()}) {
    for (const GraphCase& each : cases) {
      INFO(each.name);
      DoubleCheck(each).check();
    }
  }
}

TEST_CASE("The reference's gradients of whole models are the finite differences of fp64") {
  DoubleCheck(model_case("lenet", {1, 28, 28}, 1)).check();
  DoubleCheck(model_case("resnet20", {3, 16, 16}, 2), 4).check();
}

TEST_CASE("The cases have every layer kind") {
  std::vector<bool> seen(std::variant_size_v<LayerKind>);
  for (const auto& cases : {window_cases(), other_cases()}) {
    for (const GraphCase& each : cases) {
      for (const Layer& layer : each.graph.layers()) seen[layer.kind.index()] = true;
    }
  }
  REQUIRE(std::find(seen.begin(), seen.end(), false) == seen.end());
}

std::unique_ptr<Backend> onednn() {
  auto backend = make_onednn_backend({});
  REQUIRE(backend);
  return std::move(*backend);
}

std::unique_ptr<Backend> reference_fp32() {
  auto backend = make_reference_backend({});
  REQUIRE(backend);
  return std::move(*backend);
}

// fp32 rounds to 6e-8; sums of some hundred products lose a digit.
constexpr Tolerance kOneLayer{.output = 2e-6, .gradient = 4e-6};

TEST_CASE("oneDNN's layers are the reference's in fp64 but for rounding") {
  for (const auto& cases : {window_cases(), other_cases()}) {
    for (const GraphCase& each : cases) compare_with_fp64(each, onednn(), kOneLayer);
  }
}

TEST_CASE("The reference's layers in fp32 are those in fp64 but for rounding") {
  for (const auto& cases : {window_cases(), other_cases()}) {
    for (const GraphCase& each : cases) compare_with_fp64(each, reference_fp32(), kOneLayer);
  }
}

TEST_CASE("What the reference backend does not offer is refused by name") {
  const auto half = make_reference_backend({.compute_type = DataType::kFloat16});
  REQUIRE_FALSE(half);
  REQUIRE(half.error().message().find("fp16") != std::string::npos);
  const auto threads = make_reference_backend({.threads = 2});
  REQUIRE_FALSE(threads);
  REQUIRE(threads.error().message().find("train.threads is 2") != std::string::npos);
}

}  // namespace
}  // namespace phub::nn
