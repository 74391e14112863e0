// Throughput per dollar: bills and predictions against sums by hand, break-evens, the paper's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "bench/dollars/curve.h"
#include "bench/dollars/price_file.h"
#include "bench/dollars/sensitivity.h"
#include "bench/simulate/shapes.h"

namespace phub::bench {
namespace {

// 8 Gb/s carry 1 GB/s, so the model takes 0.1 s on a worker's link.
const char* const kParts = R"(
date: "2026-11-23" source: "a test"
part { name: "host" dollars: 1000 watts: 100 }
part { name: "gpu" dollars: 500 watts: 200 }
part { name: "box" dollars: 3000 watts: 300 }
part { name: "nic" dollars: 50 watts: 5 gigabits: 8 }
part { name: "nic2" dollars: 90 watts: 8 gigabits: 8 ports: 2 }
part { name: "switch" dollars: 1600 watts: 160 gigabits: 32 ports: 16 }
part { name: "breakout" dollars: 40 ports: 4 }
part { name: "cable" dollars: 10 }
)";
const char* const kWorkload = R"(
workload { name: "w" model_bytes: 100000000 compute_ms: 50 samples: 10 source: "a test" }
)";
const char* const kColocated = R"(
deployment {
  name: "colocated" workers: 4
  worker { host: "host" gpu: "gpu" gpus: 2 nic: "nic" }
  network { rack_switch: "switch" cable: "breakout" }
}
)";
const char* const kBox = R"(
deployment {
  name: "pbox" exchange: PRICED_EXCHANGE_PBOX workers: 4
  worker { host: "host" gpu: "gpu" gpus: 2 nic: "nic" }
  server { host: "box" nic: "nic2" nics: 2 }
  network { rack_switch: "switch" cable: "breakout" }
}
)";

PriceFile parsed(const std::string& text) {
  Result<PriceFile> prices = parse_price_file(text, "test");
  REQUIRE((prices ? "" : prices.error().message()) == "");
  return *prices;
}

PriceFile both() { return parsed(std::string(kParts) + kWorkload + kColocated + kBox); }

Deployment across_racks(Deployment deployment, std::uint32_t racks, double oversubscription) {
  deployment.set_racks(racks);
  deployment.mutable_network()->set_core_switch("switch");
  deployment.mutable_network()->set_core_cable("cable");
  deployment.mutable_network()->set_oversubscription(oversubscription);
  return deployment;
}

double exchange_seconds(const PriceFile& prices, const Deployment& deployment) {
  return predict(prices, deployment).exchange_seconds;
}

}  // namespace

TEST_CASE("a bill counts hosts, GPUs, NICs, and shares of cables and ports") {
  const PriceFile prices = both();
  const Bill colocated = bill_of(prices, prices.deployment(0));
  CHECK(colocated.of(Expense::kWorkers) == 4000);
  CHECK(colocated.of(Expense::kGpus) == 8 * 500);
  CHECK(colocated.of(Expense::kNics) == 4 * 50);
  CHECK(colocated.of(Expense::kCables) == 40);  // one breakout cable for four NICs
  CHECK(colocated.of(Expense::kPorts) == 100);  // so one port
  CHECK(colocated.of(Expense::kServers) == 0);
  CHECK(colocated.of(Expense::kPower) == 0);
  CHECK(colocated.watts == 400 + 1600 + 20 + 10);
  CHECK(colocated.total() == 8340);
  const Bill box = bill_of(prices, prices.deployment(1));
  CHECK(box.of(Expense::kServers) == 3000);
  CHECK(box.total() == 8340 + 3000 + 2 * 90 + 40 + 100);  // four ports of its two NICs
}

TEST_CASE("uplinks are bought by rate, a port of each switch and a cable") {
  const PriceFile prices = both();
  // 4 x 8 Gb/s at 2:1 are 16 Gb/s: half an uplink for each of two racks.
  const Bill bill = bill_of(prices, across_racks(prices.deployment(0), 2, 2.0));
  CHECK(bill.of(Expense::kPorts) == 2 * 100 + 2 * 100);
  CHECK(bill.of(Expense::kCables) == 2 * 40 + 10);
}

