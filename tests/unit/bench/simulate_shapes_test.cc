// What an exchange costs, against the papers' formulas and against packets that are sent one by
// one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "bench/simulate/shapes.h"
#include "bench/simulate/simulate.h"
#include "bench/simulate/trees.h"
#include "tests/unit/bench/exchange_by_packets.h"

namespace phub::bench::simulate {
namespace {

using Catch::Matchers::Contains;

constexpr double kModel = 100e6;
constexpr double kRate = 1.25e8;

// Without latency, and with chunks so small that only the links' rates count.
Network bare(std::uint32_t workers) {
  return {.workers = workers, .alpha = 0.0, .worker_rate = kRate, .chunk_bytes = 1.0};
}

double shape_seconds(Shape shape, const Network& network, double bytes = kModel) {
  return exchange_of(shape, network).seconds(bytes);
}

// A rack's servers have `server_share` times what its workers have together.
Network racks_of_four(std::uint32_t racks, double server_share, double oversubscription) {
  Network network = bare(4 * racks);
  network.rack_workers = 4;
  network.server_rate = server_share * 4 * kRate;
  network.uplink_rate = 4 * kRate / oversubscription;
  return network;
}

}  // namespace

TEST_CASE("a link takes alpha + beta * bytes, a ring 2(N-1) alpha + 2(N-1)/N bytes beta") {
  Network network = bare(8);
  network.alpha = 5.23e-4;  // fitted to 10 GbE and 8 workers
  network.worker_rate = 1 / 8.57e-10;
  CHECK(shape_seconds(Shape::kLink, network) == Approx(5.23e-4 + 8.57e-10 * kModel));
  CHECK(shape_seconds(Shape::kRing, network) ==
        Approx(2 * 7 * 5.23e-4 + 2 * 7.0 / 8.0 * 8.57e-10 * kModel));
  network.rack_workers = 4;
  network.uplink_rate = network.worker_rate / 2;
  CHECK(shape_seconds(Shape::kRing, network) ==
        Approx(2 * 7 * 5.23e-4 + 4 * 7.0 / 8.0 * 8.57e-10 * kModel));
}

TEST_CASE("sharded over racks takes max(M/Bw, NM/Bp, 2NM(r-1)/(r Bc))") {
  for (const double server_share : {0.5, 1.0, 4.0}) {
    for (const double oversubscription : {0.25, 1.0, 4.0, 16.0}) {
      for (const std::uint32_t racks : {1U, 2U, 5U}) {
        const Network network = racks_of_four(racks, server_share, oversubscription);
        const double r = racks;
        const double expected = std::max({kModel / kRate, 4 * kModel / network.server_rate,
                                          2 * 4 * kModel * (r - 1) / (r * network.uplink_rate)});
        CHECK(shape_seconds(Shape::kSharded, network) == Approx(expected).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("hierarchical takes no less than max(M/Bw, NM/Bp, 2M(r-1)/(r min(Bc,Bp)))") {
  for (const double server_share : {0.5, 1.0, 4.0}) {
    for (const double oversubscription : {0.25, 1.0, 4.0, 16.0}) {
      for (const std::uint32_t racks : {1U, 2U, 5U}) {
        const Network network = racks_of_four(racks, server_share, oversubscription);
        const double r = racks;
        const double across = 2 * kModel * (r - 1) / r;
        const double bound =
            std::max({kModel / kRate, 4 * kModel / network.server_rate,
                      across / std::min(network.uplink_rate, network.server_rate)});
        const double seconds = shape_seconds(Shape::kHierarchical, network);
        CHECK(seconds >= bound * (1 - 1e-9));
        // A server's NIC carries both: the bound is met where that does not matter.
        const double server = (4 * kModel + across) / network.server_rate;
        CHECK(seconds == Approx(std::max(bound, server)).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("bytes on an uplink: hierarchical has N times fewer than flat") {
  Network network = bare(8);
  network.rack_workers = 4;
  network.uplink_rate = kRate / 100;  // nothing else counts
  network.server_rate = 1e12;
  CHECK(shape_seconds(Shape::kSharded, network) / shape_seconds(Shape::kHierarchical, network) ==
        Approx(4.0).epsilon(1e-4));
}

TEST_CASE("one rack: hierarchical is sharded, and colocated moves 2M(N-1)/N each way") {
  for (const std::uint32_t workers : {1U, 2U, 7U, 64U}) {
    Network network = bare(workers);
    network.alpha = 1e-4;
    network.chunk_bytes = 32768;
    CHECK(shape_seconds(Shape::kHierarchical, network) ==
          Approx(shape_seconds(Shape::kSharded, network)));
    network = bare(workers);
    CHECK(shape_seconds(Shape::kColocated, network) ==
          Approx(2 * kModel * (workers - 1) / workers / kRate).margin(1e-6).epsilon(1e-4));
  }
}

TEST_CASE("k colours are k times as fast as one k-ary tree, and move 2M at each node") {
  for (const std::uint32_t k : {2U, 4U}) {
    Network network = bare(k * k * 4 + 1);  // whole trees: N = 1 mod k
    network.colours = k;
    CHECK(shape_seconds(Shape::kTree, network) == Approx(2 * k * kModel / kRate).epsilon(1e-4));
    CHECK(shape_seconds(Shape::kMulticolour, network) == Approx(2 * kModel / kRate).epsilon(1e-4));
  }
}

TEST_CASE("a tree's latency is 2 log_k(N) hops, a ring's 2(N-1)") {
  Network network{.workers = 1 + 4 + 16, .colours = 4, .alpha = 1.0, .worker_rate = 1e15};
  CHECK(shape_seconds(Shape::kTree, network, 1.0) == Approx(2 * 2.0));
  CHECK(shape_seconds(Shape::kMulticolour, network, 1.0) == Approx(2 * 2.0));
  CHECK(shape_seconds(Shape::kRing, network, 1.0) == Approx(2 * 20.0));
}

TEST_CASE("interior nodes of colours are disjoint where N is 0 or 1 mod k") {
  for (const std::uint32_t k : {2U, 3U, 4U}) {
    for (std::uint32_t nodes = 4; nodes <= 32; ++nodes) {
      const std::uint32_t twice = interior_twice({nodes, k, k});
      CAPTURE(k, nodes);
      if (nodes % k <= 1) {
        CHECK(twice == 0);
      } else {
        CHECK(twice <= k - 1);
      }
    }
  }
}

namespace {

struct Case {
  std::uint32_t workers, rack_workers, servers;
  double server_share;      // of the workers' rates together
  double oversubscription;  // of the uplink
  double alpha;
  std::size_t chunks;
};

Network network_of(const Case& each) {
  Network network{.workers = each.workers,
                  .rack_workers = each.rack_workers,
                  .servers = each.servers,
                  .colours = 2,
                  .alpha = each.alpha,
                  .worker_rate = kRate};
  network.server_rate = each.server_share * network.in_rack() * kRate;
  network.uplink_rate = network.in_rack() * kRate / each.oversubscription;
  return network;
}

}  // namespace

TEST_CASE("every shape agrees with its packets, sent one by one") {
  const Case cases[] = {
      {8, 0, 1, 1.0, 1.0, 0.0, 96},  {8, 0, 1, 0.5, 1.0, 1e-3, 96},  {8, 0, 2, 2.0, 1.0, 1e-4, 96},
      {8, 4, 1, 2.0, 4.0, 1e-4, 96}, {8, 4, 1, 1.3, 1.0, 1e-4, 96},  {9, 3, 1, 2.0, 6.0, 1e-3, 180},
      {8, 2, 1, 4.0, 2.0, 1e-3, 96}, {16, 4, 2, 1.5, 3.0, 1e-4, 64}, {5, 0, 1, 1.0, 1.0, 1e-3, 1},
  };
  for (const Shape shape : {Shape::kSharded, Shape::kColocated, Shape::kHierarchical, Shape::kRing,
                            Shape::kTree, Shape::kMulticolour}) {
    for (const Case& each : cases) {
      const Network network = network_of(each);
      const double bytes = static_cast<double>(each.chunks) * network.chunk_bytes;
      const double simulated = played(shape, network, bytes);
      const double predicted = shape_seconds(shape, network, bytes);
      CAPTURE(name_of(shape), each.workers, each.rack_workers, each.chunks, simulated, predicted);
      CHECK(predicted == Approx(simulated).epsilon(0.10));
    }
  }
}

TEST_CASE(
    "a server's NIC that sums of racks and workers saturate loses up to a sixth to its queue") {
  const Network network = network_of({8, 4, 1, 1.0, 1.0, 1e-4, 192});
  const double bytes = 192 * network.chunk_bytes;
  const double simulated = played(Shape::kHierarchical, network, bytes);
  const double predicted = shape_seconds(Shape::kHierarchical, network, bytes);
  CHECK(exchange_of(Shape::kHierarchical, network).bound == "server NIC");
  CHECK(predicted <= simulated);
  CHECK(predicted >= simulated * 5 / 6);
}

namespace {

// Racks that differ; rates as shares of a worker's.
Network different(std::vector<std::uint32_t> workers, const std::vector<double>& uplinks,
                  double server = 0.0) {
  Network network = bare(std::accumulate(workers.begin(), workers.end(), 0U));
  network.chunk_bytes = 32768;
  network.alpha = 1e-4;
  network.colours = 2;
  network.server_rate = server * kRate;
  network.racks_workers = std::move(workers);
  for (const double uplink : uplinks) network.racks_uplinks.push_back(uplink * kRate);
  return network;
}

}  // namespace

TEST_CASE("racks that are listed and alike are as racks that are counted") {
  const Network counted = racks_of_four(3, 1.5, 4.0);
  Network listed = counted;
  listed.racks_workers = {4, 4, 4};
  listed.racks_uplinks.assign(3, counted.uplink_rate);
  for (const Shape shape : {Shape::kSharded, Shape::kColocated, Shape::kHierarchical, Shape::kRing,
                            Shape::kTree, Shape::kMulticolour}) {
    CHECK(shape_seconds(shape, listed) == Approx(shape_seconds(shape, counted)));
  }
}

TEST_CASE("racks that are joined have a job's shapes: of two all are one, of more they differ") {
  const Network two = racks_of_four(2, 1.5, 4.0);
  for (const Shape shape : {Shape::kRackChain, Shape::kRackMulticolour}) {
    CHECK(shape_seconds(shape, two) == Approx(shape_seconds(Shape::kHierarchical, two)));
    Network one = two;
    one.rack_workers = 0;
    CHECK(shape_seconds(shape, one) == Approx(shape_seconds(Shape::kHierarchical, one)));
    CHECK(exchange_of(shape, two).is_streamed);
    CHECK(exchange_of(shape, two).has_servers);
  }
  const Network six = racks_of_four(6, 3.0, 4.0);
  CHECK(exchange_of(Shape::kRackChain, six).byte ==
        Approx(exchange_of(Shape::kHierarchical, six).byte));
  CHECK(exchange_of(Shape::kRackChain, six).latency ==
        Approx(exchange_of(Shape::kHierarchical, six).latency + 8 * six.alpha));
  // Of six racks the root of two of the four trees is one: their sums and the others' replies.
  CHECK(exchange_of(Shape::kRackMulticolour, six).byte >
        1.2 * exchange_of(Shape::kHierarchical, six).byte);
  const Network apart = different({8, 4, 2}, {4, 0.5, 4}, 1000);
  CHECK(exchange_of(Shape::kRackChain, apart).bound == "uplink of rack 1");
}

TEST_CASE("more racks than a job has are refused") {
  SimulateOptions options;
  options.network.rack_workers = 4;
  options.workers = {4 * 257};
  options.shapes = {Shape::kRackChain};
  options.policies = {Policy::kBsp};
  const LayerTrace trace{.name = "t", .layers = {{.name = "a", .backward = 1.0, .bytes = 4.0}}};
  CHECK_THAT(predict_all(options, trace).error().message(),
             Contains("--shape rack-chain: 257 racks") && Contains("at most 256"));
  options.workers = {4 * 3};
  CHECK(predict_all(options, trace).has_value());
}

TEST_CASE("the slowest rack's uplink bounds a hierarchy, and has a name") {
  const Network network = different({8, 4, 2}, {4, 0.5, 4}, 1000);
  const Exchange exchange = exchange_of(Shape::kHierarchical, network);
  CHECK(exchange.bound == "uplink of rack 1");
  CHECK(exchange.byte == Approx(2 * (2.0 / 3) / (0.5 * kRate)));
  CHECK(exchange_of(Shape::kRing, network).bound == "uplink of rack 1");
  // Flat: the rack with 8 pushes 8 * 2/3 out and has 6/3 pushed into it.
  const Network flat = different({8, 4, 2}, {1, 1, 1}, 1000);
  CHECK(exchange_of(Shape::kSharded, flat).bound == "uplink of rack 0");
  CHECK(exchange_of(Shape::kSharded, flat).byte == Approx((16.0 / 3 + 2) / kRate));
}

TEST_CASE("the fullest rack's servers bound a hierarchy whose servers are alike") {
  const Exchange exchange =
      exchange_of(Shape::kHierarchical, different({8, 4, 2}, {1000, 1000, 1000}, 4));
  CHECK(exchange.bound == "server NIC of rack 0");
  CHECK(exchange.byte == Approx((8 + 4.0 / 3) / (4 * kRate)));
}

TEST_CASE("racks that differ agree with their packets, sent one by one") {
  const Network networks[] = {different({5, 3}, {1, 1}, 12), different({6, 2}, {4, 0.5}, 12),
                              different({4, 3, 2}, {2, 0.4, 1}, 10),
                              different({2, 6}, {0.5, 2}, 16)};
  for (const Shape shape : {Shape::kSharded, Shape::kColocated, Shape::kHierarchical, Shape::kRing,
                            Shape::kTree, Shape::kMulticolour}) {
    for (const Network& network : networks) {
      const double bytes = 180 * network.chunk_bytes;
      const double simulated = played(shape, network, bytes);
      const double predicted = shape_seconds(shape, network, bytes);
      CAPTURE(name_of(shape), network.racks_workers, simulated, predicted);
      CHECK(predicted == Approx(simulated).epsilon(0.10));
    }
  }
}

TEST_CASE("lists of racks fit each other and the workers, or are refused") {
  SimulateOptions options;
  options.rack_workers = {8, 8, 4};
  options.uplink_rates = {4e9, 4e9, 1e9};
  const auto network = network_of(options, 20);
  REQUIRE(network.has_value());
  CHECK(network->racks() == 3);
  CHECK(network->in_rack() == 8);
  CHECK(network->uplink(2) == 1e9);
  CHECK(network->places()[16] == 2);
  CHECK_THAT(network_of(options, 16).error().message(),
             Contains("--rack-workers") && Contains("have 20 workers"));
  options.uplink_rates = {4e9, 4e9};
  CHECK_THAT(network_of(options, 20).error().message(),
             Contains("--uplink-gbit: 2 rates") && Contains("in 3 rack"));
  options.rack_workers = {8};
  const auto partial = network_of(options, 12);  // two racks, of 8 and of 4
  REQUIRE(partial.has_value());
  CHECK(partial->racks_workers == std::vector<std::uint32_t>{8, 4});
  CHECK_FALSE(network_of(options, 8).has_value());
  options.rack_workers = {8, 0};
  CHECK_THAT(network_of(options, 8).error().message(), Contains("has no workers"));
  options.uplink_rates = {};
  options.rack_workers = {};
  options.network.rack_workers = 4;
  options.network.uplink_rate = 3e9;
  CHECK(network_of(options, 8)->uplink(1) == 3e9);
  CHECK(network_of(options, 8)->racks() == 2);
  options.uplink_rates = {2e9};
  CHECK(network_of(options, 8)->is_uniform());
  CHECK(network_of(options, 8)->uplink(1) == 2e9);
}

TEST_CASE("a million workers are predicted as well as ten") {
  const Network network{.workers = 1'000'000, .rack_workers = 40};
  for (const Shape shape : {Shape::kRing, Shape::kSharded, Shape::kColocated, Shape::kHierarchical,
                            Shape::kTree, Shape::kMulticolour}) {
    CHECK(std::isfinite(shape_seconds(shape, network)));
    CHECK(shape_seconds(shape, network) > kModel / network.worker_rate);
  }
}

}  // namespace phub::bench::simulate
