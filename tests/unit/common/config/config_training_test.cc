// Of a worker's configuration: the optimizer, the training, and rounds with a quorum.
#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/common/config/config_errors.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

TEST_CASE("an optimizer or training section that makes no sense names field and cure") {
  const WrongField cases[] = {
      {"optimizer { rule: \"rmsprop\" }", "optimizer.rule:", "sgd, momentum, nesterov"},
      {"optimizer { learning_rate: 0 }", "optimizer.learning_rate: 0", "above 0"},
      {"optimizer { learning_rate: inf }", "optimizer.learning_rate: inf", "above 0"},
      {"optimizer { momentum: 1 }", "optimizer.momentum: 1", "below 1"},
      {"optimizer { rule: \"sgd\" momentum: 0.9 }", "optimizer.momentum:", "no effect"},
      {"optimizer { weight_decay: -1 }", "optimizer.weight_decay: -1", "0 or above"},
      {"optimizer { schedule { kind: \"cos\" } }", "optimizer.schedule.kind:", "cosine"},
      {"optimizer { schedule { kind: \"step\" } }", "optimizer.schedule.step_epochs:", "missing"},
      {"optimizer { schedule { kind: \"step\" step_epochs: [5, 3] } }",
       "optimizer.schedule.step_epochs: 3 comes after 5", "ascending"},
      {"optimizer { schedule { gamma: 0.5 } }", "optimizer.schedule.gamma:", "no effect"},
      {"optimizer { schedule { kind: \"step\" step_epochs: 1 gamma: 0 } }",
       "optimizer.schedule.gamma: 0", "above 0"},
      {"optimizer { schedule { power: 3 } }", "optimizer.schedule.power:", "polynomial"},
      {"train { batch: 0 }", "train.batch: 0", "1 to 65536"},
      {"train { epochs: 0 }", "train.epochs:", "at least 1"},
      {"train { threads: 1025 }", "train.threads: 1025", "0 to 1024"},
      {"train { device: 1 }", "train.device:", "no effect"},
      {"train { devices: [0, 1] }", "train.devices:", "no effect"},
      {"train { backend: \"cuda\" device: 1 devices: [0, 1] }", "train.device:", "beside devices"},
      {"train { backend: \"cuda\" devices: [2, 0, 2] }", "train.devices: 2 is", "each GPU once"},
      {"train { backend: \"cuda\" batch: 64 devices: [0, 1, 2] }", "train.batch: 64",
       "by 3 GPUs (devices)"},
      {"train { gpu_direct: \"required\" }", "train.gpu_direct:", "no effect"},
      {"train { backend: \"cuda\" gpu_direct: \"yes\" }", "train.gpu_direct:", "required, off"},
      {"train { backend: \"cuda\" gpu_direct: \"required\" devices: [0, 1] }",
       "train.gpu_direct:", "devices"},
      {"train { backend: \"cuda\" gpu_direct: \"required\" accumulate: 2 }",
       "train.gpu_direct:", "accumulate"},
      {"transport: \"tcp\" train { backend: \"cuda\" gpu_direct: \"required\" }",
       "transport:", "verbs"},
      {"train { backend: \"cuda\" threads: 2 }", "train.threads:", "no effect"},
      {"train { backend: \"cuda\" compute_type: \"fp16\" }", "train.compute_type:", "loss_scale"},
      {"train { payload: \"parameters\" }", "train.payload:", "delta, weights"},
      {"optimizer { clip_norm: 1 } train { payload: \"delta\" local_steps: 4 }",
       "train.payload: ", "optimizer.clip_norm"},
      {"train { local_steps: 8 }", "train.local_steps: 8", "payload: \"delta\""},
      {"train { outer { fragments: 2 } }", "train.outer:", "payload"},
      {"train { payload: \"delta\" local_steps: 0 }", "train.local_steps: 0", "1 to"},
      {"train { payload: \"delta\" loss_scale { dynamic {} } }",
       "train.loss_scale:", "payload: \"delta\""},
      {"train { payload: \"delta\" checkpoint: \"a\" snapshot: true }",
       "train.snapshot:", "payload: \"delta\""},
      {"train { payload: \"delta\" resume: \"a\" }", "train.resume:", "restart_momentum"},
      {"train { backend: \"cuda\" payload: \"delta\" gpu_direct: \"required\" }",
       "train.gpu_direct:", "payload: \"delta\""},
      {"train { payload: \"delta\" outer { rule: \"lars\" } }", "train.outer.rule:", "nesterov"},
      {"train { payload: \"delta\" outer { rule: \"sgd\" momentum: 0.5 } }",
       "train.outer.momentum:", "no effect"},
      {"train { payload: \"delta\" outer { momentum: 1 } }", "train.outer.momentum: 1", "below 1"},
      {"train { payload: \"delta\" outer { learning_rate: 0 } }", "train.outer.learning_rate: 0",
       "above 0"},
      {"train { payload: \"delta\" outer { mix: 1 } }", "train.outer.mix: 1", "take nothing"},
      {"train { payload: \"delta\" local_steps: 4 outer { fragments: 5 } }",
       "train.outer.fragments: 5", "raise local_steps"},
      {"train { payload: \"delta\" local_steps: 4 outer { overlap_steps: 4 } }",
       "train.outer.overlap_steps: 4", "raise local_steps"},
      {"train { share: \"fast\" }", "train.share: \"fast\"", "number above 0"},
      {"train { share: \"0\" }", "train.share: \"0\"", "number above 0"},
      {"train { share: \"inf\" }", "train.share: \"inf\"", "number above 0"},
      {"train { share: \"2\" payload: \"delta\" }", "train.share:", "payload: \"gradient\""},
      {"train { share: \"2\" backend: \"cuda\" devices: [0, 1] }", "train.share:", "one GPU"},
      {"train { groups: 0 }", "train.groups: 0", "1 to"},
      {"train { batch: 64 groups: 3 }", "train.groups: 3", "64 images (batch)"},
      {"train { backend: \"cuda\" groups: 2 }", "train.groups:", "devices"},
      {"train { share: \"2\" groups: 2 }", "train.groups:", "share"},
      {"train { compute_type: \"fp8\" }", "train.compute_type:", "bf16"},
  };
  for (const WrongField& c : cases) {
    const std::string error = worker_error(std::string("data { path: \"x\" }\n") + c.text);
    CHECK_THAT(error, StartsWith("w.textproto:") && Contains(c.start) && Contains(c.part));
  }
}