TEST_CASE("power costs its years, with what the building adds") {
  PriceFile prices = both();
  prices.mutable_power()->set_dollars_per_kwh(0.1);
  prices.mutable_power()->set_years(2);
  prices.mutable_power()->set_overhead(1.5);
  const Bill bill = bill_of(prices, prices.deployment(0));
  CHECK(bill.of(Expense::kPower) == Approx(2.030 * 1.5 * 2 * 8760 * 0.1));
}

TEST_CASE("in a rack each shape takes what its busiest link takes") {
  const PriceFile prices = both();
  Deployment colocated = prices.deployment(0);
  CHECK(exchange_seconds(prices, colocated) == Approx(2 * 0.1 * 3 / 4));
  colocated.set_exchange(PRICED_EXCHANGE_RING);
  CHECK(exchange_seconds(prices, colocated) == Approx(2 * 0.1 * 3 / 4));
  Deployment box = prices.deployment(1);
  CHECK(exchange_seconds(prices, box) == Approx(0.1));  // balanced: 4 links into 4 ports
  CHECK(predict(prices, box).bound == "worker NIC");
  box.mutable_server()->set_nics(1);
  CHECK(exchange_seconds(prices, box) == Approx(0.2));
  CHECK(predict(prices, box).bound == "server NIC");
}

TEST_CASE("the bandwidth that hides an exchange is that of the paper's table") {
  PriceFile prices = both();
  const double bytes = 1e8;
  const double seconds = 0.05;
  // Of a server, in and out together: CS 4 M (N-1) / (T N), NCC 2 M N / T.
  prices.mutable_part(3)->set_gigabits(4 * bytes * 3 / (seconds * 4) / 2 * 8 / 1e9);
  CHECK(exchange_seconds(prices, prices.deployment(0)) == Approx(seconds));
  prices.mutable_part(3)->set_gigabits(1000);
  prices.mutable_part(4)->set_gigabits(2 * bytes * 4 / seconds / 2 * 8 / 1e9 / 4);
  CHECK(exchange_seconds(prices, prices.deployment(1)) == Approx(seconds));
}

TEST_CASE("across racks the uplink carries N times as much without hierarchy") {
  const PriceFile prices = both();
  // Uplinks of 4 x 1 GB/s / 8: 0.5 GB/s.
  const Deployment flat = across_racks(prices.deployment(0), 2, 8.0);
  CHECK(exchange_seconds(prices, flat) == Approx(2 * 4 * 0.1 * 0.5 / 0.5));
  CHECK(predict(prices, flat).bound == "uplink");
  const Deployment box = across_racks(prices.deployment(1), 2, 8.0);
  CHECK(exchange_seconds(prices, box) == Approx(2 * 0.1 * 0.5 / 0.5));
  Deployment ring = flat;
  ring.set_exchange(PRICED_EXCHANGE_RING);
  CHECK(exchange_seconds(prices, ring) == Approx(2 * 0.1 * 7 / 8 / 0.5));
}

TEST_CASE("predictions are those of simulate's formulas, a server's NIC with both its sums") {
  PriceFile prices = both();
  // Its NICs carry 4 M from the workers and 2 M / 2 between the racks.
  const Deployment box = across_racks(prices.deployment(1), 2, 1.0);
  const double seconds = (4 + 1) * 0.1 / 4;
  CHECK(exchange_seconds(prices, box) == Approx(seconds));
  CHECK(predict(prices, box).bound == "server NIC");
  const simulate::Network network{
      .workers = 8, .rack_workers = 4, .worker_rate = 1e9, .server_rate = 4e9, .uplink_rate = 4e9};
  const auto exchange = simulate::exchange_of(simulate::Shape::kHierarchical, network);
  CHECK(exchange_seconds(prices, box) == Approx(exchange.of_rates_only().seconds(1e8)));
}

TEST_CASE("a server's host may bound it before its NICs do") {
  PriceFile prices = both();
  prices.mutable_part(2)->set_exchange_gigabytes(2);  // 1 GB/s each way
  CHECK(exchange_seconds(prices, prices.deployment(1)) == Approx(0.4));
  CHECK(predict(prices, prices.deployment(1)).bound == "server host");
}

