// Rounds that need not have every worker's push: what arrives, who is replied to, what comes out.
#include "tests/support/server/quorum_rig.h"

namespace phub::server {

TEST_CASE("a round is complete with its quorum, and those who are in it are replied to") {
  for (const bool staged : {true, false}) {
    QuorumRig rig(3, backup_workers(2));
    CHECK(rig.push(2, 1.0F, staged) == PushResult::kOpened);
    CHECK(rig.released().empty());
    CHECK(rig.push(0, 2.0F, staged) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{0, 2});
    CHECK(rig.result() == 3.0F);
    CHECK(rig.staging->in_use() == 0);
    CHECK(rig.shard->members.rounds()->counters.incomplete.value() == 1);
  }
}

TEST_CASE("a late push is dropped, counted, and replied to with the current parameters") {
  QuorumRig rig(3, backup_workers(2));
  rig.push(0, 1.0F);
  rig.push(1, 2.0F);
  CHECK(rig.push(2, 100.0F) == PushResult::kDropped);
  CHECK(rig.released() == Workers{2});
  CHECK(rig.result() == 3.0F);
  CHECK(rig.staging->in_use() == 0);
  CHECK(rig.late(2).dropped.value() == 1);
  CHECK(rig.late(2).pushes[1].value() == 1);
  // What it pushes next is computed from these.
  CHECK(rig.push(2, 4.0F) == PushResult::kOpened);
  CHECK(rig.push(0, 5.0F) == PushResult::kCompleted);
  CHECK(rig.result() == 9.0F);
  CHECK(rig.late(2).pushes[0].value() == 1);
}

TEST_CASE("a late push is added to the round that is under way, if late pushes are added") {
  QuorumRig rig(3, {.quorum = 2, .late = LatePushes::kAdd});
  rig.push(0, 1.0F);
  rig.push(1, 2.0F);
  CHECK(rig.push(2, 10.0F) == PushResult::kTaken);
  CHECK(rig.released() == Workers{2});  // nobody waits
  CHECK(rig.result() == 3.0F);
  CHECK(rig.push(1, 20.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{1});
  CHECK(rig.result() == 30.0F);
  CHECK(rig.late(2).pushes[1].value() == 1);
  CHECK(rig.late(2).dropped.value() == 0);
}

TEST_CASE("a quorum of one takes each push as it comes, and says how old it is") {
  QuorumRig rig(2, asynchronous());
  for (std::uint32_t i = 1; i <= 5; ++i) {
    CHECK(rig.push(0, 1.0F) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{0});
  }
  CHECK(rig.push(1, 7.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{1});
  CHECK(rig.result() == 7.0F);
  CHECK(rig.late(0).pushes[0].value() == 5);
  CHECK(rig.late(1).pushes[3].value() == 1);  // 4 to 7
}

TEST_CASE("a worker too far ahead has its reply when the slowest has caught up") {
  QuorumRig rig(3, asynchronous(1));
  CHECK(rig.push(0, 1.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{0});  // 1 ahead
  CHECK(rig.push(0, 2.0F) == PushResult::kCompleted);
  CHECK(rig.released().empty());  // 2 ahead
  CHECK(rig.result() == 2.0F);    // it counts all the same
  CHECK(rig.push(1, 3.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{1});
  CHECK(rig.push(2, 4.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{0, 2});
  CHECK(rig.late(0).withheld.value() == 1);
  CHECK(rig.late(1).withheld.value() == 0);
}

TEST_CASE("in turns one worker has a reply that it has not pushed for") {
  QuorumRig rig(3, {.quorum = 1, .late = LatePushes::kAdd, .turns = true}, RuleKind::kSgd);
  for (const std::uint32_t worker : {2U, 0U, 1U}) rig.push(worker, 5.0F);  // the initial ones
  CHECK(rig.released() == Workers{0});
  CHECK(rig.push(1, 1.0F) == PushResult::kTooEarly);
  CHECK(rig.push(0, 1.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{1});
  CHECK(rig.push(1, 1.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{2});
  SECTION("and the first comes after the last") {
    CHECK(rig.push(2, 1.0F) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{0});
    CHECK(rig.result() == 2.0F);
    CHECK(rig.late(0).pushes[0].value() == 1);
    CHECK(rig.late(2).pushes[0].value() == 1);  // none is late
    CHECK(rig.late(2).withheld.value() == 0);
  }
  SECTION("who is lost in its turn leaves it to the next") {
    CHECK(rig.shard->lose(2));
    CHECK_FALSE(rig.shard->go_on(0));
    CHECK(rig.released() == Workers{0});
    CHECK(rig.push(0, 1.0F) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{1});
    CHECK(rig.push(1, 1.0F) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{0});
  }
  SECTION("who is lost before its turn has none") {
    CHECK(rig.shard->lose(0));
    CHECK_FALSE(rig.shard->go_on(0));
    CHECK(rig.released().empty());  // it is still the turn of 2
    CHECK(rig.push(2, 1.0F) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{1});
    CHECK(rig.shard->lose(2));
    CHECK_FALSE(rig.shard->lose(1));  // nobody is left
  }
}

TEST_CASE("rule elastic moves by its elasticity for each push of a round") {
  const auto rig_of = [](const RoundPolicy& policy) {
    QuorumRig rig(4, policy, RuleKind::kElastic);
    rig.layout.hyper = {.learning_rate = 0.125F, .gradient_scale = 0.25F};
    rig.make_shard();
    for (std::uint32_t worker = 0; worker < 4; ++worker) rig.push(worker, 8.0F);
    return rig;
  };
  SECTION("of those who came in time") {
    QuorumRig rig = rig_of(backup_workers(2));
    rig.push(1, 16.0F);
    rig.push(3, 0.0F);
    CHECK(rig.result() == 8.0F);
    rig.push(1, 24.0F);
    rig.push(3, 8.0F);
    CHECK(rig.result() == 8.0F + 0.125F * 16.0F);
  }
  SECTION("of one") {
    QuorumRig rig = rig_of(asynchronous());
    rig.push(2, 16.0F);
    CHECK(rig.result() == 9.0F);
  }
}

TEST_CASE("a worker that waits for its reply may not push the chunk") {
  QuorumRig rig(3, asynchronous(0));
  rig.push(0, 1.0F);
  CHECK(rig.push(0, 1.0F) == PushResult::kTooEarly);  // withheld
  QuorumRig other(3, backup_workers(2));
  other.push(0, 1.0F);
  CHECK(other.push(0, 1.0F) == PushResult::kTooEarly);  // in the round
  CHECK(other.staging->in_use() == 1);
}

TEST_CASE("in grace a round takes more pushes, until all are there or it is over") {
  QuorumRig rig(4, {.quorum = 2, .grace_ms = 5});
  rig.push(0, 1.0F);
  CHECK(rig.push(1, 2.0F) == PushResult::kQuorum);
  rig.start_grace();
  CHECK(rig.released().empty());
  CHECK(rig.push(2, 4.0F) == PushResult::kTaken);
  SECTION("it is over") {
    CHECK(rig.shard->end_round().first == 0);
    CHECK(rig.released() == Workers{0, 1, 2});
    CHECK(rig.result() == 7.0F);
    CHECK(rig.shard->members.rounds()->counters.graces.value() == 1);
    CHECK(rig.push(3, 8.0F) == PushResult::kDropped);
  }
  SECTION("all are there") {
    CHECK(rig.push(3, 8.0F) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{0, 1, 2, 3});
    CHECK(rig.result() == 15.0F);
    CHECK(rig.shard->members.rounds()->counters.graces.value() == 0);
  }
  CHECK(rig.shard->members.rounds()->graces.empty());
}

TEST_CASE("a round whose patience is over goes on without its quorum") {
  QuorumRig rig(3, backup_workers(2));
  CHECK(rig.push(1, 3.0F, /*staged=*/false) == PushResult::kOpened);
  rig.shard->members.rounds()->waits.push(0, 7);
  CHECK(rig.shard->members.rounds()->first_end() == 7);
  CHECK(rig.shard->end_round().first == 0);
  CHECK(rig.released() == Workers{1});
  CHECK(rig.result() == 3.0F);
  CHECK(rig.shard->members.rounds()->counters.impatient.value() == 1);
  CHECK_FALSE(rig.shard->members.rounds()->has_ends());
}

TEST_CASE("a push is not paid for with a look at each of 1,024 workers that wait") {
  constexpr std::uint32_t kWorkers = 1024;
  const auto everybody_pushes = [](QuorumRig& rig) {
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) rig.push(worker, 1.0F);
  };
  SECTION("for a round's end") {
    QuorumRig rig(kWorkers, backup_workers(kWorkers - 1));
    everybody_pushes(rig);
    CHECK(rig.released() == Workers{kWorkers - 1});  // it was late
    CHECK(rig.shard->members.rounds()->looked_at() == kWorkers);
  }
  SECTION("for the slowest") {
    QuorumRig rig(kWorkers, asynchronous(0));
    everybody_pushes(rig);
    CHECK(rig.released().size() == kWorkers);
    CHECK(rig.shard->members.rounds()->looked_at() <= 2 * kWorkers);
    CHECK(rig.late(0).withheld.value() == 1);
  }
  SECTION("while some are lost") {
    QuorumRig rig(kWorkers, asynchronous(0));
    for (std::uint32_t worker = 0; worker < kWorkers - 8; ++worker) rig.push(worker, 1.0F);
    for (std::uint32_t worker = kWorkers - 8; worker < kWorkers; ++worker) {
      CHECK(rig.released().empty());
      CHECK(rig.shard->lose(worker));
      CHECK_FALSE(rig.shard->go_on(0));
    }
    CHECK(rig.released().size() == kWorkers - 8);
    CHECK(rig.shard->members.rounds()->looked_at() <= 2 * kWorkers);
  }
}

TEST_CASE("a stale push weighs less, in every wire type, staged or in place") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    for (const bool staged : {true, false}) {
      QuorumRig rig(3, {.quorum = 2, .late = LatePushes::kAdd, .weight = PushWeight::kStaleness},
                    RuleKind::kSum, type);
      rig.push(0, 1.0F, staged);
      rig.push(1, 2.0F, staged);
      rig.push(0, 1.0F, staged);
      rig.push(1, 2.0F, staged);
      rig.push(0, 1.0F, staged);
      CHECK(rig.push(2, 9.0F, staged) ==
            PushResult::kCompleted);  // two rounds old: a third; worker 0 one
      CHECK(rig.result() == 3.5F);
      rig.push(1, 2.0F, staged);  // one round old: a half
      rig.push(2, 4.0F, staged);
      CHECK(rig.result() == 5.0F);
      CHECK(rig.staging->in_use() == 0);
    }
  }
}

TEST_CASE("with hogwild pushes are counted, and parameters are the workers' to change") {
  QuorumRig rig(3, {.quorum = 1, .late = LatePushes::kAdd, .hogwild = true}, RuleKind::kSgd);
  for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 10.0F);
  for (const bool staged : {false, true}) {
    CHECK(rig.push(1, 4.0F, staged) == PushResult::kCompleted);
    CHECK(rig.released() == Workers{1});
    CHECK(rig.result() == 10.0F);
  }
  CHECK(rig.push(2, 4.0F) == PushResult::kCompleted);
  CHECK(rig.late(2).pushes[LateCounters::bucket(2)].value() == 1);
}

TEST_CASE("by samples a mean is over those of who came") {
  const bool staged = GENERATE(true, false);
  for (const LatePushes late : {LatePushes::kDrop, LatePushes::kAdd}) {
    QuorumRig rig(4, {.quorum = 3, .late = late, .weight = PushWeight::kSamples}, RuleKind::kMean);
    rig.layout.hyper.gradient_scale = 0.25F;  // a mean
    rig.push(0, 1.0F, staged, 32.0F);
    rig.push(1, 2.0F, staged, 8.0F);
    CHECK(rig.push(3, 4.0F, staged, 24.0F) == PushResult::kCompleted);
    CHECK(rig.result() == (32.0F + 16.0F + 96.0F) / 64.0F);
    // Who has not said is one.
    rig.push(0, 3.0F, staged);
    rig.push(1, 5.0F, staged, 2.0F);
    CHECK(rig.push(3, 19.0F, staged) == PushResult::kCompleted);
    CHECK(rig.result() == 8.0F);
    CHECK(rig.staging->in_use() == 0);
  }
}

TEST_CASE("by samples a scale that is no mean is what it is") {
  QuorumRig rig(3, {.quorum = 2, .weight = PushWeight::kSamples}, RuleKind::kMean);
  rig.push(2, 1.0F, true, 6.0F);
  rig.push(1, 2.0F, true, 4.0F);
  CHECK(rig.result() == 14.0F);
}

TEST_CASE("the first round of a rule with parameters waits for all") {
  QuorumRig rig(3, asynchronous(), RuleKind::kSgd);
  CHECK(rig.push(0, 5.0F) == PushResult::kAccepted);
  CHECK(rig.push(1, 6.0F) == PushResult::kAccepted);
  CHECK_FALSE(rig.shard->lose(1));
  CHECK(rig.push(2, 7.0F) == PushResult::kCompleted);
  CHECK(rig.released() == Workers{0, 1, 2});
  CHECK(rig.result() == 5.0F);
  CHECK(rig.push(2, 1.0F) == PushResult::kCompleted);
  CHECK(rig.result() == 4.0F);
  CHECK(rig.late(2).pushes[0].value() == 1);
}

TEST_CASE("a snapshot's round is the steps of the slowest worker that is there") {
  QuorumRig rig(3, asynchronous(kAnyStaleness));
  constexpr std::uint64_t kFirst = 7;
  CHECK(rig.shard->rounds_to_copy(kFirst) == kFirst);
  for (int i = 0; i < 5; ++i) rig.push(0, 1.0F);
  rig.push(1, 1.0F);
  CHECK(rig.shard->rounds_to_copy(kFirst) == kFirst);
  rig.push(2, 1.0F);
  rig.push(2, 1.0F);
  CHECK(rig.shard->rounds_to_copy(kFirst) == kFirst + 1);
  CHECK(rig.shard->lose(1));
  CHECK(rig.shard->rounds_to_copy(kFirst) == kFirst + 2);
}

TEST_CASE("a lost worker's push counts, and nobody waits for it") {
  SECTION("the round is complete without it") {
    QuorumRig rig(3, {.quorum = 2, .grace_ms = 5});
    rig.push(0, 1.0F, /*staged=*/false);
    rig.push(1, 2.0F, /*staged=*/false);
    rig.start_grace();
    rig.memory[1].assign(100, 99.0F);  // nobody reads it any more
    CHECK(rig.shard->lose(2));
    REQUIRE(rig.shard->go_on(0));
    CHECK(rig.shard->go_on(0));  // another loss, before its turn comes
    CHECK(rig.released().empty());
    CHECK(rig.shard->members.rounds()->first_end() == 0);
    CHECK(rig.shard->end_round().first == 0);
    CHECK(rig.released() == Workers{0, 1});
    CHECK(rig.result() == 3.0F);
    CHECK_FALSE(rig.shard->members.rounds()->has_ends());
    CHECK(rig.shard->members.rounds()->counters.graces.value() == 0);
  }
  SECTION("who was too far ahead of it is not any more") {
    QuorumRig rig(3, asynchronous(0));
    rig.push(0, 1.0F);
    rig.push(1, 1.0F);
    CHECK(rig.released().empty());
    CHECK(rig.shard->lose(2));
    CHECK_FALSE(rig.shard->go_on(0));
    CHECK(rig.released() == Workers{0, 1});
  }
  SECTION("a quorum is at most of those who are left") {
    QuorumRig rig(3, backup_workers(2));
    rig.push(2, 1.0F);
    CHECK(rig.shard->lose(0));
    CHECK_FALSE(rig.shard->go_on(0));
    CHECK(rig.shard->lose(1));
    REQUIRE(rig.shard->go_on(0));
    CHECK(rig.shard->end_round().first == 0);
    CHECK(rig.released() == Workers{2});
    CHECK(rig.push(2, 5.0F) == PushResult::kCompleted);
    CHECK_FALSE(rig.shard->lose(2));
  }
}

}  // namespace phub::server
