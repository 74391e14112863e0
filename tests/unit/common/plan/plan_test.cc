#include "common/plan/plan.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

namespace phub {
namespace {

using Sizes = std::vector<std::uint64_t>;

std::uint64_t bytes_of(const PlanInput& input, std::uint64_t elements) {
  return elements * size_of(input.wire_type);
}

PlanInput random_input(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  PlanInput input;
  input.wire_type =
      std::array{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}[pick(3)];
  input.chunk_bytes = std::array{64U, 128U, 192U, 1024U, 4096U, 32768U, 131072U}[pick(7)];
  const std::uint32_t servers = 1 + pick(4);
  for (std::uint32_t i = 0; i < servers; ++i) input.cores_per_server.push_back(1 + pick(5));
  const std::uint32_t chunk_elements =
      input.chunk_bytes / static_cast<std::uint32_t>(size_of(input.wire_type));
  const std::uint32_t keys = 1 + pick(120);
  for (std::uint32_t i = 0; i < keys; ++i) {
    // Around every bound: a line, a quarter of a chunk, whole chunks.
    const std::uint32_t scale =
        std::array{40U, chunk_elements / 4 + 2, chunk_elements + 2, 9 * chunk_elements}[pick(4)];
    input.key_elements.push_back(1 + pick(scale));
  }
  return input;
}

// Parameter tensors of ResNet-50, convolutions and batch normalisations alike, in forward order.
Sizes resnet50() {
  Sizes sizes = {64 * 3 * 7 * 7, 64, 64};
  std::uint64_t in = 64;
  const std::array<std::uint64_t, 4> blocks = {3, 4, 6, 3};
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::uint64_t width = std::uint64_t{64} << stage;
    for (std::uint64_t block = 0; block < blocks[stage]; ++block) {
      for (const auto& [weights, channels] :
           {std::pair{in * width, width}, std::pair{width * width * 9, width},
            std::pair{width * width * 4, width * 4}}) {
        sizes.insert(sizes.end(), {weights, channels, channels});
      }
      if (block == 0) sizes.insert(sizes.end(), {in * width * 4, width * 4, width * 4});
      in = width * 4;
    }
  }
  sizes.insert(sizes.end(), {2048 * 1000, 1000});
  return sizes;
}

std::vector<std::uint64_t> core_loads(const PlanInput& input, const Plan& plan) {
  std::vector<std::uint64_t> loads;
  for (const auto& server : plan.core_chunks) {
    for (const auto& core : server) {
      std::uint64_t load = 0;
      for (const std::uint32_t id : core) load += bytes_of(input, plan.chunks[id].elements);
      loads.push_back(load);
    }
  }
  return loads;
}

// The least that any placement can reach: the even share, the largest chunk, and, since of the
// k*m + 1 largest chunks some k + 1 share a core, the sum of the k + 1 smallest of those.
double load_lower_bound(const PlanInput& input, const Plan& plan, std::size_t cores) {
  std::vector<double> sizes;
  for (const Chunk& chunk : plan.chunks) {
    sizes.push_back(static_cast<double>(bytes_of(input, chunk.elements)));
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  double bound = std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(cores);
  for (std::size_t k = 0; k * cores < sizes.size(); ++k) {
    const auto last = sizes.begin() + static_cast<std::ptrdiff_t>(k * cores + 1);
    bound = std::max(bound, std::accumulate(last - static_cast<std::ptrdiff_t>(k + 1), last, 0.0));
  }
  return bound;
}

// The optimum by trying every placement.
std::uint64_t optimal_load(const Sizes& sizes, std::vector<std::uint64_t>& loads,
                           std::size_t next) {
  if (next == sizes.size()) return *std::max_element(loads.begin(), loads.end());
  std::uint64_t best = UINT64_MAX;
  for (std::uint64_t& load : loads) {
    load += sizes[next];
    best = std::min(best, optimal_load(sizes, loads, next + 1));
    load -= sizes[next];
    if (load == 0) break;  // empty cores are alike
  }
  return best;
}

void check_layout(const PlanInput& input, const Plan& plan) {
  const std::uint64_t line = kChunkAlignment / size_of(input.wire_type);
  Sizes seen(input.key_elements.size(), 0);
  std::uint64_t end = 0;
  std::size_t next_segment = 0;
  std::uint32_t largest = 0;
  for (const Chunk& chunk : plan.chunks) {
    REQUIRE(chunk.arena_offset % line == 0);
    REQUIRE(chunk.arena_offset >= end);
    REQUIRE(chunk.arena_offset - end < line);
    REQUIRE(bytes_of(input, chunk.elements) <= input.chunk_bytes);
    REQUIRE(chunk.first_segment == next_segment);
    REQUIRE(chunk.segment_count > 0);
    std::uint32_t filled = 0;
    for (std::uint32_t i = 0; i < chunk.segment_count; ++i, ++next_segment) {
      const Segment& segment = plan.segments.at(next_segment);
      REQUIRE(segment.elements > 0);
      REQUIRE(segment.chunk_offset == filled);  // back to back
      REQUIRE(segment.key_offset == seen.at(segment.key));
      // Contiguous: an element's place follows from its key's.
      REQUIRE(plan.key_offset[segment.key] + segment.key_offset ==
              chunk.arena_offset + segment.chunk_offset);
      seen[segment.key] += segment.elements;
      filled += segment.elements;
    }
    REQUIRE(filled == chunk.elements);
    end = chunk.arena_offset + chunk.elements;
    largest = std::max(largest, chunk.elements);
  }
  REQUIRE(next_segment == plan.segments.size());
  REQUIRE(seen == input.key_elements);
  REQUIRE(plan.arena_elements >= end);
  REQUIRE(plan.arena_elements - end < line);
  REQUIRE(plan.arena_elements % line == 0);
  REQUIRE(plan.max_chunk_elements == largest);
}

void check_key_index(const PlanInput& input, const Plan& plan) {
  std::vector<std::vector<std::uint32_t>> holders(input.key_elements.size());
  for (std::uint32_t id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
      holders[plan.segments[chunk.first_segment + i].key].push_back(id);
    }
  }
  REQUIRE(plan.key_offset.size() == holders.size());
  REQUIRE(plan.first_chunk.size() == holders.size());
  REQUIRE(plan.chunk_count.size() == holders.size());
  for (std::size_t key = 0; key < holders.size(); ++key) {
    std::vector<std::uint32_t> expected(plan.chunk_count[key]);
    std::iota(expected.begin(), expected.end(), plan.first_chunk[key]);
    REQUIRE(holders[key] == expected);
    const std::uint64_t bytes = bytes_of(input, input.key_elements[key]);
    const bool small = bytes <= input.chunk_bytes / 4;
    REQUIRE(plan.chunk_count[key] ==
            (small ? 1 : (bytes + input.chunk_bytes - 1) / input.chunk_bytes));
  }
}

void check_slots(const PlanInput& input, const Plan& plan) {
  REQUIRE(plan.core_chunks.size() == input.cores_per_server.size());
  std::size_t placed = 0;
  for (std::uint32_t server = 0; server < plan.core_chunks.size(); ++server) {
    REQUIRE(plan.core_chunks[server].size() == input.cores_per_server[server]);
    for (std::uint32_t core = 0; core < plan.core_chunks[server].size(); ++core) {
      const auto& list = plan.core_chunks[server][core];
      REQUIRE(std::is_sorted(list.begin(), list.end()));
      for (std::uint32_t slot = 0; slot < list.size(); ++slot, ++placed) {
        const Chunk& chunk = plan.chunks.at(list[slot]);
        REQUIRE(chunk.server == server);
        REQUIRE(chunk.core == core);
        REQUIRE(chunk.slot == slot);
      }
    }
  }
  REQUIRE(placed == plan.chunks.size());
}

TEST_CASE("a plan's size is known before it is made") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    const PlanInput input = random_input(seed);
    const PlanSize told = size_of_plan(input);
    const PlanSize made = size_of(make_plan(input).value());
    CHECK(told.chunks == made.chunks);
    CHECK(told.segments == made.segments);
    CHECK(told.keys == made.keys);
  }
}

