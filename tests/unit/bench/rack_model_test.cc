// How long a round would take by its links' queues: by hand where few packets go, and against what
// flows would take where many do.
#include <catch2/catch.hpp>
#include <cmath>

#include "bench/rack/replay.h"
#include "bench/rack/round_model.h"
#include "bench/rack/scenario.h"
#include "bench/replay/outcome.h"

namespace phub::bench {
namespace {

// Bytes a second of payload over 100 Mbit/s, with the scenarios' mtu.
double rate_of_100() { return 12.5e6 * replay::payload_share(9000); }

struct Modelled {
  double seconds;
  double least;  // of the busiest link, for payload
};

Modelled modelled(const std::string& text) {
  const auto scenario = parse_scenario(text, "s");
  INFO((scenario ? "" : scenario.error().message()));
  REQUIRE(scenario.has_value());
  const Fabric fabric =
      plan_fabric(*scenario, static_cast<double>(work_of(*scenario).payload_bytes()),
                  small_share_of(*scenario));
  return {modelled_seconds(*scenario, fabric),
          least_seconds(bounding_link(fabric)) / replay::payload_share(9000)};
}

constexpr char kTwoRacksOfFour[] =
    "racks { workers: 4 servers: 1 } racks { workers: 4 servers: 1 }\n"
    "links { worker_mbit: 25 server_factor: 4 oversubscription: 4 }\n"
    "exchange { elements: 500000 }\n";

}  // namespace

TEST_CASE("a single packet takes its way through each link, there and back") {
  const double packet = 4000 / rate_of_100();
  CHECK(modelled("racks { workers: 1 servers: 1 } exchange { elements: 1000 }").seconds ==
        Approx(4 * packet));
  // Two workers' at one server: the second follows the first through its NIC, there and back.
  CHECK(modelled("racks { workers: 2 servers: 1 } exchange { elements: 1000 }").seconds ==
        Approx(6 * packet));
  // Of two racks that of one goes up through the NICs and uplinks of both.
  const std::string racks =
      "racks { workers: 1 servers: 1 } racks { workers: 1 servers: 1 } exchange { elements: 1000 ";
  CHECK(modelled(racks + "} shape: \"spread\"").seconds == Approx((2 + 4 + 4 + 2) * packet));
  // Flat, the other rack's reply follows that of the own.
  CHECK(modelled(racks + "}").seconds == Approx((4 + 5) * packet));
  // Sums cross in fp32 what is pushed in 16 bits.
  CHECK(modelled(racks + "dtype: \"fp16\" } shape: \"spread\"").seconds ==
        Approx((2 + 2 * 4 + 4 + 2) * packet / 2));
  // Three racks: the farthest of a chain adds to the one before.
  const std::string three = "racks { workers: 1 servers: 1 } " + racks;
  CHECK(modelled(three + "} shape: \"chain\"").seconds == Approx((2 + 8 + 8 + 2) * packet));
  // Both sums at the root's uplink and NIC, one after the other; and the replies.
  CHECK(modelled(three + "} shape: \"spread\"").seconds == Approx((2 + 5 + 5 + 2) * packet));
}

TEST_CASE("a chunk's packets follow each other through the links") {
  // 32 KiB in four packets.
  const double packet = 8192 / rate_of_100();
  CHECK(modelled("racks { workers: 1 servers: 1 } exchange { elements: 8192 }").seconds ==
        Approx(2 * (4 + 1) * packet));
}

TEST_CASE("many chunks take as long as the busiest link, and the first one's way") {
  for (const std::string shape : {"flat", "spread", "chain", "multicolour"}) {
    const Modelled wide = modelled(
        "racks { workers: 2 servers: 2 } racks { workers: 4 servers: 2 } racks { workers: 2 "
        "servers: 2 } links { server_factor: 8 } exchange { elements: 2500000 } shape: \"" +
        shape + "\"");
    INFO(shape);
    CHECK(wide.seconds > wide.least);
    CHECK(wide.seconds < 1.1 * wide.least);
  }
  const Modelled flat = modelled(kTwoRacksOfFour);
  CHECK(flat.seconds == Approx(flat.least).epsilon(0.02));
}

TEST_CASE("racks' sums that share a full NIC with pushes come late, and so do replies") {
  // As flows, of seconds for all bytes: a worker's NIC w, a server's for its workers s and for the
  // other rack q. The NIC gets more than it takes by g = (s + q) / w, so what comes at t has waited
  // (g - 1) t, and a chunk that w is half through has to pass it twice at its root, three times
  // elsewhere. When workers have pushed all, at w, replies have left to g^-2 and g^-3; the rest
  // keeps the NIC's other way busy.
  const Modelled spread = modelled(std::string(kTwoRacksOfFour) + "shape: \"spread\"");
  const double share = replay::payload_share(9000);
  const double w = 2e6 / (25e6 / 8 * share);
  const double s = 4 * 2e6 / (100e6 / 8 * share);
  const double q = 2e6 / (100e6 / 8 * share);
  const double g = (s + q) / w;
  const double flows = w + (s + q) * (1 - std::pow(g, -2) / 2 - std::pow(g, -3) / 2);
  CHECK(spread.least == Approx(s + q));
  CHECK(spread.seconds == Approx(flows).epsilon(0.03));
  CHECK(spread.seconds > 1.15 * spread.least);
}

TEST_CASE("hybrid takes small keys' bytes up the trees of spread, others up those of a chain") {
  const std::string racks =
      "racks { workers: 2 servers: 1 } racks { workers: 2 servers: 1 } racks { workers: 2 servers: "
      "1 "
      "} links { server_factor: 8 oversubscription: 2 }\n";
  const auto with = [&](const std::string& keys, const std::string& shape) {
    return racks + "exchange { elements: 1000000 keys: \"" + keys + "\" } shape: \"" + shape + "\"";
  };
  const Modelled spread = modelled(with("100", "spread"));
  const Modelled chain = modelled(with("100", "chain"));
  CHECK(modelled(with("100", "hybrid") + " hybrid_bytes: 40000").seconds == spread.seconds);
  CHECK(modelled(with("100", "hybrid") + " hybrid_bytes: 39999").seconds == chain.seconds);
  CHECK(modelled(with("1000", "hybrid")).seconds == spread.seconds);  // all share chunks
  const auto half = parse_scenario(with("resnet50", "hybrid"), "s");
  REQUIRE(half.has_value());
  CHECK(small_share_of(*half) > 0.0);
  CHECK(small_share_of(*half) < 0.2);
  const Modelled mixed = modelled(with("resnet50", "hybrid"));
  CHECK(mixed.seconds > mixed.least);
  CHECK(mixed.seconds < 1.1 * chain.seconds);
}

TEST_CASE("simulate's formulas say the same of racks that are joined, alike or not") {
  const char* const racks[] = {
      "racks { workers: 4 servers: 1 } racks { workers: 4 servers: 1 } racks { workers: 4 servers: "
      "1 }",
      "racks { workers: 6 servers: 1 } racks { workers: 2 servers: 1 uplink_mbit: 60 } racks { "
      "workers: 3 servers: 1 }",
      "racks { workers: 2 servers: 2 } racks { workers: 2 servers: 2 } racks { workers: 2 servers: "
      "2 } "
      "racks { workers: 2 servers: 2 } racks { workers: 2 servers: 2 } racks { workers: 2 servers: "
      "2 }"};
  for (const std::string shape : {"flat", "spread", "chain", "multicolour"}) {
    for (const std::string rack : racks) {
      for (const std::string elements : {"100000", "500000", "2000000"}) {
        RackScenario scenario = *parse_scenario(
            rack +
                " links { worker_mbit: 100 server_factor: 12 oversubscription: 4 }\n"
                "exchange { elements: " +
                elements + " } shape: \"" + shape + "\"",
            "s");
        const Work work = work_of(scenario);
        simulate::Network network = *rates_of(scenario).network;
        network.alpha = 0.0;  // as links here
        const double bytes = static_cast<double>(work.payload_bytes());
        const simulate::Exchange exchange = simulate::exchange_of(replay::shape_of(work), network);
        // Formulas spread bytes evenly over servers and trees, as few chunks cannot be.
        if (bytes < 8 * exchange.unit_bytes) continue;
        const double formula = exchange.seconds(bytes);
        const double packets = modelled_seconds(scenario, plan_fabric(scenario, bytes));
        CAPTURE(shape, rack, elements, formula, packets, formula / packets);
        CHECK(formula == Approx(packets).epsilon(0.10));
      }
    }
  }
}

TEST_CASE("a round of more than a million packets takes larger ones") {
  const Modelled many = modelled(
      "racks { workers: 16 servers: 1 } links { server_factor: 16 } exchange { elements: 150000000 "
      "chunk_kib: 1024 }");
  CHECK(many.seconds == Approx(many.least).epsilon(0.01));
}

}  // namespace phub::bench
