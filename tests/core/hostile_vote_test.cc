// Votes that nobody may give end their worker's connection, with the right cause, and are never
// taken for another's.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/server/core_rig.h"

namespace phub::testing {
namespace {

const LossScale kVoted{.kind = LossScaling::kVoted};

}  // namespace

TEST_CASE("a vote of a wrong size ends its connection") {
  for (const std::string transport : {"shm", "verbs"}) {
    for (const std::uint32_t bytes : {4U, 16U, RigWorker::kChunkBytes}) {
      INFO(transport << " " << bytes);
      CoreRig rig(transport, kVoted);
      rig.send_vote(1, {}, bytes);
      CHECK(rig.drops(server::Drop::kBadLength) == 1);
    }
  }
}

TEST_CASE("a vote in a job without votes ends its connection") {
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig rig(transport);
    rig.round();
    rig.send_vote(2, {});
    CHECK(rig.drops(server::Drop::kBadVote) == 1);
  }
}

TEST_CASE("a second vote in a round ends its connection, however many follow") {
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig rig(transport, kVoted);
    rig.round();  // of initial parameters
    rig.send_vote(0, {});
    CHECK(rig.drops(server::Drop::kBadVote) == 0);
    rig.send_vote(0, {});
    CHECK(rig.drops(server::Drop::kBadVote) == 1);
  }
}

TEST_CASE("a vote that is no vote ends its connection, and what comes later changes nothing") {
  for (const std::string transport : {"shm", "verbs"}) {
    for (const Vote& vote : {Vote{.loss_scale = std::nanf("")}, Vote{.loss_scale = -1.0F},
                             Vote{.overflow = 0xFFFFFFFF}}) {
      INFO(transport << " " << vote.loss_scale << " " << vote.overflow);
      CoreRig rig(transport, kVoted);
      rig.send_vote(3, vote);
      CHECK(rig.drops(server::Drop::kBadVote) == 1);
      rig.send_vote(0, {});  // the job has stopped
      CHECK(rig.drops(server::Drop::kLateWrite) == 1);
    }
  }
}

TEST_CASE("hyper-parameters that are no numbers, or out of range, end their connection") {
  const float nan = std::nanf("");
  for (const std::string transport : {"shm", "verbs"}) {
    for (const Hyper& hyper :
         {Hyper{.learning_rate = nan}, Hyper{.learning_rate = -0.1F}, Hyper{.momentum = nan},
          Hyper{.momentum = 1.0F}, Hyper{.momentum = -0.1F}, Hyper{.gradient_scale = nan},
          Hyper{.gradient_scale = -1.0F}, Hyper{.samples = nan}, Hyper{.samples = -1.0F},
          Hyper{.samples = 1e-40F}, Hyper{.samples = 2 * kSamplesMax}}) {
      INFO(transport << " " << hyper.learning_rate << " " << hyper.momentum << " "
                     << hyper.gradient_scale << " " << hyper.samples);
      CoreRig rig(transport);
      rig.send_hyper(0, {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 0.25F});
      CHECK(rig.drops(server::Drop::kBadHyper) == 0);
      rig.send_hyper(0, hyper);
      CHECK(rig.drops(server::Drop::kBadHyper) == 1);
    }
  }
}

TEST_CASE("a vote of another epoch is dropped and counted, and the round goes on") {
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig rig(transport, kVoted);
    rig.send_vote(0, {}, sizeof(Vote), 1);
    CHECK(rig.drops(server::Drop::kStaleEpoch) == 1);
    CHECK(rig.drops(server::Drop::kBadVote) == 0);
    rig.round();  // of initial parameters
    for (std::uint32_t worker = 0; worker < CoreRig::kWorkers; ++worker) rig.send_vote(worker, {});
    CHECK(rig.drops(server::Drop::kBadVote) == 0);
    rig.round();  // of gradients, after their votes
  }
}

}  // namespace phub::testing