TEST_CASE("overlap hides the shorter of compute and exchange, and links may be inefficient") {
  PriceFile prices = both();
  CHECK(predict(prices, prices.deployment(1)).seconds == Approx(0.1));
  prices.mutable_workload()->set_overlap(0);
  CHECK(predict(prices, prices.deployment(1)).seconds == Approx(0.15));
  prices.mutable_workload()->set_overlap(0.5);
  CHECK(predict(prices, prices.deployment(1)).seconds == Approx(0.125));
  CHECK(predict(prices, prices.deployment(1)).samples_per_second == Approx(4 * 2 * 10 / 0.125));
  prices.mutable_workload()->set_link_efficiency(0.5);
  CHECK(exchange_seconds(prices, prices.deployment(1)) == Approx(0.2));
}

TEST_CASE("a GPU's speed shortens its own deployment's compute only") {
  PriceFile prices = both();
  PartPrice faster = prices.part(1);
  faster.set_name("gpu-4");
  faster.set_speed(4);
  *prices.add_part() = faster;
  prices.mutable_deployment(1)->mutable_worker()->set_gpu("gpu-4");
  CHECK(predict(prices, prices.deployment(0)).compute_seconds == Approx(0.05));
  CHECK(predict(prices, prices.deployment(1)).compute_seconds == Approx(0.0125));
}

TEST_CASE("each row says where its throughput is from") {
  PriceFile prices = both();
  prices.mutable_deployment(0)->mutable_measured()->set_samples_per_second(417);
  prices.mutable_deployment(1)->mutable_measured()->set_exchange_ms(80);
  std::vector<PricedRow> rows = *compare(prices);
  CHECK(name_of(rows[0].basis) == "measured");
  CHECK(rows[0].per_1000_dollars == Approx(50));
  CHECK(name_of(rows[1].basis) == "predicted, exchange measured");
  CHECK(rows[1].samples_per_second == Approx(80 / 0.08));
  CHECK(rows[1].ratio == Approx(80 / 0.08 / 11660 * 1000 / 50));
  prices.mutable_workload()->set_compute_ms(0);  // then the exchange is all
  rows = *compare(prices);
  CHECK(name_of(rows[1].basis) == "measured");
  prices.mutable_deployment(1)->clear_measured();
  rows = *compare(prices);
  CHECK(name_of(rows[1].basis) == "predicted");
}

TEST_CASE("a price breaks even where the sum by hand says so") {
  PriceFile prices = both();
  for (Deployment& deployment : *prices.mutable_deployment()) {
    deployment.mutable_measured()->set_samples_per_second(1000);
  }
  prices.mutable_deployment(1)->mutable_measured()->set_samples_per_second(1250);
  // 8660 + 3000 x = 1.25 * 8340 for a box at x times its price.
  const Curve curve = *curve_of(prices, {.axis = "price:box"});
  CHECK_FALSE(curve.is_of_model);
  CHECK(curve.points.front().rows[1].basis == Basis::kMeasured);
  REQUIRE(curve.break_evens.size() == 1);
  CHECK(curve.break_evens[0].value == Approx((1.25 * 8340 - 8660) / 3000));
  CHECK_FALSE(curve.break_evens[0].is_better_above);
}

TEST_CASE("faster GPUs make a server pay from where the sum by hand says so") {
  // Colocated: max(50 ms / s, 150 ms) is 150 ms from s = 1/3 on. PBox: max(50 ms / s, 100 ms).
  // Bills of 8340 and 11660: even where the iteration takes 150 ms * 8340 / 11660.
  PriceFile prices = both();
  prices.mutable_deployment(0)->mutable_measured()->set_samples_per_second(1);
  const Curve curve = *curve_of(prices, {.axis = "gpu-speed", .from = 0.1, .to = 10});
  CHECK(curve.is_of_model);
  CHECK(curve.points.front().rows[0].basis == Basis::kPredicted);  // what was measured is left out
  REQUIRE(curve.break_evens.size() == 1);
  CHECK(curve.break_evens[0].value == Approx(50.0 / (150.0 * 8340 / 11660)));
  CHECK(curve.break_evens[0].is_better_above);
  const auto is_there = [&](const CurvePoint& point) {
    return point.value == curve.break_evens[0].value;
  };
  CHECK(std::count_if(curve.points.begin(), curve.points.end(), is_there) == 1);
  CHECK(std::is_sorted(curve.points.begin(), curve.points.end(),
                       [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; }));
}

