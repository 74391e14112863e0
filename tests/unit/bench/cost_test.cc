// What an exchange over racks costs: against the bench's closed formulas where racks are alike, and
// by hand where they are not.
#include <catch2/catch.hpp>

#include "bench/simulate/shapes.h"
#include "common/cost/rack_exchange.h"
#include "tests/support/nested_names.h"

namespace phub::cost {
namespace {

using bench::simulate::Network;
using bench::simulate::Shape;

constexpr double kAlpha = 40e-6;
constexpr double kWorkerRate = 1.25e9;

RackNetwork alike(std::uint32_t racks, std::uint32_t workers, double byte) {
  RackNetwork network;
  network.workers.assign(racks, workers);
  for (std::uint32_t rack = 0; rack < racks; ++rack) {
    network.names.push_back(std::string(1, static_cast<char>('a' + rack)));
  }
  network.worker_byte.assign(racks, 1 / kWorkerRate);
  network.server_byte.assign(racks, 1 / (workers * kWorkerRate));
  network.links.assign(racks, std::vector<RackLink>(racks, {.alpha = kAlpha, .byte = byte}));
  network.inside_alpha = kAlpha;
  return network;
}

Exchange with(const RackNetwork& network, RackShape shape) {
  return rack_exchange(network, make_rack_trees(network.names, shape));
}

// Only the busiest link's rate: seconds a byte.
double byte_with(const RackNetwork& network, RackShape shape) { return with(network, shape).byte; }

}  // namespace

TEST_CASE("racks that are alike cost what simulate's hierarchical and sharded say") {
  for (const std::uint32_t racks : {2U, 3U, 8U}) {
    for (const std::uint32_t servers : {1U, 3U}) {
      for (const double uplink : {0.3e9, 2.5e9, 40e9}) {
        for (const double server : {1.25e9, 20e9}) {  // of all servers of a rack together
          const Network theirs{.workers = 4 * racks,
                               .rack_workers = 4,
                               .servers = servers,
                               .alpha = kAlpha,
                               .worker_rate = kWorkerRate,
                               .server_rate = server,
                               .uplink_rate = uplink,
                               .chunk_bytes = 32768};
          RackNetwork ours = alike(racks, 4, 1 / uplink);
          ours.servers = servers;
          ours.server_byte.assign(racks, servers / server);
          for (const double bytes : {1e3, 3e5, 100e6}) {
            INFO(racks << " racks, " << servers << " servers, uplink " << uplink << ", servers at "
                       << server << ", " << bytes << " bytes");
            CHECK(with(ours, RackShape::kSpread).seconds(bytes) ==
                  Approx(exchange_of(Shape::kHierarchical, theirs).seconds(bytes)));
            CHECK(flat_exchange(ours).seconds(bytes) ==
                  Approx(exchange_of(Shape::kSharded, theirs).seconds(bytes)));
          }
        }
      }
    }
  }
}

TEST_CASE("a chain needs only the links between neighbours, spread all of them") {
  constexpr double kByte = 1e-9;
  RackNetwork network = alike(6, 1, kByte);
  network.worker_byte.assign(6, 0.0);
  network.server_byte.assign(6, 0.0);
  // Both carry 2(r-1)/r of the bytes over an uplink.
  CHECK(byte_with(network, RackShape::kSpread) == Approx(10.0 / 6.0 * kByte));
  CHECK(byte_with(network, RackShape::kChain) == Approx(10.0 / 6.0 * kByte));
  network.links[0][3].byte = 20 * kByte;  // carries 2/r of the bytes, or none
  CHECK(byte_with(network, RackShape::kSpread) == Approx(2.0 / 6.0 * 20 * kByte));
  CHECK(with(network, RackShape::kSpread).bound == "link from a to d");
  CHECK(byte_with(network, RackShape::kChain) == Approx(10.0 / 6.0 * kByte));
  CHECK(with(network, RackShape::kChain).bound == "uplink of a");
}

TEST_CASE("a site's uplink carries one sum of all its racks where they are nested") {
  constexpr double kByte = 1e-9;
  RackNetwork network = alike(8, 1, kByte);
  network.worker_byte.assign(8, 0.0);
  network.server_byte.assign(8, 0.0);
  network.names = testing::nested_names(8);
  // Half of the roots are in the other site: four sums to them, and four of their replies.
  CHECK(byte_with(network, RackShape::kSpread) == Approx(4 * kByte));
  CHECK(with(network, RackShape::kSpread).bound == "uplink of s0");
  CHECK(flat_exchange(network).byte == Approx(4 * kByte));
  // A rack's own uplink carries 2(r-1)/r, a site's one sum and one reply.
  CHECK(byte_with(network, RackShape::kNested) == Approx(14.0 / 8.0 * kByte));
  CHECK(with(network, RackShape::kNested).bound == "uplink of s0/r0/0");
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = 4; b < 8; ++b) {
      network.links[a][b].byte = network.links[b][a].byte = 3 * kByte;
    }
  }
  CHECK(byte_with(network, RackShape::kSpread) == Approx(12 * kByte));
  CHECK(byte_with(network, RackShape::kNested) == Approx(3 * kByte));
  CHECK(with(network, RackShape::kNested).bound == "uplink of s0");
}