TEST_CASE("rounds with a quorum that make no sense name field and cure") {
  const WrongField cases[] = {
      {"rounds { grace_ms: 5 }", "rounds.quorum: is missing", "wait for all"},
      {"rounds { quorum: 4 }", "rounds.quorum: 4 of 4", "1 to workers - 1"},
      {"rounds { quorum: 0 }", "rounds.quorum: 0 of 4", "leave `rounds` out"},
      {"rounds { quorum: 3 grace_ms: 600001 }", "rounds.grace_ms: 600001", "600000"},
      {"rounds { quorum: 3 patience_ms: 0 }", "rounds.patience_ms: 0", "600000"},
      {"rounds { quorum: 3 grace_ms: 30000 }", "rounds.grace_ms: 30000", "timeout_ms"},
      {"rounds { quorum: 3 patience_ms: 900 } timeout_ms: 900", "rounds.patience_ms: 900",
       "leave it out for a third of timeout_ms"},
      {"rounds { quorum: 3 late: \"add\" grace_ms: 5 }", "rounds.grace_ms:", "nobody waits"},
      {"rounds { quorum: 3 late: \"wait\" }", "rounds.late:", "drop, add"},
      {"rounds { quorum: 3 weight: \"staleness\" }",
       "rounds.weight:", "contradicts rounds.late: drop"},
      {"rounds { quorum: 2 late: \"add\" turns: true }",
       "rounds.turns:", "contradicts rounds.quorum: 2"},
      {"rounds { quorum: 1 turns: true }", "rounds.turns:", "contradicts rounds.late: drop"},
      {"rounds { quorum: 1 late: \"add\" turns: true staleness: 1 }",
       "rounds.staleness:", "nobody is ahead"},
      {"rounds { quorum: 1 late: \"add\" turns: true weight: \"staleness\" }",
       "rounds.turns:", "contradicts rounds.weight: staleness"},
      {"rounds { quorum: 1 hogwild: true }", "rounds.hogwild:", "contradicts rounds.late: drop"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true turns: true }",
       "rounds.hogwild:", "contradicts rounds.turns: true"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true weight: \"samples\" }",
       "rounds.hogwild:", "contradicts rounds.weight: samples"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true }",
       "rounds.hogwild:", "contradicts rule: momentum"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true } train { payload: \"delta\" }",
       "rounds.hogwild:", "contradicts rule: nesterov"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true } optimizer { rule: \"sgd\" } "
       "transport: \"tcp\"",
       "rounds.hogwild: contradicts transport: \"tcp\"", "use \"shm\""},
      {"rounds { quorum: 1 late: \"add\" hogwild: true } optimizer { rule: \"sgd\" } "
       "wire_type: \"bf16\"",
       "rounds.hogwild:", "contradicts wire_type: bf16"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true } optimizer { rule: \"sgd\" } "
       "servers: \"a:1\" servers: \"b:1\"",
       "rounds.hogwild: is for one server", "leave one"},
      {"rounds { quorum: 1 late: \"add\" hogwild: true } optimizer { rule: \"sgd\" } "
       "checksums: true",
       "checksums: true", "contradicts rounds.hogwild"},
      {"rounds { quorum: 3 } optimizer { rule: \"lars\" }", "rounds.quorum:", "momentum"},
      {"rounds { quorum: 3 } optimizer { rule: \"lamb\" }", "rounds.quorum:", "momentum"},
      {"rounds { quorum: 3 } optimizer { clip_norm: 1 }",
       "rounds.quorum:", "contradicts clip_norm: 1"},
      {"rounds { quorum: 3 } train { share: \"auto\" }",
       "rounds.quorum:", "train.share, whose weights add up where every worker's push counts; use"},
      {"rounds { quorum: 1 late: \"add\" turns: true } "
       "train { payload: \"delta\" local_steps: 8 outer { fragments: 2 } }",
       "train.outer.fragments: 2 contradicts rounds.turns", "remove one of them"},
      {"rounds { quorum: 1 late: \"add\" turns: true } "
       "train { payload: \"weights\" local_steps: 2 outer { fragments: 2 } }",
       "train.outer.fragments: 2 contradicts rounds.turns", "remove one of them"},
      {"rounds { quorum: 3 } train { loss_scale { dynamic { } } }",
       "rounds.quorum:", "contradicts loss_scaling: voted"},
      {"rounds { quorum: 3 } train { checkpoint: \"c\" snapshot: true }",
       "rounds.quorum:", "phubctl"},
      {"servers: \"a:1\" rounds { quorum: 3 } racks { name: \"a\" workers: 2 } "
       "racks { name: \"b\" workers: 2 }",
       "rounds.quorum:", "contradicts racks: a:2,b:2"},
  };
  const std::string head = "data { path: \"x\" }\nworkers: 4 order: \"arrival\"\n";
  for (const WrongField& c : cases) {
    CHECK_THAT(worker_error(head + c.text),
               StartsWith("w.textproto:") && Contains(c.start) && Contains(c.part));
  }
  CHECK_THAT(worker_error("data { path: \"x\" } workers: 4 rounds { quorum: 3 }"),
             Contains("rounds.quorum:") && Contains("set order to arrival"));
  for (const char* const right :
       {"rounds { quorum: 1 late: \"add\" staleness: 3 }",
        "rounds { quorum: 1 late: \"add\" hogwild: true } optimizer { rule: \"sgd\" }",
        "rounds { quorum: 1 late: \"add\" hogwild: true } train { payload: \"weights\" }",
        "rounds { quorum: 1 late: \"add\" hogwild: true } "
        "train { payload: \"delta\" outer { rule: \"sgd\" } }",
        "rounds { quorum: 3 weight: \"samples\" } train { share: \"auto\" }",
        "rounds { quorum: 1 late: \"add\" turns: true } train { payload: \"delta\" }"}) {
    CHECK(worker_error(head + right) == "no error");
  }
}

