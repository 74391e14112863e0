// What a job may say of its pushes' encoding: what contradicts it is named, with the cure.
#include <catch2/catch.hpp>
#include <functional>

#include "common/job/check.h"
#include "common/job/message.h"
#include "common/plan/plan.h"

namespace phub::server {
namespace {

using Catch::Matchers::Contains;

constexpr Encoding kEncodings[] = {Encoding::kSparse, Encoding::kInt8, Encoding::kInt4};

std::string refusal(Encoding encoding, const std::function<void(JobSpec&)>& change) {
  JobSpec spec{.workers = 2, .rule = RuleKind::kSgd, .keys = {{"w", 10}}};
  spec.encoding = encoding;
  change(spec);
  return validate(spec).message();
}

}  // namespace

TEST_CASE("an encoding is refused beside lars, by both names, and else taken") {
  const auto racks = [](JobSpec& spec) { spec.racks = {{"a", 1}, {"b", 1}}; };
  const auto lars = [](JobSpec& spec) { spec.rule = RuleKind::kLars; };
  const auto votes = [](JobSpec& spec) { spec.loss_scale.kind = LossScaling::kVoted; };
  for (const auto& change : {std::function<void(JobSpec&)>(racks), {lars}, {votes}}) {
    CHECK(refusal(Encoding::kDense, change).empty());
  }
  for (const Encoding encoding : kEncodings) {
    const std::string word = "encoding: " + std::string(name_of(encoding));
    CHECK(refusal(encoding, racks).empty());
    CHECK_THAT(refusal(encoding, lars), Contains(word + " contradicts rule: lars"));
    CHECK(refusal(encoding, votes).empty());
    CHECK(refusal(encoding, [](JobSpec& spec) {
            spec.rule = RuleKind::kAdamW;
            spec.clip_norm = 1.0F;
            spec.ema_decay = 0.9;
            spec.loss_scale = {.kind = LossScaling::kStatic, .factor = 128.0F};
          }).empty());
    CHECK(refusal(encoding, [](JobSpec& spec) {
            spec.deterministic = false;
            spec.rounds = {.quorum = 1, .late = LatePushes::kAdd};
          }).empty());
  }
}

TEST_CASE("a key may have more elements than 32 bits count: a push has their places in its chunk") {
  for (const Encoding encoding : kEncodings) {
    CHECK(refusal(encoding, [](JobSpec& spec) {
            spec.chunk_bytes = kMaxChunkBytes;
            spec.keys = {{"w", std::uint64_t{1} << 33U}};
          }).empty());
  }
  static_assert(kMaxChunkBytes / size_of(DataType::kFloat16) <= 0xFFFFFFFFU);
}

TEST_CASE("an encoding crosses the control plane, and all workers have the same") {
  for (const Encoding encoding : kEncodings) {
    JobSpec spec{.keys = {{"w", 10}}};
    spec.encoding = encoding;
    control::JobSpec message;
    fill(spec, message);
    add_keys(spec.keys, message);
    const auto read = spec_from(message);
    REQUIRE(read);
    CHECK(read->encoding == encoding);
    JobSpec dense = spec;
    dense.encoding = Encoding::kDense;
    CHECK(compare(spec, *read).ok());
    CHECK_THAT(compare(dense, spec).message(),
               Contains("encoding is dense in the job but " + std::string(name_of(encoding))));
    message.set_encoding(static_cast<control::Encoding>(4));
    CHECK_FALSE(spec_from(message));
  }
}

}  // namespace phub::server
