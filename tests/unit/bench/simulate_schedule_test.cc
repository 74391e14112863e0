// One iteration, against the closed forms of the DAG model, the published trace of GoogLeNet, and a
// simulation that counts single seconds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "bench/simulate/schedule.h"
#include "tests/unit/bench/published_googlenet.h"

namespace phub::bench::simulate {
namespace {

constexpr double kMs = 1e-3;

LayerTrace published() {
  LayerTrace trace;
  trace.has_comm = true;
  for (const PublishedLayer& layer : kPublishedGooglenet) {
    trace.layers.push_back({.name = "layer",
                            .backward = 1e-6 * layer.backward_us,
                            .comm = 1e-6 * layer.comm_us,
                            .bytes = 4.0 * (layer.weights + layer.biases)});
  }
  return trace;
}

// The authors' 10 GbE of 32 workers: 2N * 45.25 us, and 1.2 times 9 GiBit/s through a ring.
Exchange published_network() {
  const double workers = 32;
  const double beta = 1.2 * 8 / (9.0 * (1 << 30)) * 2 * (workers - 1) / workers;
  return exchange_of(Shape::kLink, {.alpha = 2 * workers * 45.25e-6, .worker_rate = 1 / beta});
}

// A message of b bytes takes alpha + b seconds.
Exchange link(double alpha) {
  return exchange_of(Shape::kLink, {.alpha = alpha, .worker_rate = 1.0});
}

// Chunks of one byte, a second each, that may be interrupted; the last one is there at once.
Exchange stream() {
  Exchange exchange;
  exchange.shape = Shape::kSharded;
  exchange.is_streamed = true;
  exchange.byte = 1.0;
  exchange.chunk_bytes = 1.0;
  return exchange;
}

LayerTrace random_trace(std::mt19937& random) {
  LayerTrace trace;
  const auto layers = 1 + random() % 8;
  for (std::size_t i = 0; i < layers; ++i) {
    trace.layers.push_back({.name = std::to_string(i),
                            .forward = static_cast<double>(random() % 6),
                            .backward = static_cast<double>(random() % 9),
                            .bytes = static_cast<double>(random() % 3 == 0 ? 0 : random() % 12)});
  }
  trace.loss = static_cast<double>(random() % 3);
  return trace;
}

// Second by second: the computation and the network each do one thing at a time. `of_chunks`: the
// network chooses again every second, else it ends a message, which takes `alpha` more.
double ticked(const LayerTrace& trace, Policy policy, bool of_chunks, unsigned alpha) {
  const std::size_t layers = trace.layers.size();
  std::vector<unsigned> backward, forward, network;  // seconds left
  for (const TraceLayer& layer : trace.layers) {
    backward.push_back(static_cast<unsigned>(layer.backward));
    forward.push_back(static_cast<unsigned>(layer.forward));
    network.push_back(layer.bytes > 0 ? static_cast<unsigned>(layer.bytes) + alpha : 0);
  }
  auto loss = static_cast<unsigned>(trace.loss);
  std::size_t below = layers;    // layers from here on have done their backward
  std::size_t above = 0;         // layers up to here have done their forward
  std::size_t sending = layers;  // none
  for (unsigned second = 0;; ++second) {
    while (below > 0 && backward[below - 1] == 0) --below;
    const bool all_back = below == 0;
    const auto is_there = [&] {
      if (policy == Policy::kPriority) return network[above] == 0;
      return std::all_of(network.begin(), network.end(), [](unsigned left) { return left == 0; });
    };
    while (all_back && above < layers && forward[above] == 0 && is_there()) ++above;
    if (above == layers && loss == 0) return second;
    if (sending < layers && (of_chunks || network[sending] == 0)) sending = layers;
    for (std::size_t i = 0; sending == layers && i < layers; ++i) {
      const std::size_t layer = policy == Policy::kPriority ? i : layers - 1 - i;
      const bool is_ready = layer >= below && (policy != Policy::kBsp || all_back);
      if (is_ready && network[layer] > 0) sending = layer;
    }
    const bool is_forward = all_back && above < layers && is_there();
    if (sending < layers) --network[sending];
    if (!all_back) {
      --backward[below - 1];
    } else if (is_forward) {
      --forward[above];
    } else if (above == layers) {
      --loss;
    }
  }
}

double seconds_of(const LayerTrace& trace, const Exchange& exchange, Policy policy) {
  return predict(trace, exchange, policy, {}).seconds;
}

}  // namespace

TEST_CASE("the published trace of GoogLeNet on 8 workers: 516.1 ms without overlap, 311.2 with") {
  const Exchange measured = exchange_of(Shape::kMeasured, {});
  const LayerTrace trace = published();
  CHECK(trace.bytes() == 4 * 13'379'136.0);
  CHECK(seconds_of(trace, measured, Policy::kBsp) == Approx(516.1 * kMs).margin(0.05 * kMs));
  CHECK(seconds_of(trace, measured, Policy::kWfbp) == Approx(311.2 * kMs).margin(0.05 * kMs));
}

TEST_CASE(
    "the published trace on 32 modelled workers: 493.7, 311.2, 288.8, merged 208.3 ms in 13") {
  const LayerTrace trace = published();
  const Exchange network = published_network();
  CHECK(seconds_of(trace, network, Policy::kBsp) == Approx(493.7 * kMs).margin(0.05 * kMs));
  CHECK(seconds_of(trace, network, Policy::kPacked) == Approx(311.2 * kMs).margin(0.05 * kMs));
  CHECK(seconds_of(trace, network, Policy::kWfbp) == Approx(288.8 * kMs).margin(0.05 * kMs));
  const Iteration merged = predict(trace, network, Policy::kMerged, {});
  CHECK(merged.seconds == Approx(208.3 * kMs).margin(0.05 * kMs));
  CHECK(merged.messages.size() == 13);
}

TEST_CASE("input: the sum of all without prefetch, the longer of the two with it") {
  LayerTrace trace;
  trace.layers = {{.name = "one", .forward = 2, .backward = 3, .update = 1, .bytes = 4}};
  trace.loss = 0.5;
  const double rest = 2 + 0.5 + 3 + (7 + 4) + 1;
  for (const double input : {1.0, 40.0}) {
    const InputModel read{.input = input, .transfer = 2, .is_prefetched = false};
    CHECK(predict(trace, link(7), Policy::kBsp, read).seconds == Approx(input + 2 + rest));
    const InputModel fetched{.input = input, .transfer = 2};
    const Iteration iteration = predict(trace, link(7), Policy::kBsp, fetched);
    CHECK(iteration.seconds == Approx(std::max(input + 2, rest)));
    CHECK(iteration.waits_for_input == (input > rest));
  }
}

TEST_CASE("the paper's best case: t_c = 1.5 t_b and t_f = t_b / 2 give 1.5x") {
  // Very many layers: the first message is ready at once.
  LayerTrace trace;
  trace.layers.assign(20'000, {.name = "x", .forward = 0.5, .backward = 1.0, .bytes = 1.5});
  const double bsp = seconds_of(trace, link(0), Policy::kBsp);
  CHECK(bsp / seconds_of(trace, link(0), Policy::kWfbp) == Approx(1.5).epsilon(1e-3));
}

TEST_CASE("predictions agree with a simulation second by second") {
  std::mt19937 random(20);
  for (int i = 0; i < 3000; ++i) {
    const LayerTrace trace = random_trace(random);
    const auto alpha = static_cast<unsigned>(random() % 4);
    CAPTURE(i, alpha);
    for (const Policy policy : {Policy::kBsp, Policy::kWfbp, Policy::kPriority}) {
      CAPTURE(name_of(policy));
      CHECK(seconds_of(trace, link(alpha), policy) == ticked(trace, policy, false, alpha));
      CHECK(seconds_of(trace, stream(), policy) == ticked(trace, policy, true, 0));
    }
  }
}

TEST_CASE("merging never takes longer, and priority no longer than waiting for all") {
  std::mt19937 random(21);
  for (int i = 0; i < 3000; ++i) {
    const LayerTrace trace = random_trace(random);
    const Exchange network = link(static_cast<double>(random() % 5));
    const double wfbp = seconds_of(trace, network, Policy::kWfbp);
    CHECK(seconds_of(trace, network, Policy::kMerged) <= wfbp + 1e-9);
    CHECK(wfbp <= seconds_of(trace, network, Policy::kBsp) + 1e-9);
    CHECK(seconds_of(trace, stream(), Policy::kPriority) <=
          seconds_of(trace, stream(), Policy::kWfbp) + 1e-9);
  }
}

TEST_CASE("the merge rule: while the network is busy, or for less than alpha") {
  // Ready at 1, 2 and 9; a message takes 3 + bytes.
  const std::vector<Message> messages = {{.first = 2, .last = 2, .bytes = 1, .ready = 1},
                                         {.first = 1, .last = 1, .bytes = 1, .ready = 2},
                                         {.first = 0, .last = 0, .bytes = 1, .ready = 9}};
  // The first waits 1 s, less than alpha, for the second. Both are sent before the third is ready.
  const auto groups = merged(messages, link(3));
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].first == 1);
  CHECK(groups[0].last == 2);
  CHECK(groups[0].bytes == 2);
  // Waiting 1 s for an alpha of less than that does not pay.
  CHECK(merged(messages, link(0.5)).size() == 3);
}

