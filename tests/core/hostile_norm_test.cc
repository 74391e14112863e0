// The norm of a job on several servers, as one core asks for it: what is no answer ends its
// worker's connection, by name, and changes nothing.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/server/core_rig.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kNormElements = CoreRig::kChunks * RigWorker::kChunkBytes / sizeof(float);
// Four workers push ones: the core's part.
constexpr double kPart = 16.0 * kNormElements;
constexpr double kAll = 2 * kPart;

// A core that has asked.
struct Asked {
  explicit Asked(const std::string& transport) : rig(transport, {}, Encoding::kDense, 1.0F) {
    rig.round();  // of initial parameters
    rig.fill(1.0F);
    for (const double part : rig.ask()) REQUIRE(part == kPart);
  }
  CoreRig rig;
};

const std::vector<std::string> kTransports = {"shm", "verbs"};

}  // namespace

TEST_CASE("chunks are replied to when all workers have told one norm") {
  for (const std::string& transport : kTransports) {
    INFO(transport);
    Asked asked(transport);
    for (std::uint32_t round = 0; round < 3; ++round) {
      for (std::uint32_t worker = 0; worker < CoreRig::kWorkers; ++worker) {
        CHECK(asked.rig.waiting_replies() == 0);
        asked.rig.send_norm(worker, kAll);
      }
      asked.rig.take_replies();
      for (const double part : asked.rig.ask()) REQUIRE(part == kPart);
    }
    CHECK(asked.rig.reason().empty());
  }
}

TEST_CASE("a core with something that is not finite tells an infinite norm, and is told one") {
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    CoreRig rig("shm", {}, Encoding::kDense, 1.0F);
    rig.round();
    rig.fill(wrong);
    for (const double part : rig.ask()) CHECK(part == std::numeric_limits<double>::infinity());
    for (std::uint32_t worker = 0; worker < CoreRig::kWorkers; ++worker) {
      rig.send_norm(worker, std::numeric_limits<double>::infinity());
    }
    rig.take_replies();
    CHECK(rig.reason().empty());
  }
}

TEST_CASE("who tells another norm than most is dropped by name, whoever told first") {
  for (const std::string& transport : kTransports) {
    for (std::uint32_t liar = 0; liar < CoreRig::kWorkers; ++liar) {
      for (const double lie : {2.0 * kAll, std::nextafter(kAll, 0.0)}) {
        INFO(transport << " " << liar << " " << lie);
        Asked asked(transport);
        for (std::uint32_t i = 0; i < CoreRig::kWorkers; ++i) {
          const std::uint32_t worker = (liar + i) % CoreRig::kWorkers;
          asked.rig.send_norm(worker, worker == liar ? lie : kAll);
        }
        CHECK(asked.rig.drops(server::Drop::kBadNorm) == 1);
        CHECK(asked.rig.waiting_replies() == 0);
        const auto event = asked.rig.event();
        REQUIRE(event);
        CHECK(event->worker == liar);
        CHECK(event->reason == "it told another norm of all gradients than the other workers");
      }
    }
  }
}

TEST_CASE("a norm that cannot be one ends its connection at once") {
  for (const std::string& transport : kTransports) {
    for (const double wrong : {std::nan(""), -1.0, 0.0, std::nextafter(kPart, 0.0),
                               -std::numeric_limits<double>::infinity()}) {
      INFO(transport << " " << wrong);
      Asked asked(transport);
      asked.rig.send_norm(2, wrong);
      CHECK(asked.rig.drops(server::Drop::kBadNorm) == 1);
      CHECK_THAT(std::string(asked.rig.reason()), Catch::Contains("below that of this core"));
      asked.rig.send_norm(0, kAll);  // the job has stopped
      CHECK(asked.rig.drops(server::Drop::kLateWrite) == 1);
    }
  }
}

TEST_CASE("a norm that nobody asked for, or that is told twice, ends its connection") {
  for (const std::string& transport : kTransports) {
    INFO(transport);
    for (const float clip_norm : {0.0F, 1.0F}) {
      CoreRig rig(transport, {}, Encoding::kDense, clip_norm);
      rig.round();
      rig.send_norm(1, kAll);
      CHECK(rig.drops(server::Drop::kBadNorm) == 1);
      CHECK(rig.reason() == "it told a norm that nobody asked for");
    }
    Asked twice(transport);
    twice.rig.send_norm(1, kAll);
    twice.rig.send_norm(1, kAll);
    CHECK(twice.rig.drops(server::Drop::kBadNorm) == 1);
    CHECK(twice.rig.reason() == "it told the norm twice in one round");
    // After the last word and before its round's end there is no other.
    Asked late(transport);
    for (std::uint32_t worker = 0; worker < CoreRig::kWorkers; ++worker) {
      late.rig.send_norm(worker, kAll);
    }
    late.rig.send_norm(3, kAll);
    CHECK(late.rig.reason() == "it told a norm that nobody asked for");
  }
}

TEST_CASE("a norm of a wrong size ends its connection") {
  for (const std::string& transport : kTransports) {
    for (const std::uint32_t bytes : {4U, 16U, RigWorker::kChunkBytes}) {
      INFO(transport << " " << bytes);
      Asked asked(transport);
      asked.rig.send_norm(1, kAll, bytes);
      CHECK(asked.rig.drops(server::Drop::kBadLength) == 1);
    }
  }
}

TEST_CASE("with votes nothing is updated before both the votes and the norm are there") {
  for (const bool votes_first : {false, true}) {
    for (const std::uint32_t overflow : {0U, 1U}) {
      CAPTURE(votes_first, overflow);
      CoreRig rig("shm", {.kind = LossScaling::kVoted}, Encoding::kDense, 1.0F);
      rig.round();
      rig.fill(1.0F);
      rig.ask();
      const auto vote = [&](std::uint32_t worker) { rig.send_vote(worker, {1.0F, overflow}); };
      const auto tell = [&](std::uint32_t worker) { rig.send_norm(worker, kAll); };
      for (std::uint32_t worker = 0; worker < CoreRig::kWorkers; ++worker) {
        votes_first ? vote(worker) : tell(worker);
      }
      for (std::uint32_t worker = 0; worker < CoreRig::kWorkers; ++worker) {
        CHECK(rig.waiting_replies() == 0);
        votes_first ? tell(worker) : vote(worker);
      }
      rig.take_replies();
      rig.ask();  // the next round
      CHECK(rig.reason().empty());
    }
  }
}

}  // namespace phub::testing
