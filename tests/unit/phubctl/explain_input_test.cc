// The worker whose input holds up a job is named from what workers say, with the cure.
#include <nlohmann/json.hpp>
#include <string>

#include "server/phubctl/explain/input.h"
#include "tests/unit/phubctl/explain_case.h"

namespace phub::phubctl {
namespace {

// Shares of a step of 100 ms; the rest is computing.
struct Said {
  double input = 0.0;
  double exchange = 0.1;
  std::uint32_t threads = 2;
  std::uint32_t cpus = 8;
  StepWaits from = {};
};

void say(Case& c, int worker, const Said& said) {
  control::StepWaits& times = *c.job.mutable_members(worker)->mutable_step_waits();
  times.set_steps(100);
  times.set_step_ns(10'000'000'000);
  times.set_input_ns(static_cast<std::uint64_t>(said.input * 1e10));
  times.set_exchange_ns(static_cast<std::uint64_t>(said.exchange * 1e10));
  times.set_samples(3200);
  times.set_input_threads(said.threads);
  times.set_cpus(said.cpus);
  times.set_from_source(said.from.from_source);
  times.set_from_disk(said.from.from_disk);
  times.set_from_memory(said.from.from_memory);
  times.set_from_peers(said.from.from_peers);
}

Case computing(std::uint32_t workers = 4) {
  return Case({.compute = 0.83, .push = 0.05, .wait = 0.04, .aggregate = 0.04, .reply = 0.04},
              workers);
}

std::string explained(const Case& c) {
  return explanation_text(c.job, {.before = {}, .now = c.server});
}

TEST_CASE("workers that compute are not bound by their input, whether they say so or not") {
  Case c = computing();
  CHECK(c.topics() == Topics{"compute"});
  CHECK_THAT(explained(c), Contains("No worker says what its steps wait for"));
  for (int worker = 0; worker < 3; ++worker) say(c, worker, {.input = 0.05});
  CHECK(c.topics() == Topics{"compute"});
  const std::string text = explained(c);
  CHECK_THAT(text, Contains("What the workers say of their last steps:") &&
                       Contains("5.0 %    10.0 %   85.0 %") && Contains("does not say"));
}

TEST_CASE("input that every worker waits for is the bound, and computing is not blamed for it") {
  Case c = computing();
  for (int worker = 0; worker < 4; ++worker) say(c, worker, {.input = 0.6});
  CHECK(c.topics() == Topics{"input"});
  const Reason found = c.find("input");
  CHECK(found.seconds == Approx(0.06));
  CHECK_THAT(found.what,
             Contains("Input is the bound: worker 0 (host-0, pid 4700) waits for its samples "
                      "60.0 % of its step of 100.0 ms, and computes 30.0 % of it.") &&
                 Contains("So do worker 1 (host-1, pid 4701) 60.0 %, worker 2 (host-2, pid 4702) "
                          "60.0 %, and 1 more.") &&
                 !Contains("Each round waits"));
}

TEST_CASE("one worker's slow input is named where the others wait for it in the exchange") {
  Case c({.compute = 0.3, .push = 0.1, .wait = 0.5, .aggregate = 0.05, .reply = 0.05});
  control::WorkerTiming& late = *c.job.mutable_timing()->mutable_workers(2);
  late.set_last_share(0.95);
  late.set_late_seconds(0.048);
  CHECK(c.topics() == Topics{"straggler"});
  for (const int worker : {0, 1, 3}) say(c, worker, {.exchange = 0.65});
  say(c, 2, {.input = 0.55, .exchange = 0.1});
  CHECK(c.topics() == Topics{"input"});  // why it is late, so it is not told twice
  const Reason found = c.find("input");
  CHECK_THAT(found.what, Contains("worker 2 (host-2, pid 4702) waits for its samples 55.0 %") &&
                             Contains("Each round waits for it: worker 0 (host-0, pid 4700) spends "
                                      "65.0 % of its steps in the exchange."));
  CHECK(found.seconds == Approx(0.055));
  // It computes for long: its samples would make no difference.
  say(c, 2, {.input = 0.05, .exchange = 0.1});
  CHECK(c.topics() == Topics{"straggler"});
}

TEST_CASE("input of a worker that waits for others is not to blame") {
  Case c = computing(2);
  say(c, 0, {.input = 0.0, .exchange = 0.02});
  say(c, 1, {.input = 0.3, .exchange = 0.4});
  CHECK(c.topics() == Topics{"compute"});
  CHECK(input_share(c.job) == 0.0);
  // Nor that of one which has left, or was lost.
  say(c, 0, {.input = 0.6, .exchange = 0.02});
  CHECK(c.topics() == Topics{"input"});
  CHECK(input_share(c.job) == Approx(0.6));
  c.job.mutable_members(0)->set_left(true);
  c.job.mutable_members(1)->set_lost(true);
  CHECK(c.topics() == Topics{"compute"});
  CHECK_FALSE(input_share(c.job));
}

TEST_CASE("the first steps of a worker do not tell whether its input is slow") {
  Case c = computing(1);
  say(c, 0, {.input = 0.6});
  c.job.mutable_members(0)->mutable_step_waits()->set_steps(9);
  CHECK(c.topics() == Topics{"compute"});
  c.job.mutable_members(0)->mutable_step_waits()->set_steps(10);
  CHECK(c.topics() == Topics{"input"});
}

TEST_CASE("with a quorum each worker's input is its own, and the slowest is told") {
  Case c = computing(3);
  c.job.mutable_spec()->mutable_rounds()->set_quorum(2);
  CHECK(c.topics() == Topics{kNothing});
  say(c, 0, {.input = 0.0, .exchange = 0.0});
  say(c, 1, {.input = 0.3, .exchange = 0.2});
  CHECK(c.topics() == Topics{"input"});
  CHECK_THAT(c.find("input").what, Contains("worker 1 (host-1, pid 4701) waits for its samples "
                                            "30.0 %"));
  c.job.mutable_spec()->mutable_rounds()->set_turns(true);
  CHECK(c.topics() == Topics{"turns", "input"});
}

TEST_CASE("the cure is chosen by threads and CPUs, and by where samples come from") {
  const auto cure = [](const Said& said) {
    Case c = computing(1);
    say(c, 0, said);
    return c.find("input").cure;
  };
  CHECK_THAT(cure({.input = 0.5}),
             Contains("`phub-worker data bench CONFIG`") &&
                 Contains("raise data.threads, now 2, if some of its 8 CPUs are idle") &&
                 Contains("data.cache.memory_mib") && Contains("data.cache.path") &&
                 Contains("data.spread"));
  CHECK_THAT(cure({.input = 0.5, .threads = 0}), Contains("set data.threads"));
  CHECK_THAT(cure({.input = 0.5, .threads = 8}),
             Contains("its 8 data.threads have all of its 8 CPUs") &&
                 Contains("`phub-worker data pack`") && !Contains("raise"));
  CHECK_THAT(cure({.input = 0.5, .from = {.from_source = 90, .from_memory = 10}}),
             Contains("90.0 % of its samples come from the source") && Contains("too small"));
  CHECK_THAT(cure({.input = 0.5, .from = {.from_source = 1, .from_disk = 9}}),
             Contains("90.0 % of its samples come from copies on its disk") &&
                 Contains("data.cache.memory_mib"));
  CHECK_THAT(cure({.input = 0.5, .from = {.from_peers = 9}}),
             Contains("come from other workers") && Contains("`phubctl doctor --peer`"));
  CHECK_THAT(cure({.input = 0.5, .from = {.from_memory = 9}}),
             Contains("to decode and to crop") && Contains("data pack"));
  // A program of the user's own has no configuration.
  CHECK_THAT(cure({.input = 0.5, .threads = 0, .cpus = 0}),
             Contains("give its data loader more threads") && !Contains("data."));
}

TEST_CASE("workers' steps are in the JSON, and at most eight of them in the text") {
  Case c = computing(10);
  for (int worker = 0; worker < 9; ++worker)
    say(c, worker, {.input = 0.01 * worker, .from = {.from_source = 1, .from_disk = 3}});
  const std::string text = explained(c);
  CHECK_THAT(text, Contains("source 25.0 %, disk 75.0 %") && Contains("... 2 more workers"));
  CHECK_THAT(text, Contains("     8  100.0 ms  8.0 %"));
  CHECK_THAT(text, !Contains("\n     0  100.0 ms"));  // waits the least
  const auto json = nlohmann::json::parse(explanation_json(c.job, {.before = {}, .now = c.server}));
  REQUIRE(json["steps"].size() == 10);
  CHECK(json["steps"][8]["input_share"].get<double>() == Approx(0.08));
  CHECK(json["steps"][8]["says"] == true);
  CHECK(json["steps"][8]["from_disk"] == 3);
  CHECK(json["steps"][9] == nlohmann::json({{"worker_index", 9}, {"says", false}}));
}

TEST_CASE("steps that a server should not have told are as if the worker did not say") {
  Case c = computing(1);
  say(c, 0, {.input = 0.6});
  c.job.mutable_members(0)->mutable_step_waits()->set_exchange_ns(UINT64_MAX);
  CHECK(c.topics() == Topics{"compute"});
  CHECK_FALSE(input_share(c.job));
}

}  // namespace
}  // namespace phub::phubctl
