// Payload "weights": what makes no sense beside it, and what it means when left out.
#include <catch2/catch.hpp>

#include "common/config/config.h"
#include "common/config/payload.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

Result<WorkerConfig> config_with(const std::string& text) {
  return parse_worker_config("data { path: \"x\" }\n" + text, "w.textproto");
}

TEST_CASE("what makes no sense with payload weights names field and cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"train { payload: \"delta\" outer { rule: \"elastic\" } }", "train.outer.rule:", "nesterov"},
      {"train { payload: \"delta\" outer { elasticity: 0.1 } }",
       "train.outer.elasticity:", "\"weights\""},
      {"train { payload: \"weights\" outer { rule: \"sgd\" } }", "train.outer.rule:", "elastic"},
      {"train { payload: \"weights\" outer { learning_rate: 0.1 } }",
       "train.outer.learning_rate:", "set elasticity"},
      {"train { payload: \"weights\" outer { momentum: 0.9 } }",
       "train.outer.momentum:", "optimizer.momentum"},
      {"train { payload: \"weights\" outer { mix: 0.5 } }", "train.outer.mix:", "elasticity"},
      {"train { payload: \"weights\" outer { elasticity: 0 } }", "train.outer.elasticity: 0",
       "above 0"},
      {"workers: 4 train { payload: \"weights\" outer { elasticity: 0.25 } }",
       "train.outer.elasticity: 0.25 times 4 pushes of a round (workers)", "lower it below 0.25"},
      {"workers: 4 order: \"arrival\" rounds { quorum: 2 } "
       "train { payload: \"weights\" outer { elasticity: 0.5 } }",
       "train.outer.elasticity: 0.5 times 2 pushes of a round (rounds)", "lower it below 0.5"},
      {"workers: 4 order: \"arrival\" rounds { quorum: 1 late: \"add\" weight: \"staleness\" } "
       "train { payload: \"weights\" }",
       "rounds.weight: staleness", "contradicts rule: elastic"},
      {"workers: 4 order: \"arrival\" rounds { quorum: 1 late: \"add\" turns: true } "
       "train { payload: \"weights\" outer { overlap_steps: 1 } }",
       "train.outer.overlap_steps: 1", "rounds.turns"},
      {"train { payload: \"weights\" local_steps: 2 outer { overlap_steps: 3 } }",
       "train.outer.overlap_steps: 3 is above 2", "raise local_steps"},
      {"train { payload: \"weights\" loss_scale { } }",
       "train.loss_scale:", "payload: \"weights\""},
      {"train { payload: \"weights\" compress { } }",
       "train.compress.encoding:", "payload: \"weights\""},
      {"optimizer { clip_norm: 1 } train { payload: \"weights\" }", "train.payload: \"weights\"",
       "optimizer.clip_norm"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const auto config = config_with(c.text);
    REQUIRE_FALSE(config);
    CHECK_THAT(config.error().message(),
               StartsWith("w.textproto:") && Contains(c.start) && Contains(c.part));
  }
}

TEST_CASE("the elasticity that is left out is 0.9 / workers, and the named methods are settings") {
  const auto plain = config_with("workers: 4 train { payload: \"weights\" }");
  REQUIRE(plain);
  CHECK(elasticity_of(*plain) == 0.225F);
  const auto set =
      config_with("workers: 4 train { payload: \"weights\" outer { elasticity: 0.1 } }");
  REQUIRE(set);
  CHECK(elasticity_of(*set) == 0.1F);
  for (const char* method : {
           "train { payload: \"weights\" outer { rule: \"elastic\" overlap_steps: 1 } }",
           "order: \"arrival\" rounds { quorum: 1 late: \"add\" } "
           "train { payload: \"weights\" outer { elasticity: 0.9 overlap_steps: 1 } }",
           "order: \"arrival\" rounds { quorum: 1 late: \"add\" turns: true } "
           "optimizer { ema_decay: 0.99 } train { payload: \"weights\" }",
           "order: \"arrival\" rounds { quorum: 1 late: \"add\" turns: true }",
       }) {
    CAPTURE(method);
    CHECK(config_with(std::string("workers: 4 ") + method));
  }
}

}  // namespace
}  // namespace phub