TEST_CASE("every element lies in exactly one chunk, keys are contiguous and chunks are aligned") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const PlanInput input = random_input(seed);
    const Plan plan = make_plan(input).value();
    check_layout(input, plan);
    check_key_index(input, plan);
    check_slots(input, plan);
  }
}

TEST_CASE("slices of a large key differ by at most a line, and the last takes the remainder") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const PlanInput input = random_input(seed);
    const Plan plan = make_plan(input).value();
    for (std::size_t key = 0; key < input.key_elements.size(); ++key) {
      if (plan.chunk_count[key] < 2) continue;
      const Chunk* slices = &plan.chunks[plan.first_chunk[key]];
      const std::uint32_t count = plan.chunk_count[key];
      for (std::uint32_t i = 0; i + 1 < count; ++i) {
        REQUIRE(bytes_of(input, slices[i].elements) % kChunkAlignment == 0);
        REQUIRE(slices[i].elements >= slices[i + 1].elements);
      }
      REQUIRE(bytes_of(input, slices[0].elements) - bytes_of(input, slices[count - 1].elements) <
              2 * kChunkAlignment);
    }
  }
}

TEST_CASE("small neighbours share a chunk until the next would overflow it") {
  PlanInput input = {.key_elements = {16, 1, 3, 12, 64, 5, 5}, .cores_per_server = {1}};
  input.chunk_bytes = 256;  // 64 elements; up to 16 elements are small
  const Plan plan = make_plan(input).value();
  REQUIRE(plan.chunks.size() == 3);
  CHECK(plan.chunks[0].elements == 32);  // 16 + 1 + 3 + 12: the large neighbour closes it
  CHECK(plan.chunks[1].elements == 64);
  CHECK(plan.chunks[2].elements == 10);
  CHECK(plan.key_offset == Sizes{0, 16, 17, 20, 32, 96, 101});
  CHECK(plan.arena_elements == 112);

  input.key_elements.assign(9, 16);
  const Plan full = make_plan(input).value();
  REQUIRE(full.chunks.size() == 3);
  CHECK(full.chunks[0].segment_count == 4);
  CHECK(full.chunks[1].segment_count == 4);
  CHECK(full.chunks[2].segment_count == 1);
}

