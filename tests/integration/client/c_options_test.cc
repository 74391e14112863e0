// The options of libphub from C: what they set, and what they refuse.
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/server/c_workers.h"
#include "worker/client/phub_c.h"

namespace phub::testing {

using Catch::Contains;

TEST_CASE("what cannot be is refused with its reason, and nothing is touched") {
  const Named options = {{"servers", "127.0.0.1:1"}, {"timeout_ms", "1"}};
  const auto refusal = [&options](const Named& more) {
    Named wrong = options;
    for (const auto& [name, value] : more) wrong[name] = value;
    return Worker(wrong).error();
  };
  CHECK_THAT(refusal({{"rule", "rmsprop"}}), Contains("rule: \"rmsprop\" is not sum, mean, sgd"));
  CHECK_THAT(refusal({{"wire_type", "fp8"}}), Contains("\"fp8\" is not fp32, fp16 or bf16"));
  CHECK_THAT(refusal({{"watch_values", "maybe"}}), Contains("\"maybe\" is not off, name or fail"));
  CHECK_THAT(refusal({{"loss_scaling", "voted"}, {"loss_scale", "2"}, {"rule", "sgd"}}),
             Contains("loss_scale: 2 contradicts loss_scaling: voted"));
  CHECK_THAT(refusal({{"rule", "mean"}, {"learning_rate", "0.1"}}),
             Contains("learning_rate: 0.1 contradicts rule: mean"));
  CHECK_THAT(refusal({{"rule", "sgd"}, {"momentum", "0.9"}}),
             Contains("momentum: 0.9 contradicts rule: sgd"));
  CHECK_THAT(refusal({{"credentials", "/no/such/folder"}}), Contains("/no/such/folder"));
  CHECK_THAT(Worker(Named{}).error(), Contains("servers"));
  CHECK_THAT(refusal({{"rounds.late", "keep"}}), Contains("\"keep\" is not drop or add"));
  CHECK_THAT(refusal({{"rounds.weight", "age"}}), Contains("is not one, staleness or samples"));
  CHECK_THAT(refusal({{"rounds.staleness", "2"}}), Contains("contradicts rounds.quorum: 0"));
  CHECK_THAT(refusal({{"rounds.quorums", "2"}}), Contains("did you mean rounds.quorum?"));
  CHECK_THAT(refusal({{"server", "x:1"}}), Contains("did you mean servers?"));
  CHECK_THAT(refusal({{"name", "x"}}), Contains("name: there is no such option"));
  CHECK_THAT(refusal({{"timeout_ms", "0"}}), Contains("timeout_ms: \"0\" is not 1 or more"));
  CHECK_THAT(refusal({{"worker_index", "first"}}), Contains("is not a whole number"));
  CHECK_THAT(refusal({{"worker_index", "-2"}}), Contains("worker_index: -2 is below -1"));
  CHECK_THAT(refusal({{"compress.density", "0.1"}}), Contains("mean nothing with encoding dense"));
  CHECK_THAT(refusal({{"rounds", "3"}}), Contains("is a group of fields"));
  CHECK_THAT(refusal({{"rounds.staleness", "4294967295"}}), Contains("is no bound"));
  CHECK_THAT(refusal({{"require_encryption", "1"}}), Contains("is not true or false"));
  CHECK_THAT(refusal({{"encoding", "sparse"}, {"rule", "sgd"}, {"compress.density", "2"}}),
             Contains("compress: density 2"));
  phub_options* const nothing = phub_options_new();
  CHECK(phub_options_set(nothing, nullptr, "x", nullptr) == 1);
  const char* error = nullptr;
  CHECK(phub_options_set(nothing, "rule", nullptr, &error) == 1);
  CHECK_THAT(error, Contains("is NULL"));
  phub_options_destroy(nothing);

  const Worker failed(Named{});
  const std::string said = failed.error();
  for (const int status :
       {phub_register_keys(failed, kCKeys.data(), kCKeys.size()),
        phub_add_keys(failed, kCKeys.data(), kCKeys.size()), phub_push(failed, 0),
        phub_wait(failed, 0), phub_wait_all(failed), phub_wait_for(failed, 0, 1),
        phub_push_pull(failed, 0), phub_initialise(failed), phub_snapshot(failed, nullptr),
        phub_set_hyper(failed, 1, 1, 1), phub_set_samples(failed, 1),
        phub_report_steps(failed, 1, 0, 1.0, 0.0, 0.0), phub_set_loss_scale(failed, 1),
        phub_vote(failed, 0, 1)}) {
    CHECK(status == 1);
  }
  CHECK(failed.error() == said);
  CHECK(phub_gradient(failed, 0, nullptr) == nullptr);
  CHECK(phub_parameter(failed, 0, nullptr) == nullptr);
  CHECK(phub_was_skipped(failed, 0) == 0);
  CHECK(phub_rounds_before(failed) == 0);
  CHECK(phub_worker_index(failed) == 0);
  CHECK(phub_workers(failed) == 0);
}

TEST_CASE("what a quorum contradicts is refused by name, before anybody is asked") {
  const auto refusal = [](const Named& options) { return Worker(options).error(); };
  const Named two = {{"servers", "127.0.0.1:1"}, {"workers", "2"}};
  Named in_order = two;
  in_order["rounds.quorum"] = "1";
  CHECK_THAT(refusal(in_order), Contains("rounds.quorum: 1 contradicts order: deterministic"));
  Named without = two;
  without["rounds.grace_ms"] = "5";
  CHECK_THAT(refusal(without), Contains("rounds.grace_ms: 5 contradicts rounds.quorum: 0"));
}

TEST_CASE("pushes are encoded, and racks named, by options as well") {
  Place place;
  place.options["rule"] = "sgd";
  place.options["transport"] = "tcp";
  place.options["learning_rate"] = "1";
  place.options["gradient_scale"] = "1";
  place.options["encoding"] = "int8";
  CHECK(place.run([](const Worker& worker) -> std::string {
    if (phub_initialise(worker) != 0) return "initialise";
    worker.gradient(1)[4] = 127.0F;
    const std::string wrong = exchange(worker);
    return wrong.empty() && worker.parameter(1)[4] != -254.0F ? "a wrong parameter" : wrong;
  }) == kNothingWrong);
  Named racks = place.options;
  racks["racks"] = "a:1,b:2";
  racks["workers"] = "3";
  CHECK(Worker(racks).error() == "");
  racks["rack_wire_type"] = "bf16";
  racks["rack_local_steps"] = "4";
  CHECK_THAT(Worker(racks).error(),
             Contains("rack_local_steps: 4 contradicts rack_wire_type: bf16"));
  racks.erase("rack_wire_type");
  racks["rack_outer_rate"] = "0.5";
  CHECK(Worker(racks).error() == "");
  racks["encoding"] = "dense";
  racks["racks"] = "a:1";
  CHECK_THAT(Worker(racks).error(), Contains("racks: ") && Contains("two racks or more"));
}

TEST_CASE("a run that no header can have is refused") {
  Place place;
  place.options["run"] = "two words";
  CHECK_THAT(Worker(place.options).error(), Contains("run: must be at most 128 printable"));
}

TEST_CASE("several tcp streams exchange what one does, and contradict shm") {
  Place place;
  place.options["tcp_streams"] = "3";
  CHECK_THAT(Worker(place.options).error(), Contains("tcp_streams: 3 contradicts transport: shm"));
  place.options["transport"] = "tcp";
  CHECK(place.run([](const Worker& worker) -> std::string {
    for (const std::uint32_t key : {0U, 1U}) worker.gradient(key)[2] = 4.0F;
    const std::string wrong = exchange(worker);
    return wrong.empty() && worker.parameter(1)[2] != 8.0F ? "a wrong sum" : wrong;
  }) == kNothingWrong);
}

}  // namespace phub::testing
