// TrainConfig's compress: what makes no sense in it, and beside it.
#include <catch2/catch.hpp>

#include "common/config/config.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string error_with(const std::string& text) {
  const auto config = parse_worker_config("data { path: \"x\" }\n" + text, "w.textproto");
  return config ? "no error" : config.error().message();
}

TEST_CASE("a compress section that makes no sense names field and cure") {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"train { compress { density: 0 } }", "train.compress.density:", "above 0"},
      {"train { compress { density: 1.5 } }", "train.compress.density:", "at most 1"},
      {"train { compress { momentum: 1 } }", "train.compress.momentum:", "below 1"},
      {"train { compress { encoding: \"int3\" } }", "train.compress.encoding:", "int4"},
      {"train { compress { encoding: \"int8\" link_mbit: 100 } }",
       "train.compress.link_mbit:", "unless encoding is \"auto\""},
      {"train { compress { encoding: \"auto\" link_mbit: 0 } }",
       "train.compress.link_mbit:", "leave it out"},
      {"train { compress { encoding: \"auto\" link_mbit: inf } }",
       "train.compress.link_mbit:", "above 0"},
      {"optimizer { rule: \"sgd\" } train { compress { encoding: \"auto\" momentum: 0.9 } }",
       "train.compress.momentum:", "encoding: \"auto\""},
      {"optimizer { rule: \"lars\" } train { compress { encoding: \"auto\" } }",
       "train.compress.encoding:", "contradicts rule: lars"},
      {"train { compress { encoding: \"int8\" density: 0.1 } }",
       "train.compress.density:", "no effect"},
      {"train { compress { selector: \"best\" } }", "train.compress.selector:", "mstopk"},
      {"optimizer { rule: \"momentum\" } train { compress { momentum: 0.9 } }",
       "train.compress.momentum:", "optimizer.rule"},
      {"optimizer { rule: \"lars\" } train { compress {} }",
       "train.compress.encoding:", "contradicts rule: lars"},
      {"train { compress { encoding: \"auto\" } payload: \"delta\" local_steps: 4 }",
       "train.compress.encoding:", "train.payload: \"delta\""},
      {"train { compress {} payload: \"delta\" local_steps: 4 outer { overlap_steps: 1 } }",
       "train.compress.error_feedback:", "outer.mix: 0.5"},
      {"train { compress {} payload: \"delta\" local_steps: 4 outer { mix: 0.25 } }",
       "train.compress.error_feedback:", "set outer.mix: 0"},
      {"optimizer { rule: \"sgd\" } train { compress { momentum: 0.5 } payload: \"delta\" "
       "local_steps: 4 }",
       "train.compress.momentum:", "outer.rule"},
      {"train { compress {} backend: \"cuda\" gpu_direct: \"required\" }",
       "train.compress.encoding:", "gpu_direct: \"required\""},
      {"servers: \"h:1\" workers: 2 racks { name: \"a\" workers: 1 } racks { name: \"b\" workers: "
       "1 } "
       "train { compress { encoding: \"auto\" } }",
       "train.compress.encoding:", "contradicts racks"},
      {"optimizer { rule: \"sgd\" } train { compress { momentum: 0.9 error_feedback: false } }",
       "train.compress.momentum:", "error_feedback"},
  };
  for (const Case& c : cases) {
    CHECK_THAT(error_with(c.text),
               StartsWith("w.textproto:") && Contains(c.start) && Contains(c.part));
  }
}

TEST_CASE("compress goes with deltas, of which nothing stays in the workers' own parameters") {
  for (const std::string more :
       {"", "outer { fragments: 2 }", "outer { overlap_steps: 1 mix: 0 }"}) {
    CHECK(error_with("servers: \"a:1\" workers: 2 train { payload: \"delta\" local_steps: 4 " +
                     more + " compress { encoding: \"int4\" } }") == "no error");
  }
  CHECK(error_with("servers: \"a:1\" workers: 2 train { payload: \"delta\" local_steps: 4 outer { "
                   "overlap_steps: 1 } compress { encoding: \"int8\" error_feedback: false } }") ==
        "no error");
}

TEST_CASE("compress goes with a loss scale that is voted on") {
  CHECK(error_with("servers: \"a:1\" workers: 2 train { compress {} loss_scale { dynamic {} } }") ==
        "no error");
}

TEST_CASE("what is left to the links' speed may say how each encoding would be") {
  CHECK(error_with("train { compress { encoding: \"auto\" density: 0.02 selector: \"exact\" "
                   "warm_up_steps: 4 link_mbit: 100 } }") == "no error");
}

TEST_CASE("compress goes with rounds that have a quorum, whatever becomes of late pushes") {
  for (const std::string late : {"drop", "add"}) {
    CHECK(error_with("servers: \"a:1\" workers: 4 order: \"arrival\" rounds { quorum: 3 late: \"" +
                     late + "\" } train { compress {} }") == "no error");
  }
}

}  // namespace
}  // namespace phub
