// Whose hyper-parameters a round with a quorum has, and what its sum is multiplied by.
#include "tests/support/server/quorum_rig.h"

namespace phub::server {

TEST_CASE("the mean of a round is over those who came, if nothing else was asked for") {
  QuorumRig rig(4, backup_workers(2), RuleKind::kMean);
  rig.layout.hyper.gradient_scale = 0.25F;
  rig.make_shard();
  rig.push(3, 1.0F);
  rig.push(1, 2.0F);
  CHECK(rig.result() == 1.5F);
}

TEST_CASE("a scale that worker 0 sets is honoured, and 1 / workers is the mean of a round again") {
  for (const LatePushes late : {LatePushes::kDrop, LatePushes::kAdd}) {
    QuorumRig rig(4, {.quorum = 2, .late = late}, RuleKind::kSgd);
    rig.layout.hyper.gradient_scale = 0.25F;
    rig.make_shard();
    rig.hears_from(0);
    for (std::uint32_t worker = 0; worker < 4; ++worker) rig.push(worker, 100.0F);
    const auto round = [&](std::uint32_t other, float scale) {
      const float before = rig.result();
      rig.layout.hyper.gradient_scale = scale;
      rig.push(0, 2.0F);
      REQUIRE(rig.push(other, 4.0F) == PushResult::kCompleted);
      return before - rig.result();
    };
    CHECK(round(1, 0.25F) == 3.0F);
    CHECK(round(1, 2.0F) == 12.0F);
    CHECK(round(1, 1.0F) == 6.0F);
    // Until worker 0 says another one, also in rounds that it is not in.
    const float before = rig.result();
    rig.push(2, 2.0F);
    rig.push(3, 4.0F);
    CHECK(before - rig.result() == (late == LatePushes::kAdd ? 6.0F : 0.0F));
    CHECK(round(1, 0.25F) == 3.0F);
  }
}

TEST_CASE("a job's own scale is honoured in rounds that nobody has set another for") {
  QuorumRig rig(4, backup_workers(2), RuleKind::kMean);  // 1, not 1 / workers
  rig.push(3, 1.0F);
  rig.push(1, 2.0F);
  CHECK(rig.result() == 3.0F);
}

TEST_CASE("a late push that is dropped changes no hyper-parameters of the round under way") {
  QuorumRig rig(3, backup_workers(2), RuleKind::kSgd);
  rig.hears_from(0);
  for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 10.0F);
  rig.push(1, 1.0F);
  rig.push(2, 1.0F);
  REQUIRE(rig.result() == 8.0F);
  rig.push(1, 1.0F);
  rig.layout.hyper.learning_rate = 0.5F;
  REQUIRE(rig.push(0, 100.0F) == PushResult::kDropped);
  rig.push(2, 1.0F);
  CHECK(rig.result() == 6.0F);
  // The next round is after what worker 0 said, though it is always late.
  rig.push(1, 1.0F);
  rig.push(2, 1.0F);
  CHECK(rig.result() == 5.0F);
}

// With what `before` worker 0's initial values come, and then the others' pushes with other ones.
float after_two_pushes(const Workers& heard_before, const Workers& heard_after) {
  QuorumRig rig(3, asynchronous(), RuleKind::kSgd);
  for (const std::uint32_t worker : heard_before) rig.hears_from(worker);
  for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 10.0F);
  for (const std::uint32_t worker : heard_after) rig.hears_from(worker);
  rig.layout.hyper.learning_rate = 0.25F;
  rig.push(1, 4.0F);
  rig.push(2, 4.0F);
  return rig.result();
}

TEST_CASE("until worker 0 has said any, rounds have those of others who have") {
  CHECK(after_two_pushes({}, {1, 2}) == 8.0F);
  CHECK(after_two_pushes({}, {1}) == 8.0F);  // of worker 2 too, who has none of its own
}

TEST_CASE("what worker 0 has said before holds, whatever others push with") {
  CHECK(after_two_pushes({0}, {1, 2}) == 2.0F);
}

TEST_CASE("the job's own hold where nobody has said any") {
  CHECK(after_two_pushes({}, {}) == 2.0F);
}

TEST_CASE("worker 0's first push ends those of others") {
  QuorumRig rig(3, asynchronous(), RuleKind::kSgd);
  rig.hears_from(1);
  for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 10.0F);
  rig.layout.hyper.learning_rate = 0.5F;
  rig.push(0, 4.0F);
  CHECK(rig.result() == 8.0F);
  rig.layout.hyper.learning_rate = 0.125F;
  rig.push(1, 4.0F);
  CHECK(rig.result() == 6.0F);
}

TEST_CASE("worker 0's hyper-parameters are those of the round that its push is in") {
  QuorumRig rig(3, {.quorum = 2, .late = LatePushes::kAdd}, RuleKind::kSgd);
  rig.hears_from(0);
  for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 10.0F);
  rig.push(1, 1.0F);
  rig.layout.hyper.learning_rate = 0.5F;
  rig.push(0, 1.0F);
  CHECK(rig.result() == 9.0F);
  rig.push(1, 1.0F);
  rig.push(2, 1.0F);
  CHECK(rig.result() == 8.0F);
}

// What worker 0 brought is 5 at a rate of 1; it is lost, and the others push 2 at a rate of 0.5.
float without_worker_0(const Workers& heard) {
  QuorumRig rig(3, asynchronous(), RuleKind::kSgd);
  for (const std::uint32_t worker : heard) rig.hears_from(worker);
  for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 5.0F);
  CHECK(rig.shard->lose(0));
  rig.layout.hyper.learning_rate = 0.5F;
  rig.push(2, 2.0F);
  CHECK(rig.result() == 3.0F);  // those of before
  rig.push(1, 2.0F);
  rig.push(2, 2.0F);
  return rig.result();
}

TEST_CASE("without worker 0 the next one's hyper-parameters hold, if it has said any") {
  CHECK(without_worker_0({}) == 1.0F);
  CHECK(without_worker_0({0, 1}) == 1.0F);
  CHECK(without_worker_0({0}) == -1.0F);
}

}  // namespace phub::server