TEST_CASE("values are watched with words that there are, and a dynamic loss scale is not failed") {
  const std::string head = "data { path: \"x\" } servers: \"a:1\" ";
  CHECK(parse_worker_config(head + "watch_values: \"fail\"", "w.textproto"));
  CHECK_THAT(worker_error(head + "watch_values: \"stop\""),
             Contains("watch_values:") && Contains("off, name, fail"));
  const std::string dynamic = " train { loss_scale { dynamic { } } }";
  CHECK(parse_worker_config(head + "watch_values: \"name\"" + dynamic, "w.textproto"));
  CHECK_THAT(worker_error(head + "watch_values: \"fail\"" + dynamic),
             Contains("watch_values:") && Contains("contradicts loss_scaling: voted"));
}

TEST_CASE("adaptive rules: what belongs to them is refused with others, with the cure") {
  const std::string data = "data { format: \"synthetic\" } ";
  const auto error = [&](const std::string& rule, const std::string& fields) {
    return worker_error(data + "optimizer { rule: \"" + rule + "\" " + fields + " }");
  };
  CHECK(error("adam", "beta1: 0 beta2: 0.95 epsilon: 1e-6") == "no error");
  CHECK(error("adamw", "") == "no error");
  CHECK(error("adagrad", "epsilon: 1e-10") == "no error");
  CHECK(error("lamb", "beta1: 0.8 epsilon: 1e-6 clip_norm: 1") == "no error");
  CHECK_THAT(error("lamb", "momentum: 0.9"), Contains("momentum") && Contains("set beta1"));
  CHECK_THAT(error("lamb", "trust_coefficient: 0.1"), Contains("unless rule is \"lars\""));
  CHECK_THAT(error("adamw", "momentum: 0.9"), Contains("momentum") && Contains("set beta1"));
  CHECK_THAT(error("adagrad", "momentum: 0.9"), Contains("momentum") && Contains("choose"));
  CHECK_THAT(error("adagrad", "beta2: 0.9"), Contains("beta2") && Contains("\"adamw\""));
  CHECK_THAT(error("momentum", "beta1: 0.9"), Contains("beta1") && Contains("\"adamw\""));
  CHECK_THAT(error("lars", "epsilon: 1e-6"), Contains("epsilon") && Contains("trust_epsilon"));
  CHECK_THAT(error("sgd", "epsilon: 1e-6"), Contains("epsilon") && Contains("\"adagrad\""));
  for (const char* wrong : {"1", "-0.1", "nan"}) {
    CHECK_THAT(error("adam", std::string("beta1: ") + wrong), Contains("at least 0 and below 1"));
    CHECK_THAT(error("adam", std::string("beta2: ") + wrong), Contains("at least 0 and below 1"));
  }
  for (const char* wrong : {"0", "-1e-8", "inf", "nan", "1e-40"}) {
    CHECK_THAT(error("adam", std::string("epsilon: ") + wrong), Contains("from 1e-30 to 1e30"));
  }
}

