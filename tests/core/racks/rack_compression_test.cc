// What a rack's server sends and keeps back of a sum: together they are the sum.
#include "server/chunks/racks/rack_compression.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/main/catch.h"

namespace phub {
namespace {

using server::JobLayout;
using server::RackCompression;

constexpr std::uint32_t kSumElements = 1024;

JobLayout layout_of(const RackCompress& compress) {
  JobLayout layout;
  layout.plan = std::make_shared<const Plan>(
      std::move(*make_plan({.key_elements = {kSumElements, 8, 8, 2 * kSumElements},
                            .wire_type = DataType::kFloat32,
                            .chunk_bytes = 4096,
                            .cores_per_server = {1}})));
  layout.rack_compress = compress;
  return layout;
}

// Racks, and the places where they leave what travels.
struct PlacedRacks {
  explicit PlacedRacks(const RackCompress& compress)
      : places(of(memory, *layout_of(compress).plan)), racks(layout_of(compress), 0, places) {}

  static std::vector<std::byte*> of(std::vector<std::vector<std::byte>>& memory, const Plan& plan) {
    std::vector<std::byte*> places;
    for (const std::uint32_t id : plan.core_chunks[0][0]) {
      memory.emplace_back(sizeof(Hyper) + plan.chunks[id].elements * sizeof(float));
    }
    for (auto& each : memory) places.push_back(each.data());
    return places;
  }

  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> places;
  RackCompression racks;
};

std::vector<float> sum_noise(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kSumElements);
  for (float& value : values) value = normal(random);
  return values;
}

std::size_t sent_of(const std::vector<float>& sum) {
  return kSumElements - static_cast<std::size_t>(std::count(sum.begin(), sum.end(), 0.0F));
}

}  // namespace

TEST_CASE("what goes up and what is kept back are the sum, with what was kept back", "[racks]") {
  const auto selector = GENERATE(Selector::kExact, Selector::kHistogram, Selector::kThresholds);
  PlacedRacks placed({.density = 0.05F, .dense_below = 1, .selector = selector});
  RackCompression& racks = placed.racks;
  std::vector<float> rest = sum_noise(1);
  const std::vector<float> before = rest;
  std::vector<float> sum = sum_noise(2);
  const std::vector<float> pushed = sum;
  racks.keep_back(sum, rest, rest, 7);
  CHECK(sent_of(sum) == 51);
  for (std::size_t i = 0; i < kSumElements; ++i) {
    REQUIRE((sum[i] == 0.0F || rest[i] == 0.0F));
    REQUIRE(sum[i] + rest[i] == pushed[i] + before[i]);
  }
}

TEST_CASE("at least one element goes up, and all where the density is 1", "[racks]") {
  std::vector<float> rest(kSumElements);
  std::vector<float> sum = sum_noise(3);
  PlacedRacks({.density = 1e-6F, .dense_below = 1}).racks.keep_back(sum, rest, rest, 0);
  CHECK(sent_of(sum) == 1);
  sum = sum_noise(4);
  std::fill(rest.begin(), rest.end(), 0.0F);
  PlacedRacks({.density = 1.0F, .dense_below = 1}).racks.keep_back(sum, rest, rest, 0);
  CHECK(sum == sum_noise(4));
  CHECK(rest == std::vector<float>(kSumElements));
}

TEST_CASE("what is not finite goes up and is never kept back", "[racks]") {
  PlacedRacks placed({.density = 0.01F, .dense_below = 1});
  RackCompression& racks = placed.racks;
  std::vector<float> rest(kSumElements);
  std::vector<float> sum = sum_noise(5);
  for (std::size_t i = 0; i < 50; ++i) sum[i] = std::numeric_limits<float>::quiet_NaN();
  racks.keep_back(sum, rest, rest, 0);
  CHECK(std::isnan(sum[0]));
  for (const float value : rest) REQUIRE(std::isfinite(value));
  sum = sum_noise(6);
  racks.keep_back(sum, rest, rest, 1);
  for (const float value : sum) REQUIRE(std::isfinite(value));
}

TEST_CASE("small keys and those that share a chunk go whole", "[racks]") {
  const auto dense_below = GENERATE(1U, 1025U);
  PlacedRacks placed({.density = 0.01F, .dense_below = dense_below});
  RackCompression& racks = placed.racks;
  const JobLayout layout = layout_of({});
  for (std::uint32_t slot = 0; slot < layout.plan->chunks.size(); ++slot) {
    const Chunk& chunk = layout.plan->chunks[slot];
    const bool is_large = layout.plan->segments[chunk.first_segment].key == 3 || dense_below == 1;
    CHECK(racks.keeps_back(slot) == (chunk.segment_count == 1 && is_large));
  }
}

TEST_CASE("sums travel by their zeros, with every bit", "[racks]") {
  PlacedRacks placed({.density = 0.01F});
  RackCompression& racks = placed.racks;
  for (const std::size_t count : {0U, 1U, 3U, 17U, 511U, 512U, 1024U}) {
    std::vector<float> sum(kSumElements);
    for (std::size_t i = 0; i < count; ++i)
      sum[(i * 613) % kSumElements] = 1.0F + 0.1F * static_cast<float>(i);
    if (count == 3) sum[1000] = -0.0F;
    racks.write_up(0, sum);
    const auto up = racks.outgoing(0);
    CHECK((up.size() == kSumElements * sizeof(float)) == (count >= 512));
    CHECK(RackCompression::may_be(up.size(), kSumElements));
    std::vector<float> read(kSumElements, 9.0F);
    REQUIRE(RackCompression::read(up, read) == wire::SparseFault::kNone);
    REQUIRE(std::memcmp(read.data(), sum.data(), kSumElements * sizeof(float)) == 0);
    racks.write_down(0, {.learning_rate = 0.5F}, sum);
    CHECK(racks.outgoing(0).size() == sizeof(Hyper) + up.size());
  }
}

}  // namespace phub