TEST_CASE("servers update, else the workers do") {
  LayerTrace trace;
  trace.layers = {{.name = "one", .backward = 1, .update = 5, .bytes = 1}};
  Exchange servers = stream();
  servers.has_servers = true;
  CHECK(seconds_of(trace, servers, Policy::kWfbp) == 2);
  CHECK(seconds_of(trace, stream(), Policy::kWfbp) == 7);
}

TEST_CASE("bars of a lane do not overlap, and compute's fill what is not exposed") {
  std::mt19937 random(22);
  for (int i = 0; i < 300; ++i) {
    const LayerTrace trace = random_trace(random);
    for (const Policy policy : {Policy::kBsp, Policy::kMerged, Policy::kPriority}) {
      const Iteration iteration = predict(trace, link(1), policy, {});
      double ends[3] = {0, 0, 0};
      double compute = 0;
      for (const Bar& bar : iteration.bars) {
        double& end = ends[static_cast<std::size_t>(bar.track)];
        CHECK(bar.start >= end);
        end = bar.start + bar.seconds;
        if (bar.track == Track::kCompute) compute += bar.seconds;
      }
      CHECK(compute == Approx(iteration.compute));
      CHECK(iteration.compute + iteration.exposed == Approx(iteration.seconds));
    }
  }
}

}  // namespace phub::bench::simulate
