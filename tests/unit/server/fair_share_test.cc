#include "server/sharing/fair_share.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>

using phub::server::FairShare;

namespace {

constexpr std::uint64_t kQuantum = 1000;

// Serves `services` pieces of cost `cost(flow)`; nobody's work ends. Returns what each got.
template <typename Cost>
std::map<const FairShare::Flow*, std::uint64_t> serve(FairShare& share, int services, Cost cost) {
  std::map<const FairShare::Flow*, std::uint64_t> got;
  for (int i = 0; i < services; ++i) {
    FairShare::Flow* flow = share.next();
    REQUIRE(flow != nullptr);
    const std::uint64_t spent = cost(*flow);
    share.charge(*flow, spent);
    got[flow] += spent;
  }
  return got;
}

// A flow that wants the core.
void enter(FairShare& share, FairShare::Flow& flow, std::uint64_t tenant, std::uint32_t weight) {
  share.add(flow, tenant, weight);
  share.wake(flow);
}

double ratio(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

TEST_CASE("Tenants that always want the core get it by weight, whatever their pieces cost") {
  FairShare share(kQuantum);
  FairShare::Flow one;
  FairShare::Flow two;
  FairShare::Flow four;
  enter(share, one, 1, 1);
  enter(share, two, 2, 2);
  enter(share, four, 3, 4);
  std::mt19937 random(7);
  const auto got = serve(share, 100'000, [&](const FairShare::Flow& flow) {
    const std::uint64_t mean = &flow == &one ? 900 : 150;  // the light one has the large pieces
    return mean / 2 + random() % mean;
  });
  CHECK(ratio(got.at(&two), got.at(&one)) == Approx(2.0).epsilon(0.01));
  CHECK(ratio(got.at(&four), got.at(&one)) == Approx(4.0).epsilon(0.01));
}

TEST_CASE("Weights far apart hold too") {
  FairShare share(kQuantum);
  FairShare::Flow light;
  FairShare::Flow heavy;
  enter(share, light, 1, 1);
  enter(share, heavy, 2, 1000);
  const auto got = serve(share, 1'000'000, [](const FairShare::Flow&) { return 400ULL; });
  CHECK(ratio(got.at(&heavy), got.at(&light)) == Approx(1000.0).epsilon(0.05));
}

TEST_CASE("The turns of heavy tenants are no longer than the longest turn") {
  FairShare share(kQuantum);
  std::array<FairShare::Flow, 2> flows;
  for (std::size_t i = 0; i < flows.size(); ++i) enter(share, flows[i], i, 1000);
  for (int i = 0; i < 100; ++i) {
    FairShare::Flow* const flow = share.next();
    std::uint64_t turn = 0;
    for (; share.next() == flow; turn += 400) share.charge(*flow, 400);
    CHECK(turn <= FairShare::kTurnMax * kQuantum + 400);
  }
}

TEST_CASE("A heavy tenant that rests does not shrink the turns of others") {
  FairShare share(kQuantum);
  std::array<FairShare::Flow, 2> light;
  FairShare::Flow heavy;
  for (std::size_t i = 0; i < light.size(); ++i) enter(share, light[i], i, 1);
  const auto longest_turn = [&] {
    std::uint64_t longest = 0;
    for (int i = 0; i < 100; ++i) {
      FairShare::Flow* const flow = share.next();
      std::uint64_t turn = 0;
      for (; share.next() == flow; turn += 10) share.charge(*flow, 10);
      if (flow != &heavy) longest = std::max(longest, turn);
    }
    return longest;
  };
  CHECK(longest_turn() >= kQuantum);
  share.add(heavy, 7, 1000);
  CHECK(longest_turn() >= kQuantum);
  share.wake(heavy);
  longest_turn();  // what was left of their turns
  CHECK(longest_turn() < kQuantum / 10);
  share.rest(heavy);
  CHECK(longest_turn() >= kQuantum);
}

TEST_CASE("A tenant's share does not grow with its jobs, which share it equally") {
  FairShare share(kQuantum);
  FairShare::Flow alone;
  std::array<FairShare::Flow, 9> many;
  enter(share, alone, 1, 1);
  for (FairShare::Flow& flow : many) enter(share, flow, 2, 1);
  const auto got = serve(share, 100'000, [](const FairShare::Flow&) { return 300ULL; });
  std::uint64_t together = 0;
  for (const FairShare::Flow& flow : many) together += got.at(&flow);
  CHECK(ratio(together, got.at(&alone)) == Approx(1.0).epsilon(0.01));
  CHECK(ratio(got.at(&many[0]), got.at(&many[8])) == Approx(1.0).epsilon(0.02));
}

TEST_CASE("Who is alone gets everything and owes nothing for it later") {
  FairShare share(kQuantum);
  FairShare::Flow first;
  FairShare::Flow second;
  share.add(first, 1, 1);
  share.add(second, 2, 1);
  share.wake(first);
  serve(share, 10'000, [](const FairShare::Flow&) { return 5000ULL; });
  share.wake(second);
  const auto got = serve(share, 1000, [](const FairShare::Flow&) { return 100ULL; });
  CHECK(ratio(got.at(&first), got.at(&second)) == Approx(1.0).epsilon(0.05));
}

TEST_CASE("A turn that is not used is not saved up") {
  FairShare share(kQuantum);
  FairShare::Flow busy;
  FairShare::Flow idle;
  share.add(busy, 1, 1);
  share.add(idle, 2, 1);
  share.wake(busy);
  for (int i = 0; i < 1000; ++i) {  // comes, is served little, goes
    share.wake(idle);
    share.charge(*share.next(), 100);
    share.rest(idle);
  }
  share.wake(idle);
  const auto got = serve(share, 1000, [](const FairShare::Flow&) { return 100ULL; });
  CHECK(ratio(got.at(&idle), got.at(&busy)) == Approx(1.0).epsilon(0.05));
}

TEST_CASE("One very long service does not silence a job for longer than some turns") {
  FairShare share(kQuantum);
  FairShare::Flow unlucky;
  FairShare::Flow other;
  enter(share, unlucky, 1, 1);
  enter(share, other, 2, 1);
  share.charge(unlucky, 1'000'000'000);  // its core was taken off the CPU
  const auto got = serve(share, 1000, [](const FairShare::Flow&) { return 100ULL; });
  CHECK(got.at(&unlucky) > 30'000);
}

TEST_CASE("Flows that come and go at random are all served, and who is next is awake") {
  FairShare share(kQuantum);
  std::array<FairShare::Flow, 12> flows;
  std::mt19937 random(11);
  std::array<int, 12> waiting = {};
  for (int step = 0; step < 200'000; ++step) {
    const std::size_t i = random() % flows.size();
    switch (random() % 8) {
      case 0:
        if (flows[i].is_added()) {
          share.remove(flows[i]);
          waiting[i] = 0;
        } else {
          share.add(flows[i], i % 5, 1 + static_cast<std::uint32_t>(i % 5));
        }
        break;
      case 1:
      case 2:
        if (flows[i].is_added()) {
          share.wake(flows[i]);
          ++waiting[i];
        }
        break;
      default:
        if (FairShare::Flow* flow = share.next()) {
          REQUIRE(flow->is_awake());
          const auto index = static_cast<std::size_t>(flow - flows.data());
          REQUIRE(waiting[index] > 0);
          share.charge(*flow, random() % 3000);
          if (--waiting[index] == 0) share.rest(*flow);
        } else {
          REQUIRE(share.awake() == 0);
        }
    }
  }
}

TEST_CASE("A turn after a rest is a whole one, whatever was left of the last") {
  FairShare share(kQuantum);
  std::array<FairShare::Flow, 2> flows;  // of one tenant
  for (FairShare::Flow& flow : flows) enter(share, flow, 1, 1);
  const auto serve_until_turn_of = [&](const FairShare::Flow& wanted) {
    while (share.next() != &wanted) share.charge(*share.next(), 100);
  };
  serve_until_turn_of(flows[0]);
  share.charge(flows[0], 100);
  share.rest(flows[0]);
  share.wake(flows[0]);
  serve_until_turn_of(flows[1]);
  serve_until_turn_of(flows[0]);
  int services = 0;
  for (; share.next() == &flows[0]; ++services) share.charge(flows[0], 100);
  CHECK(services == kQuantum / 100);
}
