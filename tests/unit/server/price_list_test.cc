#include "server/sharing/price_list.h"

#include <catch2/catch.hpp>

#include "server/connections/job_on_core.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kChunk = 32 * 1024;
constexpr int kSample = 64;  // pushes that make a price

// One sample of pushes that took so many ticks each.
void sample(Prices& prices, std::uint32_t bytes, std::uint64_t ticks) {
  for (int i = 0; i < kSample; ++i) {
    prices.spent(bytes, ticks);
    prices.served(bytes, 1);
  }
}

TEST_CASE("a push costs what such pushes took") {
  Prices prices;
  sample(prices, kChunk, 10'000);
  const std::uint64_t cost = prices.cost(kChunk);
  CHECK(cost >= 9'990);
  CHECK(cost <= 10'000);
}

TEST_CASE("the parts of a push's work add up") {
  Prices prices;
  for (int i = 0; i < kSample; ++i) {
    prices.spent(kChunk, 3'000);  // reading
    prices.spent(kChunk, 5'000);  // service
    prices.served(kChunk, 1);
  }
  for (int i = 0; i < kSample / 8; ++i) prices.spent(kChunk, 16'000);  // eight replies at once
  const std::uint64_t before = prices.cost(kChunk);
  CHECK(before >= 7'990);
  CHECK(before <= 8'000);
}

TEST_CASE("sizes have prices of their own") {
  Prices prices;
  sample(prices, kChunk, 10'000);
  sample(prices, 64, 300);
  CHECK(prices.cost(64) >= 299);
  CHECK(prices.cost(64) <= 300);
  CHECK(prices.cost(kChunk) > 9'900);
}

TEST_CASE("a core that was taken off its CPU makes pushes dear for a short time only") {
  Prices prices;
  sample(prices, kChunk, 10'000);
  sample(prices, kChunk, 100'000'000);
  CHECK(prices.cost(kChunk) < 12'600);
  for (int i = 0; i < 16; ++i) sample(prices, kChunk, 10'000);
  CHECK(prices.cost(kChunk) < 10'200);
}

TEST_CASE("nothing is free, not even what took no time") {
  Prices prices;
  CHECK(prices.cost(0) == 1);
  for (int i = 0; i < 4; ++i) sample(prices, 4, 0);
  CHECK(prices.cost(4) == 1);
}

TEST_CASE("a price that fell as low as it can rises again") {
  Prices prices;
  for (int i = 0; i < 100; ++i) sample(prices, kChunk, 0);
  for (int i = 0; i < 64; ++i) sample(prices, kChunk, 10'000);
  CHECK(prices.cost(kChunk) > 9'000);
}

TEST_CASE("a kind is its rule, wire type, workers and transport") {
  PriceList list;
  int tcp = 0;
  int shm = 0;
  const PriceList::Kind kind = {.rule = RuleKind::kNesterov,
                                .wire_type = DataType::kFloat16,
                                .workers = 4,
                                .transport = &tcp};
  Prices& prices = list.of(kind);
  CHECK(&list.of(kind) == &prices);
  const auto other = [&](auto change) {
    PriceList::Kind changed = kind;
    change(changed);
    return &list.of(changed) != &prices;
  };
  CHECK(other([](auto& changed) { changed.rule = RuleKind::kSum; }));
  CHECK(other([](auto& changed) { changed.wire_type = DataType::kFloat32; }));
  CHECK(other([](auto& changed) { changed.workers = 3; }));
  CHECK(other([](auto& changed) { changed.checksums = true; }));
  CHECK(other([&](auto& changed) { changed.transport = &shm; }));
}

TEST_CASE("jobs that cost a core different work have kinds of their own") {
  const auto differs = [](auto change) {
    JobLayout layout;
    change(layout);
    return kind_of(layout) != kind_of(JobLayout());
  };
  CHECK_FALSE(differs([](JobLayout& layout) { layout.job_id = 7; }));
  CHECK_FALSE(differs([](JobLayout& layout) { layout.weight = 3; }));
  CHECK(differs([](JobLayout& layout) { layout.ema_decay = 0.9; }));
  CHECK(differs([](JobLayout& layout) { layout.clip_norm = 1.0F; }));
  CHECK(differs([](JobLayout& layout) { layout.watch_values = WatchValues::kName; }));
  CHECK(differs([](JobLayout& layout) { layout.rack_wire_type = DataType::kBfloat16; }));
  CHECK(differs([](JobLayout& layout) { layout.checksums = true; }));
  // A worker and a rack instead of two workers.
  JobLayout workers;
  workers.workers = 2;
  JobLayout racks;
  racks.rack = {2, 0, {RackTree{}}};
  CHECK(kind_of(workers).workers == kind_of(racks).workers);
  CHECK(kind_of(workers) != kind_of(racks));
}

}  // namespace
}  // namespace phub::server