TEST_CASE("an axis that counts has whole numbers, and names the first on the other side") {
  PriceFile prices = both();
  prices.mutable_workload()->set_compute_ms(1);
  prices.mutable_part(2)->set_dollars(0);
  const Curve curve = *curve_of(prices, {.axis = "server-nics"});
  for (const CurvePoint& point : curve.points) CHECK(point.value == std::round(point.value));
  REQUIRE_FALSE(curve.break_evens.empty());
  // One dual NIC: 0.2 s against 0.15 s; two: 0.1 s.
  CHECK(curve.break_evens[0].value == 2);
  CHECK(curve.break_evens[0].is_better_above);
}

TEST_CASE("an axis that is unknown or changes nothing is refused") {
  const PriceFile alone = parsed(std::string(kParts) + kWorkload + kColocated);
  for (const char* axis : {"pigeons", "price:pigeon", "server-nics", "oversubscription"}) {
    const Result<Curve> curve = curve_of(alone, {.axis = axis});
    REQUIRE_FALSE(curve);
    CHECK(curve.error().code() == Code::kInvalidArgument);
    CHECK(curve.error().message().find(axis) != std::string::npos);
  }
  CHECK(curve_of(alone, {.axis = "price:pigeon"}).error().message() ==
        "--curve \"price:pigeon\" names no part of the file; it has host, gpu, box, nic, nic2, "
        "switch, breakout, cable");
  CHECK_FALSE(curve_of(alone, {.axis = "workers", .from = 0.5, .to = 2}));
  CHECK_FALSE(curve_of(alone, {.axis = "gpu-speed", .from = 2, .to = 1}));
}

TEST_CASE("sensitivities are sorted, and have their prices' signs") {
  PriceFile prices = both();
  prices.mutable_workload()->set_compute_ms(120);  // bounds the PBox only
  std::vector<Sensitivity> found = *sensitivities(prices, 0.25);
  double widest = 1e9;
  bool has_box = false;
  bool has_model = false;
  for (const Sensitivity& one : found) {
    const double width = std::abs(std::log(one.high / one.low));
    CHECK(width <= widest);
    widest = width;
    has_model |= one.axis == "model-size";
    if (one.axis != "price:box") continue;
    has_box = true;
    const double base =
        150.0 / 120.0 * 8340;  // throughput of the PBox over the other's, and its bill
    CHECK(one.low == Approx(base / (8660 + 3000 / 1.25)));
    CHECK(one.high == Approx(base / (8660 + 3000 * 1.25)));
  }
  CHECK(has_box);
  CHECK(has_model);
  prices.mutable_deployment(0)->mutable_measured()->set_samples_per_second(100);
  found = *sensitivities(prices, 0.25);
  CHECK_FALSE(found.empty());
  for (const Sensitivity& one : found) CHECK(one.axis.starts_with("price:"));
}

TEST_CASE("what costs nothing or takes no time is refused") {
  PriceFile prices = both();
  prices.mutable_workload()->set_compute_ms(0);
  prices.mutable_deployment(0)->set_workers(1);
  Result<std::vector<PricedRow>> rows = compare(prices);
  REQUIRE_FALSE(rows);
  CHECK(rows.error().message().find("takes no time") != std::string::npos);
  prices = both();
  for (PartPrice& part : *prices.mutable_part()) part.set_dollars(0);
  rows = compare(prices);
  REQUIRE_FALSE(rows);
  CHECK(rows.error().message().find("costs nothing") != std::string::npos);
}

TEST_CASE("the paper's figures come out as the ratio of its bars, marked as published") {
  const Result<PriceFile> prices =
      load_price_file(PHUB_SOURCE_DIR "/configs/prices_paper.textproto");
  REQUIRE(prices);
  const std::vector<PricedRow> rows = *compare(*prices);
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].deployment == "PBox");
  CHECK(rows[1].ratio == Approx(1.36).margin(0.005));  // the headline says 25 %
  for (const PricedRow& row : rows) {
    CHECK(name_of(row.basis) == "published");
    CHECK(row.source.find("paper") != std::string::npos);
  }
}

TEST_CASE("the price file to start from is right, and all of it is predicted") {
  const Result<PriceFile> prices = load_price_file(PHUB_SOURCE_DIR "/configs/prices.textproto");
  REQUIRE(prices);
  CHECK(prices->source().find("assumptions") != std::string::npos);
  for (const PricedRow& row : *compare(*prices)) CHECK(name_of(row.basis) == "predicted");
  CHECK(curve_of(*prices, {.axis = "oversubscription"}));
}

}  // namespace phub::bench