TEST_CASE("no core is loaded beyond 4/3 of what any placement must load") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const PlanInput input = random_input(seed);
    const Plan plan = make_plan(input).value();
    const auto loads = core_loads(input, plan);
    CHECK(static_cast<double>(*std::max_element(loads.begin(), loads.end())) <=
          4.0 / 3.0 * load_lower_bound(input, plan, loads.size()) * (1 + 1e-12));
  }
}

TEST_CASE("no core is loaded beyond 4/3 - 1/(3m) of the optimum found by exhaustion") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 100; ++trial) {
    const auto cores = static_cast<std::uint32_t>(2 + random() % 2);
    PlanInput input = {.key_elements = {}, .cores_per_server = {cores}};
    for (int key = 0; key < 9; ++key) input.key_elements.push_back(2049 + random() % 6144);
    const Plan plan = make_plan(input).value();
    REQUIRE(plan.chunks.size() == 9);
    std::vector<std::uint64_t> empty(cores, 0);
    const auto optimum = static_cast<double>(optimal_load(input.key_elements, empty, 0)) * 4;
    const auto loads = core_loads(input, plan);
    CHECK(static_cast<double>(*std::max_element(loads.begin(), loads.end())) <=
          (4.0 / 3.0 - 1.0 / (3.0 * cores)) * optimum);
  }
}

TEST_CASE("chunks go where other jobs have least, on any server") {
  const PlanInput base = {.key_elements = {1000}, .cores_per_server = {2, 2}};
  const auto place_with = [&](std::vector<std::uint64_t> load) {
    PlanInput input = base;
    input.core_load_bytes = std::move(load);
    const Chunk chunk = make_plan(input).value().chunks[0];
    return std::pair(chunk.server, chunk.core);
  };
  CHECK(place_with({}) == std::pair(0U, 0U));
  CHECK(place_with({1, 0, 1, 1}) == std::pair(0U, 1U));
  CHECK(place_with({9, 9, 9, 8}) == std::pair(1U, 1U));
  PlanInput input = {.key_elements = Sizes(4, 8192), .cores_per_server = {2}};
  input.core_load_bytes = {2 * 32768, 0};
  const Plan plan = make_plan(input).value();
  CHECK(plan.core_chunks[0][0].size() == 1);  // evens the cores out
  CHECK(plan.core_chunks[0][1].size() == 3);
  input.core_load_bytes = {0, 0};
  CHECK(make_plan(input)->hash ==
        make_plan({.key_elements = Sizes(4, 8192), .cores_per_server = {2}})->hash);
}

TEST_CASE("ResNet-50 spreads over the cores within one chunk of even") {
  const Sizes sizes = resnet50();
  REQUIRE(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}) == 25'557'032);
  const auto cores = GENERATE(std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{10},
                              std::vector<std::uint32_t>{4, 8, 4});
  const PlanInput input = {.key_elements = sizes, .cores_per_server = cores};
  const Plan plan = make_plan(input).value();
  check_layout(input, plan);
  check_slots(input, plan);
  const auto loads = core_loads(input, plan);
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  CHECK(*most - *least <= input.chunk_bytes);
  CHECK(plan.arena_elements < 25'557'032 + sizes.size() * 16);
}

TEST_CASE("both ends compute the same plan, on every machine and build") {
  const PlanInput input = {.key_elements = resnet50(), .cores_per_server = {2, 3}};
  CHECK(make_plan(input).value().hash == make_plan(PlanInput(input)).value().hash);
  // A change of this value is a change of the protocol: old workers cannot join new servers.
  CHECK(make_plan(input).value().hash == 0x139FDEB099F54E08ULL);
}