TEST_CASE("clipping by norm: what does not go with it is refused with the cure") {
  const std::string data = "data { format: \"synthetic\" } ";
  const auto error = [&](const std::string& text) { return worker_error(data + text); };
  CHECK(error("optimizer { rule: \"adamw\" clip_norm: 1 }") == "no error");
  CHECK_THAT(error("optimizer { clip_norm: 0 }"), Contains("clip_norm") && Contains("above 0"));
  CHECK_THAT(error("optimizer { rule: \"lars\" clip_norm: 1 }"),
             Contains("optimizer.clip_norm: 1 contradicts rule: lars"));
  // The command line may name one server instead.
  CHECK(error("servers: \"a:1\" servers: \"b:1\" optimizer { clip_norm: 1 }") == "no error");
}

TEST_CASE("a moving average may be asked for where the command line names the servers") {
  const auto error = [](const std::string& text) {
    return worker_error("data { format: \"synthetic\" } " + text);
  };
  CHECK(error("servers: \"a:1\" optimizer { ema_decay: 0.999 }") == "no error");
  CHECK(error("optimizer { ema_decay: 0.999 }") == "no error");
  for (const char* wrong : {"0", "1", "-1", "nan"}) {
    CHECK_THAT(error("servers: \"a:1\" optimizer { ema_decay: " + std::string(wrong) + " }"),
               Contains("ema_decay") && Contains("above 0 and below 1"));
  }
}

TEST_CASE("mixed precision: what does not go together is refused with the cure") {
  const std::string data = "data { format: \"synthetic\" } ";
  const auto error = [&](const std::string& text) { return worker_error(data + text); };
  CHECK(error("optimizer { rule: \"lars\" trust_coefficient: 0.01 }") == "no error");
  CHECK_THAT(error("optimizer { trust_coefficient: 0.01 }"),
             Contains("trust_coefficient") && Contains("unless rule is \"lars\""));
  CHECK_THAT(error("optimizer { rule: \"lars\" trust_epsilon: -1 }"), Contains("trust_epsilon"));
  CHECK(error("train { loss_scale { factor: 1024 } }") == "no error");
  CHECK(error("train { loss_scale { dynamic { initial: 16777216 } } }") == "no error");
  CHECK(error("train { loss_scale { dynamic { } } }") == "no error");
  for (const char* wrong : {"0", "0.0005", "33554432", "inf"}) {
    CHECK_THAT(error(std::string("train { loss_scale { factor: ") + wrong + " } }"),
               Contains("factor") && Contains("from 2^-10 to 2^24"));
  }
  CHECK_THAT(error("train { loss_scale { factor: 2 dynamic { } } }"),
             Contains("beside dynamic (set dynamic.initial)"));
  for (const char* const initial : {"3", "0", "-4", "33554432", "0.0001", "inf"}) {
    CHECK_THAT(error(std::string("train { loss_scale { dynamic { initial: ") + initial + " } } }"),
               Contains("initial") && Contains("a power of two from 2^-10 to 2^24"));
  }
  CHECK_THAT(error("train { loss_scale { dynamic { growth_steps: 0 } } }"),
             Contains("growth_steps"));
  CHECK_THAT(error("train { accumulate: 0 }"), Contains("accumulate"));
  CHECK_THAT(error("train { label_smoothing: 1 }"), Contains("label_smoothing"));
}

}  // namespace
}  // namespace phub