TEST_CASE("latency is that of the longest way up and the longest way down") {
  RackNetwork network = alike(21, 1, 1e-9);  // four-ary trees of 21 have two levels
  CHECK(with(network, RackShape::kSpread).latency == Approx(4 * kAlpha));
  CHECK(with(network, RackShape::kMulticolour).latency == Approx(2 * kAlpha + 4 * kAlpha));
  CHECK(with(network, RackShape::kChain).latency == Approx(2 * kAlpha + 40 * kAlpha));
  CHECK(flat_exchange(network).latency == Approx(2 * kAlpha));
  network.links[4][7].alpha = 1.0;
  CHECK(with(network, RackShape::kSpread).latency == Approx(2 * kAlpha + 1 + kAlpha));
  CHECK(with(network, RackShape::kChain).latency == Approx(2 * kAlpha + 40 * kAlpha));
}

TEST_CASE("trees may have shares of their own, or none") {
  constexpr double kByte = 1e-9;
  RackNetwork network = alike(6, 1, kByte);
  network.worker_byte.assign(6, 0.0);
  network.server_byte.assign(6, 0.0);
  network.links[0][3].byte = 20 * kByte;
  const std::vector<RackTree> trees = make_rack_trees(6, RackShape::kHybrid);
  const auto mixed = [&](double small) {
    std::vector<double> shares(12, (1 - small) / 6);
    std::fill_n(shares.begin(), 6, small / 6);
    return rack_exchange(network, trees, shares);
  };
  for (const double bytes : {1e3, 100e6}) {
    CHECK(mixed(1.0).seconds(bytes) == Approx(with(network, RackShape::kSpread).seconds(bytes)));
    CHECK(mixed(0.0).seconds(bytes) == Approx(with(network, RackShape::kChain).seconds(bytes)));
  }
  CHECK(mixed(0.5).byte == Approx(0.5 * 2.0 / 6.0 * 20 * kByte));  // the slow link, by half
  CHECK(mixed(0.1).byte == Approx(10.0 / 6.0 * kByte));            // every uplink, as ever
  CHECK(mixed(0.1).latency == Approx(with(network, RackShape::kChain).latency));
}

TEST_CASE("sums that are larger than replies count as such") {
  constexpr double kByte = 1e-9;
  RackNetwork network = alike(4, 1, kByte);
  network.worker_byte.assign(4, 0.0);
  network.server_byte.assign(4, 0.0);
  network.sums.whole = 2.0;
  CHECK(byte_with(network, RackShape::kSpread) == Approx((2 + 1) * 3.0 / 4.0 * kByte));
}

TEST_CASE("of compressed sums some elements cross with their places, of more racks more") {
  constexpr double kByte = 1e-9;
  RackNetwork network = alike(4, 1, kByte);
  network.worker_byte.assign(4, 0.0);
  network.server_byte.assign(4, 0.0);
  network.sums = {.density = 0.01};
  // Up a rack's own, down those of all four.
  CHECK(byte_with(network, RackShape::kSpread) == Approx((0.02 + 0.08) * 3.0 / 4.0 * kByte));
  // In a chain each link carries three trees' sums up, of one, two and three racks, and their
  // replies the other way: the busiest uplink has both of its links'.
  const double both = (0.02 + 0.04 + 0.06) / 4.0 + 3 * 0.08 / 4.0;
  CHECK(byte_with(network, RackShape::kChain) == Approx(both * kByte));
  network.sums.uncompressed = 0.5;
  CHECK(byte_with(network, RackShape::kSpread) == Approx((1.02 + 1.08) / 2 * 3.0 / 4.0 * kByte));
  network.sums = {.whole = 2.0, .density = 0.01};  // 16 bits to workers, fp32 both ways here
  CHECK(byte_with(network, RackShape::kSpread) == Approx(2 * 0.1 * 3.0 / 4.0 * kByte));
  network.sums = {.density = 0.6};  // no smaller with places: whole
  CHECK(byte_with(network, RackShape::kSpread) == Approx(2 * 3.0 / 4.0 * kByte));
}

TEST_CASE("links and servers take no more chunks than they can, however small these are") {
  RackNetwork network = alike(2, 1, 1e-12);
  network.worker_byte.assign(2, 0.0);
  network.server_byte.assign(2, 0.0);
  network.message = 1e-6;
  network.chunk_bytes = 4096;
  const double small = with(network, RackShape::kSpread).byte;
  CHECK(small == Approx((1 + 1) * 1e-6 / 4096));  // a server: its worker's and the other rack's
  network.chunk_bytes = 8192;
  CHECK(with(network, RackShape::kSpread).byte == Approx(small / 2));
}

TEST_CASE("flat sends every worker's bytes over the uplink, racks only their sums") {
  constexpr double kByte = 1e-9;
  RackNetwork network = alike(2, 4, kByte);
  network.worker_byte.assign(2, 0.0);
  network.server_byte.assign(2, 0.0);
  CHECK(flat_exchange(network).byte == Approx(4 * kByte));
  CHECK(byte_with(network, RackShape::kSpread) == Approx(kByte));
  network.workers = {6, 2};  // pushes of 6 and replies to 2 go one way
  CHECK(flat_exchange(network).byte == Approx(4 * kByte));
}

}  // namespace phub::cost