TEST_CASE("the hash tells any two inputs apart") {
  const PlanInput base = {.key_elements = {5000, 10, 20}, .cores_per_server = {2}};
  const auto hash_with = [&](const std::function<void(PlanInput&)>& change) {
    PlanInput input = base;
    change(input);
    return make_plan(input).value().hash;
  };
  std::vector<std::uint64_t> hashes = {
      make_plan(base).value().hash,
      hash_with([](PlanInput& input) { input.key_elements[0] = 5001; }),
      hash_with([](PlanInput& input) { std::swap(input.key_elements[1], input.key_elements[2]); }),
      hash_with([](PlanInput& input) { input.key_elements.push_back(1); }),
      hash_with([](PlanInput& input) { input.wire_type = DataType::kFloat16; }),
      hash_with([](PlanInput& input) { input.wire_type = DataType::kBfloat16; }),
      hash_with([](PlanInput& input) { input.chunk_bytes = 65536; }),
      hash_with([](PlanInput& input) {
        input.cores_per_server = {1, 1};
      }),
      hash_with([](PlanInput& input) { input.cores_per_server = {3}; })};
  std::sort(hashes.begin(), hashes.end());
  CHECK(std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end());
}

void check_refused(const PlanInput& input, const std::string& field) {
  const auto plan = make_plan(input);
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().code() == Code::kInvalidArgument);
  CHECK_THAT(plan.error().message(), Catch::Matchers::StartsWith(field));
}

TEST_CASE("a plan that cannot be made names the field") {
  const PlanInput good = {.key_elements = {1, 2, 3}, .cores_per_server = {1}};
  REQUIRE(make_plan(good).has_value());
  for (const std::uint32_t chunk_bytes : {0U, 32U, 63U, 65U, 100U, 4U * 1024 * 1024 + 64, ~0U}) {
    PlanInput input = good;
    input.chunk_bytes = chunk_bytes;
    check_refused(input, "chunk_bytes");
  }
  check_refused({.key_elements = {}, .cores_per_server = {1}}, "key_elements");
  check_refused({.key_elements = {4, 0}, .cores_per_server = {1}}, "key_elements[1]");
  check_refused({.key_elements = {1}, .cores_per_server = {}}, "cores_per_server");
  check_refused({.key_elements = {1}, .cores_per_server = {1, 0}}, "cores_per_server[1]");
  check_refused({.key_elements = {1}, .cores_per_server = {kMaxCores, 1}}, "cores_per_server");
  check_refused({.key_elements = {1}, .cores_per_server = {2}, .core_load_bytes = {1}},
                "core_load_bytes");
  check_refused({.key_elements = {1}, .cores_per_server = {1}, .core_load_bytes = {~0ULL}},
                "core_load_bytes");
}

TEST_CASE("a core gets no more chunks than it has slots") {
  const PlanInput input{.key_elements = {(std::uint64_t{kMaxCoreChunks} + 1) * 16},
                        .chunk_bytes = 64,
                        .cores_per_server = {1}};
  check_refused(input, "key_elements[0]");
}

// By arithmetic: a worker's and a chunk's 16 bytes (plan.h) beside the chunk.
TEST_CASE("a model of 400 GB and 1,024 workers fits two servers, bookkeeping included") {
  PlanInput input{.key_elements = std::vector<std::uint64_t>(100, 1'000'000'000),
                  .chunk_bytes = 1 << 20,
                  .cores_per_server = {16, 16}};
  const Plan plan = *make_plan(input);
  CHECK(plan.arena_elements * sizeof(float) >= 400'000'000'000);
  for (const auto& server : plan.core_chunks) {
    std::uint64_t chunks = 0;
    for (const auto& core : server) {
      CHECK(core.size() < kMaxCoreChunks);
      chunks += core.size();
    }
    CHECK(static_cast<double>(chunks) * kMaxWorkers * 16 < 0.02 * 200e9);
  }
}

TEST_CASE("sizes that would overflow or exhaust memory are refused before anything is allocated") {
  const std::uint64_t huge = GENERATE(UINT64_MAX, UINT64_MAX / 4, UINT64_MAX / 4 + 2,
                                      std::uint64_t{1} << 62, std::uint64_t{1} << 48);
  check_refused({.key_elements = {1, huge}, .cores_per_server = {1}}, "key_elements[1]");
  PlanInput fine_grained = {
      .key_elements = {(std::uint64_t{1} << 24) * 16}, .chunk_bytes = 64, .cores_per_server = {64}};
  check_refused(fine_grained, "key_elements[0]");
  // As many chunks as there may be, and one.
  fine_grained.key_elements = {std::uint64_t{kMaxChunks} * 16, 1};
  check_refused(fine_grained, "key_elements[1]");
}

}  // namespace
}  // namespace phub
