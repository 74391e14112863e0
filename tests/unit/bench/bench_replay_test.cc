// Plans of replays, how they are paced, and what is said of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/rack/replay.h"
#include "bench/rack/scenario.h"
#include "bench/replay/outcome.h"
#include "bench/replay/pacer.h"
#include "bench/replay/plan.h"
#include "bench/replay/replay.h"
#include "bench/replay/worker.h"

namespace phub::bench::replay {
namespace {

constexpr std::int64_t kMicrosecond = 1'000;
constexpr std::int64_t kMillisecond = 1'000'000;

// Sleeps end late, and whoever looks at it takes no time.
class LateClock final : public PacingClock {
 public:
  explicit LateClock(std::int64_t late) : late_(late) {}
  std::int64_t now() const override { return now_; }
  void sleep_until(std::int64_t moment) const override {
    now_ = std::max(now_, moment) + late_;
    ++sleeps_;
  }
  void pass(std::int64_t time) { now_ += time; }
  int sleeps() const { return sleeps_; }

 private:
  std::int64_t late_;
  mutable std::int64_t now_ = 5'000 * kMillisecond;
  mutable int sleeps_ = 0;
};

ReplayPlan plan_for(const PlanSource& source) {
  auto plan = plan_of(source);
  INFO((plan ? "" : plan.error().message()));
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

PlanSource model(const std::string& name) {
  return {.model = name, .forward = 0.1, .backward = 0.2};
}

class TraceFile {
 public:
  explicit TraceFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / "phub-replay-test.txt") {
    std::ofstream(path_) << text;
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

constexpr char kTable[] =
    "Id Name Forward(us) Backward(us) Comm(us) Size(bytes)\n"
    "1 conv 1000 2000 0 4000\n"
    "2 pool 500 600 0 0\n"
    "3 fc 3000 4000 0 8002\n";

Outcome outcome_for(ReplayPlan plan) {
  Work work{.transport = "tcp", .workers = 4, .elements = plan.elements()};
  Outcome outcome;
  outcome.plan = std::move(plan);
  outcome.work = work;
  outcome.blocks = {{0.5, 0.7}, {0.9, 0.9}, {0.4, 0.4}};
  return outcome;
}

RackScenario rack_scenario(const std::string& text) {
  auto scenario = parse_scenario(text, "s");
  INFO((scenario ? "" : scenario.error().message()));
  REQUIRE(scenario.has_value());
  return *scenario;
}

std::string rack_refusal(const std::string& text) {
  const auto scenario = parse_scenario("racks { workers: 1 servers: 1 }\n" + text, "s");
  REQUIRE_FALSE(scenario.has_value());
  return scenario.error().message();
}

}  // namespace

TEST_CASE("late sleeps do not add up") {
  LateClock clock(70 * kMicrosecond);
  Pacer pacer(clock);
  pacer.rest();
  const std::int64_t start = clock.now();
  for (int i = 0; i < 1000; ++i) pacer.compute(1e-3);
  CHECK(clock.now() == start + 1000 * kMillisecond + 70 * kMicrosecond);
}

TEST_CASE("what a computation is late by is made up for, without a sleep where it has passed") {
  LateClock clock(0);
  Pacer pacer(clock);
  pacer.rest();
  const std::int64_t start = clock.now();
  clock.pass(3 * kMillisecond);  // pushes, say
  pacer.compute(1e-3);
  pacer.compute(1e-3);
  CHECK(clock.sleeps() == 0);
  pacer.compute(2e-3);
  CHECK(clock.now() == start + 4 * kMillisecond);
  pacer.compute(0.0);
  CHECK(clock.sleeps() == 1);
}

TEST_CASE("a wait delays what follows, one that ends at once does not, and a rest begins anew") {
  LateClock clock(0);
  Pacer pacer(clock);
  pacer.rest();
  std::int64_t since = pacer.waits();
  clock.pass(10 * kMillisecond);
  pacer.waited(since);
  std::int64_t start = clock.now();
  pacer.compute(1e-3);
  CHECK(clock.now() == start + kMillisecond);

  since = pacer.waits();
  clock.pass(5 * kMicrosecond);
  pacer.waited(since);
  pacer.compute(1e-3);
  CHECK(clock.now() == start + 2 * kMillisecond);

  clock.pass(500 * kMillisecond);
  pacer.rest();
  start = clock.now();
  pacer.compute(1e-3);
  CHECK(clock.now() == start + kMillisecond);
}

TEST_CASE("the system's clock sleeps until the moment it is told") {
  const PacingClock& clock = monotonic_clock();
  const std::int64_t moment = clock.now() + kMillisecond;
  clock.sleep_until(moment);
  CHECK(clock.now() >= moment);
  clock.sleep_until(moment - 10 * kMillisecond);  // has passed
}

TEST_CASE("built-in networks have their published parameters, each key for itself") {
  // The papers' networks, as torchvision counts them (GoogLeNet, Inception-v3 without auxiliary
  // classifiers; ResNet-269: below).
  const auto [name, elements] = GENERATE(table<std::string, std::uint64_t>({
      {"alexnet", 61'100'840},
      {"vgg11", 132'863'336},
      {"vgg19", 143'667'240},
      {"googlenet", 6'624'904},
      {"inception_v3", 23'834'568},
      {"resnet18", 11'689'512},
      {"resnet50", 25'557'032},
  }));
  const ReplayPlan plan = plan_for(model(name));
  CHECK(plan.elements() == elements);
  CHECK(plan.compute() == Approx(0.3));
  CHECK(plan.times.find("given") != std::string::npos);
  CHECK(plan.trace(DataType::kFloat16).bytes() == Approx(2.0 * static_cast<double>(elements)));
}

TEST_CASE("ResNet-50 has 161 keys, and ResNet-269 is there") {
  CHECK(plan_for(model("resnet50")).keys().size() == 161);
  CHECK(plan_for(model("resnet269")).elements() == 102'073'384);
}

TEST_CASE("times are shared out by operations or by bytes") {
  PlanSource source = model("vgg11");
  const auto share = [](const ReplayPlan& plan, const std::string& name) {
    const auto found = std::find_if(plan.layers.begin(), plan.layers.end(),
                                    [&](const ReplayLayer& layer) { return layer.name == name; });
    REQUIRE(found != plan.layers.end());
    return found->forward / 0.1;
  };
  // Of 132,863,336 parameters and 7,609,090,048 multiply-adds the first inner product has
  // 25088 * 4096 (+ 4096).
  CHECK(share(plan_for(source), "classifier.0") == Approx(102'760'448.0 / 7'609'090'048.0));
  source.spread = "bytes";
  CHECK(share(plan_for(source), "classifier.0") == Approx(102'764'544.0 / 132'863'336.0));
}

TEST_CASE("a trace is replayed with a key for each layer that has gradients") {
  const TraceFile file(kTable);
  const ReplayPlan plan = plan_for({.trace = file.path()});
  REQUIRE(plan.layers.size() == 3);
  CHECK(plan.keys() == std::vector<std::uint64_t>{1000, 2001});
  CHECK(plan.layers[1].keys.empty());
  CHECK(plan.layers[2].backward == Approx(4e-3));
  CHECK(plan.compute() == Approx(11.1e-3));
  CHECK(plan_for({.trace = file.path(), .shrink = 10}).keys() ==
        std::vector<std::uint64_t>{100, 200});
  CHECK(plan_for({.trace = file.path(), .shrink = 1e6}).keys() == std::vector<std::uint64_t>{1, 1});
}

TEST_CASE("what cannot be replayed is refused by name") {
  const auto missing = plan_of({.trace = "no such file"});
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().message().find("no such file") != std::string::npos);
  const auto unknown = plan_of(model("resnet51"));
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message().find("resnet51") != std::string::npos);

  const TraceFile huge("1 fc 1 1 0 1000000000000000\n");
  const auto large = plan_of({.trace = huge.path()});
  REQUIRE_FALSE(large.has_value());
  CHECK(large.error().code() == Code::kInvalidArgument);
  CHECK(large.error().message().find("shrink") != std::string::npos);

  const ReplayPlan plan = plan_for(model("lenet"));
  const BlockPlan blocks{.iterations = 9, .warm_up = 1};
  CHECK(check_length(plan, blocks, std::chrono::seconds(4), "t").ok());
  const Status late = check_length(plan, blocks, std::chrono::seconds(3), "t");
  CHECK(late.code() == Code::kInvalidArgument);
}

TEST_CASE("a worker is told the whole plan") {
  PlanSource source = model("lenet");
  source.policy = policy_of("bsp");
  source.shrink = 3;
  const ReplayPlan plan = plan_for(source);
  const auto told = nlohmann::json::parse(text_of(plan)).get<ReplayPlan>();
  CHECK(told.policy == Policy::kBsp);
  CHECK(told.keys() == plan.keys());
  CHECK(told.compute() == plan.compute());
  CHECK(policy_of("wfbp") == Policy::kWfbp);
  CHECK(policy_of("priority") == Policy::kPriority);
}

TEST_CASE("the prediction is simulate's, and its error is of the measured median") {
  Outcome outcome = outcome_for(plan_for(model("resnet50")));
  const auto without = nlohmann::json::parse(json_of(outcome));
  CHECK_FALSE(without.contains("predicted_seconds"));
  outcome.rates.network = simulate::Network{.worker_rate = 1e8};
  const auto object = nlohmann::json::parse(json_of(outcome));
  CHECK(object["seconds_p50"].get<double>() == Approx(0.6));  // of 0.6, 0.9 and 0.4
  // 102 MB at 100 MB/s, of which the last layer's 0.1 ms of backward goes before.
  const double predicted = object["predicted_seconds"].get<double>();
  CHECK(predicted > 1.02);
  CHECK(predicted < 1.33);
  CHECK(object["bound"] == "worker NIC");
  CHECK(object["error"].get<double>() == Approx(predicted / 0.6 - 1));
  const std::string text = text_of(outcome);
  CHECK(text.find("predicted") != std::string::npos);
  CHECK(text.find("given") != std::string::npos);

  const auto seconds = [&](const char* policy) {
    ReplayPlan plan = outcome.plan;
    plan.policy = policy_of(policy);
    return prediction_of(plan, outcome.work, *outcome.rates.network).iteration.seconds;
  };
  CHECK(seconds("priority") < seconds("wfbp"));
  CHECK(seconds("wfbp") < seconds("bsp"));
}

TEST_CASE("a rack's scenario becomes an exchange of the same size, and rates of payload") {
  RackScenario scenario = rack_scenario(
      "racks { workers: 3 servers: 2 } racks { workers: 3 servers: 2 }\n"
      "links { worker_mbit: 80 server_factor: 2 oversubscription: 3 mtu: 1500 }\n"
      "replay { model: 'resnet18' forward_ms: 10 backward_ms: 20 shrink: 4 policy: 'wfbp'\n"
      "         dtype: 'bf16' iterations: 7 warm_up: 2 blocks: 3 alpha_us: 90 }");
  REQUIRE(take_replay(scenario, "s").ok());
  const auto plan = replay_plan_of(scenario);
  REQUIRE(plan.has_value());
  CHECK(plan->policy == Policy::kWfbp);
  const Work work = work_of(scenario);
  CHECK(work.elements == plan->elements());
  CHECK(work.wait_s == 300);
  CHECK(std::abs(static_cast<double>(work.elements) - 11'689'512 / 4.0) < 100);
  CHECK(work.dtype == DataType::kBfloat16);
  CHECK(scenario.exchange().rounds() == 7);
  const Rates rates = bench::rates_of(scenario);
  REQUIRE(rates.network.has_value());
  CHECK(rates.network->racks() == 2);
  CHECK(rates.network->servers == 2);
  CHECK(rates.network->alpha == Approx(90e-6));
  const double share = 1448.0 / 1514.0;
  CHECK(rates.network->worker_rate == Approx(1e7 * share));
  CHECK(rates.network->server_rate == Approx(4e7 * share));
  CHECK(rates.network->uplink_rate == Approx(1e7 * share));
}

TEST_CASE("racks that are joined are predicted in their shape") {
  const auto rates = [](const std::string& shape) {
    return bench::rates_of(
        rack_scenario("racks { workers: 2 servers: 1 } racks { workers: 2 servers: 1 }\n"
                      "shape: '" +
                      shape + "' replay { model: 'lenet' backward_ms: 1 }"));
  };
  for (const char* const shape : {"flat", "spread", "chain", "multicolour"}) {
    CHECK(rates(shape).network.has_value());
  }

  // The uplink carries a rack's sum in place of each worker's push.
  RackScenario scenario = rack_scenario(
      "racks { workers: 2 servers: 1 } racks { workers: 2 servers: 1 } shape: 'spread'\n"
      "links { server_factor: 4 oversubscription: 4 } replay { model: 'resnet18' backward_ms: 1 "
      "shrink: 10 }");
  REQUIRE(take_replay(scenario, "s").ok());
  const ReplayPlan plan = *replay_plan_of(scenario);
  const auto seconds = [&] {
    return prediction_of(plan, work_of(scenario), *bench::rates_of(scenario).network)
        .iteration.seconds;
  };
  CHECK(shape_of(work_of(scenario)) == simulate::Shape::kHierarchical);
  const double joined = seconds();
  scenario.set_shape("chain");
  CHECK(shape_of(work_of(scenario)) == simulate::Shape::kRackChain);
  CHECK(seconds() == Approx(joined));  // of two racks all shapes are one
  scenario.set_shape("multicolour");
  CHECK(shape_of(work_of(scenario)) == simulate::Shape::kRackMulticolour);
  CHECK(seconds() == Approx(joined));
  scenario.set_shape("flat");
  CHECK(seconds() > 1.5 * joined);
}

TEST_CASE("a rack's replay is predicted for racks that differ, if they have as many servers") {
  const auto rates = [](const std::string& racks) {
    return bench::rates_of(rack_scenario(racks + " replay { model: 'lenet' backward_ms: 1 }"));
  };
  const Rates differ =
      rates("racks { workers: 1 servers: 1 uplink_mbit: 50 } racks { workers: 3 servers: 1 }");
  REQUIRE(differ.network.has_value());
  CHECK(differ.network->racks_workers == std::vector<std::uint32_t>{1, 3});
  CHECK(differ.network->racks() == 2);
  CHECK(differ.network->workers == 4);
  CHECK(differ.network->uplink(1) == Approx(6 * differ.network->uplink(0)));
  CHECK(differ.network->servers_together(0) == differ.network->servers_together(1));
  CHECK_FALSE(rates("racks { workers: 1 servers: 2 } racks { workers: 1 servers: 1 }").network);
  const Rates none = rates("racks { workers: 1 servers: 1 } racks { servers: 1 uplink_mbit: 9 }");
  CHECK_FALSE(none.network.has_value());
  CHECK_FALSE(none.why_none.empty());
  RackScenario plain = rack_scenario("racks { workers: 1 servers: 1 }");
  CHECK(take_replay(plain, "s").ok());
  CHECK_FALSE(plain.has_exchange());
}

TEST_CASE("a wrong replay of a rack is refused with its place") {
  CHECK(rack_refusal("replay { }").find("trace") != std::string::npos);
  CHECK(rack_refusal("replay { trace: 'a' model: 'lenet' }").find("either") != std::string::npos);
  CHECK(rack_refusal("replay { model: 'lenet' }").find("forward_ms") != std::string::npos);
  CHECK(rack_refusal("replay { model: 'lenot' backward_ms: 1 }").find("s:2:10: replay.model") == 0);
  CHECK(rack_refusal("replay { trace: 'a' spread: 'bytes' }").find("replay.spread") !=
        std::string::npos);
  CHECK(rack_refusal("replay { trace: 'a' policy: 'merged' }").find("replay.policy") !=
        std::string::npos);
  CHECK(rack_refusal("replay { trace: 'a' shrink: 0.5 }").find("replay.shrink") !=
        std::string::npos);
  CHECK(rack_refusal("replay { trace: 'a' } exchange { }").find("exchange") != std::string::npos);
  RackScenario slow =
      rack_scenario("racks { workers: 1 servers: 1 } replay { model: 'lenet' backward_ms: 99000 }");
  CHECK(take_replay(slow, "s").message().find("s: replay.timeout_s") == 0);
}

TEST_CASE("a trace beside a scenario is found") {
  const TraceFile file(kTable);
  const std::filesystem::path path(file.path());
  RackScenario scenario = rack_scenario("racks { workers: 1 servers: 1 } replay { trace: '" +
                                        path.filename().string() + "' }");
  REQUIRE(take_replay(scenario, (path.parent_path() / "scenario").string()).ok());
  CHECK(replay_plan_of(scenario)->elements() == 3001);
}

}  // namespace phub::bench::replay
