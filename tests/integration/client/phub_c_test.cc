// libphub from C: every function of phub_c.h, what it does and what it refuses.
#include "worker/client/phub_c.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/server/c_workers.h"

namespace phub::testing {

using Catch::Contains;

TEST_CASE("keys are pushed and waited for one by one, all together, and both in one call") {
  const Place place;
  CHECK(place.run([](const Worker& worker) -> std::string {
    const auto own = static_cast<float>(phub_worker_index(worker));
    std::size_t bytes = 0;
    if (phub_gradient(worker, 1, &bytes) == nullptr || bytes != 5 * sizeof(float)) return "size";
    bytes = 0;
    if (phub_parameter(worker, 0, &bytes) == nullptr || bytes != 3 * sizeof(float)) return "size";
    if (phub_rounds_before(worker) != 0) return "rounds of a new job";
    for (int round = 0; round < 3; ++round) {
      const auto base = static_cast<float>(round);
      for (const std::uint32_t key : {0U, 1U}) {
        worker.gradient(key)[2] = base + own;
        if (round < 2 && phub_push(worker, key) != 0) return "push";
      }
      if (round == 0 && (phub_wait(worker, 0) != 0 || phub_wait(worker, 1) != 0)) return "wait";
      if (round == 1 && phub_wait_all(worker) != 0) return "wait_all";
      for (const std::uint32_t key : {0U, 1U}) {
        // The two share a chunk, so both are pushed before one is waited for.
        if (round == 2 && key == 0 && phub_push(worker, 1) != 0) return "push";
        if (round == 2 && key == 0 && phub_push_pull(worker, 0) != 0) return "push_pull";
        if (round == 2 && key == 1 && phub_wait(worker, 1) != 0) return "wait";
        if (worker.parameter(key)[2] != 2 * base + 1) return "a wrong sum";
        if (phub_was_skipped(worker, key) != 0) return "skipped";
      }
    }
    return "";
  }) == kNothingWrong);
}

TEST_CASE("workers stop after the same step when one of them asks for the end") {
  const Place place;
  std::array<std::atomic<int>, 2> steps{};
  CHECK(place.run([&](const Worker& worker) -> std::string {
    const std::uint32_t index = phub_worker_index(worker);
    if (phub_ending(worker) != nullptr) return "an end that nobody planned";
    for (std::uint64_t step = 1;; ++step) {
      if (phub_push(worker, 0) != 0 || phub_push(worker, 1) != 0) return "push";
      if (step == 5 && index == 1 && phub_end(worker, "enough") != 0) return "end";
      const int status = phub_is_last(worker, step, 0);
      if (phub_wait_all(worker) != 0) return "wait_all";
      steps.at(index) = static_cast<int>(step);
      if (status == PHUB_LAST) break;
      if (status != 0) return "is_last";
    }
    return std::string("enough") == phub_ending(worker) ? "" : "another reason";
  }) == kNothingWrong);
  CHECK(steps[0] >= 5);
  CHECK(steps[0] == steps[1]);
}

TEST_CASE("keys that are added have the next numbers") {
  const Place place;
  CHECK(place.run([](const Worker& worker) -> std::string {
    const std::vector<phub_key> more = {
        {.name = "c", .elements = 7, .weight_decay = 0.0F, .exclude_from_lars = 0}};
    if (phub_add_keys(worker, more.data(), more.size()) != 0) return "add_keys";
    std::size_t bytes = 0;
    if (phub_gradient(worker, 2, &bytes) == nullptr || bytes != 7 * sizeof(float)) return "size";
    if (phub_gradient(worker, 3, nullptr) != nullptr) return "a key too many";
    worker.gradient(2)[6] = 3.0F;
    if (phub_push_pull(worker, 2) != 0) return "push_pull";
    if (phub_add_keys(worker, more.data(), more.size()) == 0) return "the same once more";
    if (worker.error().find("key c is there already") == std::string::npos) return worker.error();
    return phub_push(worker, 2) == 0 && phub_wait_all(worker) == 0 ? "" : "push";
  }) == kNothingWrong);
}

TEST_CASE("a wait in slices says that a key is not there yet, and then that it is") {
  const Place place;
  std::promise<void> first_slice_is_over;
  auto is_over = first_slice_is_over.get_future();
  CHECK(place.run([&](const Worker& worker) -> std::string {
    const bool is_first = phub_worker_index(worker) == 0;
    if (!is_first) is_over.wait();
    worker.gradient(0)[1] = 2.0F;
    if (phub_push(worker, 0) != 0 || phub_push(worker, 1) != 0) return "push";
    if (is_first) {
      const int status = phub_wait_for(worker, 0, 1);
      first_slice_is_over.set_value();
      if (status != PHUB_NOT_YET) return "there before the other has pushed";
      if (!worker.error().empty()) return "a slice is no error";
    }
    for (const std::uint32_t key : {0U, std::uint32_t{PHUB_ALL_KEYS}}) {
      int status = PHUB_NOT_YET;
      while (status == PHUB_NOT_YET) status = phub_wait_for(worker, key, 1);
      if (status != 0) return "wait";
    }
    return worker.parameter(0)[1] == 4.0F ? "" : "a wrong sum";
  }) == kNothingWrong);
}

TEST_CASE("the slices of a wait have one deadline") {
  Place place;
  place.options["timeout_ms"] = "10000";
  std::promise<void> timed_out;
  auto has_timed_out = timed_out.get_future();
  CHECK(place
            .run([&](const Worker& worker) -> std::string {
              if (phub_worker_index(worker) != 0) {
                has_timed_out.wait();
                return "";
              }
              int status = phub_push(worker, 0) != 0 ? 1 : PHUB_NOT_YET;
              while (status == PHUB_NOT_YET) status = phub_wait_for(worker, 0, 100);
              timed_out.set_value();
              return worker.error();
            })[0]
            .find("no reply within 10000 ms for key a") != std::string::npos);
}

TEST_CASE(
    "worker 0's first values are the parameters, and hyper-parameters hold from their round") {
  Place place;
  place.options["rule"] = "sgd";
  place.options["learning_rate"] = "1.0";
  place.options["gradient_scale"] = "1.0";
  CHECK(place.run([](const Worker& worker) -> std::string {
    worker.gradient(0)[0] = phub_worker_index(worker) == 0 ? 10.0F : 99.0F;
    if (phub_initialise(worker) != 0) return "initialise";
    if (worker.parameter(0)[0] != 10.0F) return "worker 0's are the parameters";
    for (const float rate : {1.0F, 0.5F}) {
      const float before = worker.parameter(0)[0];
      worker.gradient(0)[0] = 2.0F;
      if (const std::string wrong = exchange(worker, rate, 1.0F); !wrong.empty()) return wrong;
      if (worker.parameter(0)[0] != before - rate * 4.0F) return "another step";
    }
    return "";
  }) == kNothingWrong);
}

TEST_CASE("with a quorum of one a worker goes on alone, and a scale that is set is honoured") {
  Place place;
  place.options["rule"] = "sgd";
  place.options["learning_rate"] = "1.0";
  place.options["order"] = "arrival";
  place.options["rounds.quorum"] = "1";
  place.options["rounds.staleness"] = "3";
  place.options["rounds.late"] = "add";
  place.options["rounds.weight"] = "staleness";
  CHECK(place.run([](const Worker& worker) -> std::string {
    if (phub_initialise(worker) != 0) return "initialise";
    if (phub_worker_index(worker) != 0) return "";  // done, and nobody waits for it
    for (const float scale : {0.0F, 2.0F, 0.25F, 0.5F, 0.0F}) {
      const float before = worker.parameter(0)[0];
      worker.gradient(0)[0] = 2.0F;
      if (const std::string wrong = exchange(worker, 1.0F, scale); !wrong.empty()) return wrong;
      // 1 / workers is a mean, over the one who came.
      const float used = scale == 0.0F || scale == 0.5F ? 1.0F : scale;
      if (worker.parameter(0)[0] != before - used * 2.0F) return "another step";
    }
    return "";
  }) == kNothingWrong);
}

TEST_CASE("a mean is over the samples that workers say they have") {
  Place place;
  place.options["rule"] = "sgd";
  place.options["learning_rate"] = "1.0";
  place.options["order"] = "arrival";
  place.options["timeout_ms"] = "60000";
  place.options["rounds.quorum"] = "1";
  place.options["rounds.grace_ms"] = "50000";  // so a round has both, and ends with the second
  place.options["rounds.weight"] = "samples";
  CHECK(place.run([](const Worker& worker) -> std::string {
    if (phub_initialise(worker) != 0) return "initialise";
    const bool is_first = phub_worker_index(worker) == 0;
    if (phub_set_samples(worker, 0.0F) == 0) return "none is accepted";
    float expected = worker.parameter(0)[0];
    for (const float samples : {1.0F, 3.0F}) {
      worker.gradient(0)[0] = is_first ? 2.0F : 6.0F;
      if (!is_first && phub_set_samples(worker, samples) != 0) return "set_samples";
      if (const std::string wrong = exchange(worker, 1.0F, 0.0F); !wrong.empty()) return wrong;
      expected -= (2.0F + 6.0F * samples) / (1.0F + samples);
      if (worker.parameter(0)[0] != expected) return "another step";
    }
    return "";
  }) == kNothingWrong);
}

TEST_CASE("a worker says what its steps took, and what no step takes is refused by its name") {
  Place place;
  CHECK(place.run([](const Worker& worker) -> std::string {
    if (phub_report_steps(worker, 10, 320, 2.0, 1.0, 0.5) != 0) return "report_steps";
    if (phub_report_steps(worker, 10, 320, 2.0, 1.5, 0.6) == 0) return "parts that are too long";
    if (worker.error().find("step_waits.exchange_ns") == std::string::npos) return worker.error();
    if (phub_report_steps(worker, 10, 320, std::nan(""), 0.0, 0.0) == 0) return "no number";
    if (worker.error().find("step_waits.step_ns") == std::string::npos) return worker.error();
    if (phub_report_steps(worker, 0, 0, 1.0, 0.0, 0.0) == 0) return "no step";
    return exchange(worker);  // which goes on all the same
  }) == kNothingWrong);
}

TEST_CASE("workers that take turns compute from each other's parameters, one by one") {
  Place place;
  place.options["rule"] = "elastic";
  place.options["learning_rate"] = "0.5";
  place.options["order"] = "arrival";
  place.options["rounds.quorum"] = "1";
  place.options["rounds.late"] = "add";
  place.options["rounds.turns"] = "true";
  CHECK(place.run([](const Worker& worker) -> std::string {
    if (phub_initialise(worker) != 0) return "initialise";
    // Halves of the way from 0 to 8, of both workers in turn.
    float expected = phub_worker_index(worker) == 0 ? 0.0F : 4.0F;
    for (int step = 0; step < 4; ++step) {
      if (worker.parameter(0)[0] != expected)
        return "another's push is missing, or one is too many";
      std::fill_n(worker.gradient(0), 2, 8.0F);
      if (const std::string wrong = exchange(worker); !wrong.empty()) return wrong;
      expected += 0.75F * (8.0F - expected);
    }
    return "";
  }) == kNothingWrong);
}

TEST_CASE("a round that a worker votes against is skipped, and the next is not") {
  Place place;
  place.options["rule"] = "sgd";
  place.options["learning_rate"] = "1.0";
  place.options["gradient_scale"] = "1.0";
  place.options["loss_scaling"] = "voted";
  CHECK(place.run([](const Worker& worker) -> std::string {
    if (phub_initialise(worker) != 0) return "initialise";
    for (const bool overflow : {true, false}) {
      if (phub_set_loss_scale(worker, 4.0F) != 0) return "set_loss_scale";
      worker.gradient(0)[1] = 8.0F;
      if (phub_push(worker, 0) != 0 || phub_push(worker, 1) != 0) return "push";
      const bool against = overflow && phub_worker_index(worker) == 1;
      if (phub_vote(worker, against ? 1 : 0, 4.0F) != 0) return "vote";
      if (phub_wait_all(worker) != 0) return "wait_all";
      if (phub_was_skipped(worker, 0) != (overflow ? 1 : 0)) return "was_skipped";
      if (worker.parameter(0)[1] != (overflow ? 0.0F : -4.0F)) return "a wrong parameter";
    }
    return "";
  }) == kNothingWrong);
}

TEST_CASE("an interrupted call ends wherever it waits, and so does every one after it") {
  const Place place;
  SECTION("in the join, where the other worker never comes") {
    const Worker worker(place.options);
    std::thread other([&worker] { phub_interrupt(worker); });
    CHECK(phub_register_keys(worker, kCKeys.data(), kCKeys.size()) == 1);
    other.join();
    CHECK_THAT(worker.error(), Contains("interrupted"));
    CHECK(phub_register_keys(worker, kCKeys.data(), kCKeys.size()) == 1);
  }
  SECTION("in a wait, for a push that never comes") {
    std::promise<void> interrupted;
    auto is_interrupted = interrupted.get_future();
    const auto wrong = place.run([&](const Worker& worker) -> std::string {
      if (phub_worker_index(worker) != 0) {
        is_interrupted.wait();
        return "";
      }
      std::thread other([&worker] { phub_interrupt(worker); });
      const int status = exchange(worker).empty() ? 0 : phub_wait(worker, 0);
      other.join();
      interrupted.set_value();
      return status == 0 ? "there without the other's push" : worker.error();
    });
    CHECK_THAT(wrong[0], Contains("interrupted"));
  }
  SECTION("and nobody waits for its place") {
    {
      const Worker worker(place.options);
      phub_interrupt(worker);
      CHECK(phub_register_keys(worker, kCKeys.data(), kCKeys.size()) == 1);
    }
    CHECK(place.run([](const Worker& worker) { return exchange(worker); }) == kNothingWrong);
  }
}

TEST_CASE("a key that does not exist is refused, and the client goes on") {
  Place place;
  place.options["workers"] = "1";
  const Worker worker(place.options);
  CHECK(phub_gradient(worker, 0, nullptr) == nullptr);  // none is registered yet
  REQUIRE(phub_register_keys(worker, kCKeys.data(), kCKeys.size()) == 0);
  CHECK(phub_gradient(worker, 2, nullptr) == nullptr);
  CHECK(phub_parameter(worker, 2, nullptr) == nullptr);
  CHECK(phub_push(worker, 2) != 0);
  CHECK_FALSE(worker.error().empty());
  CHECK(phub_push(worker, 0) == 0);
  CHECK(worker.error().empty());
  CHECK(phub_push(worker, 1) == 0);
  CHECK(phub_wait_all(worker) == 0);
}

}  // namespace phub::testing
