// What a worker pushes of its gradients: the books of error feedback, the chunks' places, and what
// feedback is good for.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "tests/unit/train/compress/compressing_worker.h"

namespace phub::compress {
namespace {

TEST_CASE("what was sent and what is kept back are the sum of the gradients, exactly") {
  for (const Selector selector : {Selector::kExact, Selector::kHistogram, Selector::kThresholds}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {  // which rounds sums
      std::mt19937 random(41);
      Worker worker({10'000, 3'000}, type,
                    {.encoding = Encoding::kSparse,
                     .density = 0.01F,
                     .dense_below = 1,
                     .selector = selector});
      std::vector<std::vector<float>> gradients = {std::vector<float>(10'000),
                                                   std::vector<float>(3'000)};
      for (int round = 0; round < 20; ++round) {
        for (KeyId key = 0; key < 2; ++key) {
          const auto gradient = whole_numbers(gradients[key].size(), random);
          for (std::size_t i = 0; i < gradient.size(); ++i) gradients[key][i] += gradient[i];
          worker.push(key, gradient);
          const auto rest = worker.compressor->rest(key);
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            REQUIRE(worker.sums[key][i] + rest[i] == gradients[key][i]);
          }
        }
      }
    }
  }
}

TEST_CASE("in few bits what was sent and what is kept back are the sum too, to fp32's rounding") {
  for (const Encoding encoding : {Encoding::kInt8, Encoding::kInt4}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      std::mt19937 random(47);
      Worker worker({10'000}, type, {.encoding = encoding});
      std::vector<float> gradients(10'000);
      for (int round = 0; round < 20; ++round) {
        const auto gradient = whole_numbers(gradients.size(), random);
        for (std::size_t i = 0; i < gradient.size(); ++i) gradients[i] += gradient[i];
        const std::uint64_t bytes = worker.push(0, gradient);
        CHECK(bytes < gradient.size() * (encoding == Encoding::kInt8 ? 9 : 5) / 8 + 400);
        const auto rest = worker.compressor->rest(0);
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          REQUIRE(std::abs(worker.sums[0][i] + rest[i] - gradients[i]) < 0.01F);
          REQUIRE(std::abs(rest[i]) < (encoding == Encoding::kInt8 ? 1.0F : 20.0F));
        }
      }
    }
  }
}

TEST_CASE("as many elements are pushed as the density says, in a few bytes of the gradient's") {
  std::mt19937 random(42);
  Worker worker({100'000}, DataType::kFloat32, {.encoding = Encoding::kSparse, .density = 0.01F});
  const std::uint64_t bytes = worker.push(0, whole_numbers(100'000, random));
  CHECK(count_of(worker.pushed[0]) == 1000);
  CHECK(bytes < 100'000 * 4 / 40);
}

TEST_CASE("small keys are pushed whole, and so are those that share a chunk") {
  std::mt19937 random(43);
  Worker worker({200, 10, 100'000}, DataType::kFloat32,
                {.encoding = Encoding::kSparse, .density = 0.01F, .dense_below = 100});
  CHECK(worker.compressor->is_dense(0));
  CHECK(worker.compressor->is_dense(1));
  CHECK_FALSE(worker.compressor->is_dense(2));
  const auto gradient = whole_numbers(200, random);
  worker.push(0, gradient);
  CHECK(worker.pushed[0] == gradient);
  CHECK(Worker({5000}, DataType::kFloat32,
               {.encoding = Encoding::kSparse, .density = 0.01F, .dense_below = 5001})
            .compressor->is_dense(0));
}

TEST_CASE("a chunk that would not be smaller sparse goes whole, with all that was kept back") {
  std::mt19937 random(44);
  Worker worker({3000}, DataType::kFloat32,
                {.encoding = Encoding::kSparse, .density = 0.3F, .dense_below = 1});
  const std::uint32_t first = worker.plan.chunks[0].elements;  // has all that is large
  REQUIRE(first > 900);
  std::vector<float> gradient = whole_numbers(3000, random);
  for (std::size_t i = 0; i < first; ++i) gradient[i] += gradient[i] < 0 ? -1000.0F : 1000.0F;
  worker.push(0, gradient);
  CHECK(worker.compressor->push_bytes()[0] == first * sizeof(float));
  CHECK(worker.compressor->push_bytes()[1] == wire::sparse_bytes(0, DataType::kFloat32));
  for (std::size_t i = 0; i < 3000; ++i) {
    REQUIRE(worker.pushed[0][i] == (i < first ? gradient[i] : 0.0F));
  }
  for (std::size_t i = 0; i < first; ++i) REQUIRE(worker.compressor->rest(0)[i] == 0.0F);
}

TEST_CASE("without feedback what is not pushed is lost") {
  Worker worker({2048}, DataType::kFloat32,
                {.encoding = Encoding::kSparse,
                 .density = 1.0F / 2048,
                 .dense_below = 1,
                 .error_feedback = false});
  std::vector<float> gradient(2048, 1.0F);
  gradient[7] = 2.0F;
  for (int round = 0; round < 3; ++round) worker.push(0, gradient);
  CHECK(worker.sums[0][7] == 6.0F);
  CHECK(count_of(worker.sums[0]) == 1);
}

TEST_CASE("with momentum correction the velocity is sent, and begins anew where it was") {
  Worker worker(
      {2048}, DataType::kFloat32,
      {.encoding = Encoding::kSparse, .density = 1.0F / 2048, .dense_below = 1, .momentum = 0.5F});
  std::vector<float> gradient(2048, 0.0F);
  gradient[3] = 8.0F;
  gradient[5] = 4.0F;
  worker.push(0, gradient);
  CHECK(worker.pushed[0][3] == 8.0F);
  // Of element 5 velocities 4, then 6: together 10; of element 3 the velocity began anew.
  worker.push(0, gradient);
  CHECK(worker.pushed[0][5] == 10.0F);
  CHECK(worker.compressor->rest(0)[3] == 8.0F);
}

TEST_CASE("the density goes down to its own in the rounds of the warm-up") {
  std::mt19937 random(45);
  Worker worker({100'000}, DataType::kFloat32,
                {.encoding = Encoding::kSparse, .density = 0.001F, .warm_up_rounds = 4});
  std::vector<std::size_t> counts;
  for (int round = 0; round < 6; ++round) {
    worker.push(0, whole_numbers(100'000, random));
    counts.push_back(count_of(worker.pushed[0]));
  }
  CHECK(counts.front() == 25'000);
  for (std::size_t round = 1; round < 4; ++round) CHECK(counts[round] * 3 < counts[round - 1]);
  CHECK(counts[4] == 100);
  CHECK(counts[5] == 100);
}

TEST_CASE("what is not finite is pushed at once, and not kept") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {infinity, -infinity, std::nanf(""), 1e30F}) {
    Worker worker({2048}, DataType::kFloat16,
                  {.encoding = Encoding::kSparse, .density = 0.001F, .dense_below = 1});
    std::vector<float> gradient(2048, 1.0F);
    gradient[100] = wrong;
    worker.push(0, gradient);
    CHECK_FALSE(std::isfinite(worker.pushed[0][100]));
    gradient[100] = 1.0F;
    worker.push(0, gradient);
    for (const float value : worker.pushed[0]) REQUIRE(std::isfinite(value));
  }
}

// f(w) = 1/2 sum of a_i (w_i - 1)^2 with noise, by gradient descent on what is pushed.
double distance_after(const CompressOptions& options) {
  constexpr std::size_t kElements = 4096;
  std::mt19937 random(46);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  Worker worker({kElements}, DataType::kFloat32, options);
  std::vector<float> weights(kElements, 0.0F);
  std::vector<float> gradient(kElements);
  for (int round = 0; round < 2000; ++round) {
    for (std::size_t i = 0; i < kElements; ++i) {
      // Of some the gradients are loud, whatever the weights are.
      const float noise = i % 16 == 0 ? 4.0F * normal(random) : 0.0F;
      gradient[i] = (weights[i] - 1.0F) + noise;
    }
    worker.push(0, gradient);
    for (std::size_t i = 0; i < kElements; ++i) weights[i] -= 0.01F * worker.pushed[0][i];
  }
  double sum = 0.0;
  for (const float weight : weights) sum += std::pow(static_cast<double>(weight) - 1.0, 2);
  return std::sqrt(sum / kElements);
}

TEST_CASE("a quadratic converges with feedback, and without it only where gradients are loud") {
  const double with =
      distance_after({.encoding = Encoding::kSparse, .density = 0.01F, .dense_below = 1});
  const double without = distance_after(
      {.encoding = Encoding::kSparse, .density = 0.01F, .dense_below = 1, .error_feedback = false});
  CAPTURE(with, without);
  CHECK(with < 0.2);
  CHECK(without > 0.9);
}

}  // namespace
}  // namespace phub::compress
