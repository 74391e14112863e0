// What an encoding makes of a model's keys, in bytes.
#include "worker/compress/encoder_figures.h"

#include <catch2/catch.hpp>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"

namespace phub::compress {
namespace {

constexpr std::uint64_t kLarge = 10'000;
constexpr std::uint64_t kSmall = 100;

EncoderFigures figures_of(const CompressOptions& options, DataType type, std::uint32_t workers) {
  const Plan plan = *make_plan({.key_elements = {kLarge, kSmall},
                                .wire_type = type,
                                .chunk_bytes = 4096,
                                .cores_per_server = {1}});
  const std::vector<KeySpec> keys = {{.name = "large", .elements = kLarge},
                                     {.name = "small", .elements = kSmall}};
  const EncoderFigures figures = measure_encoder(plan, keys, type, options, workers);
  CHECK(figures.dense_bytes == (kLarge + kSmall) * size_of(type));
  CHECK(figures.dense_bytes == dense_bytes(plan, type));
  CHECK(figures.encode_seconds >= 0.0);
  CHECK(figures.add_seconds > 0.0);
  return figures;
}

TEST_CASE("whole gradients have all bytes, there and back, and no encoder") {
  const EncoderFigures figures = figures_of({}, DataType::kBfloat16, 4);
  CHECK(figures.push_bytes == figures.dense_bytes);
  CHECK(figures.sparse_reply_bytes == figures.dense_bytes);
  CHECK(figures.encode_seconds == 0.0);
}

TEST_CASE("of sparse pushes a reply has what all workers push, and at most all") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    CompressOptions options{.encoding = Encoding::kSparse, .density = 0.01F, .warm_up_rounds = 50};
    const std::uint64_t chunks = type == DataType::kFloat32 ? 10 : 5;  // of the large key
    const std::uint64_t element = sizeof(std::uint32_t) + size_of(type);
    const std::uint64_t small = kSmall * size_of(type);
    const EncoderFigures figures = figures_of(options, type, 3);
    CHECK(figures.push_bytes == chunks * 4 + 100 * element + small);
    CHECK(figures.sparse_reply_bytes == chunks * 4 + 3 * 100 * element + small);
    CHECK(figures_of(options, type, 1000).sparse_reply_bytes == figures.dense_bytes);
  }
}

TEST_CASE("in few bits pushes are smaller and replies are whole") {
  for (const Encoding encoding : {Encoding::kInt8, Encoding::kInt4}) {
    const EncoderFigures figures = figures_of({.encoding = encoding}, DataType::kFloat32, 3);
    const double share = static_cast<double>(figures.push_bytes) / (4.0 * kLarge);
    CHECK(share < (encoding == Encoding::kInt8 ? 0.29 : 0.16));
    CHECK(share > (encoding == Encoding::kInt8 ? 0.25 : 0.125));
    CHECK(figures.sparse_reply_bytes == figures.dense_bytes);
  }
}

}  // namespace
}  // namespace phub::compress
