// Sessions of networks that are not built in, with dropout, and on the reference backend.
#include <catch2/catch.hpp>

#include "tests/support/temporary_directory.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

nn::Graph with_dropout(float ratio) {
  nn::Graph graph({.channels = 1, .height = 12, .width = 12});
  nn::TensorId x = graph.add("conv", nn::Convolution{.channels = 8, .window = {3, 2, 1}}, {0});
  x = graph.add("bn", nn::BatchNorm{.relu = true}, {x});
  const nn::TensorId pool = graph.add("pool", nn::Pool{nn::PoolKind::kMax, {3, 1, 1}}, {x});
  x = graph.add("both", nn::Concat{}, {x, pool});
  x = graph.add("drop", nn::Dropout{.ratio = ratio}, {x});
  graph.add("fc", nn::InnerProduct{.outputs = 5}, {x});
  return graph;
}

SessionOptions session(BackendKind backend, float ratio = 0.3F) {
  return {.model = "dropped",
          .graph = with_dropout(ratio),
          .executor = {.backend = backend, .batch = 10},
          .data = {.format = DataFormat::kSynthetic, .synthetic_images = 120},
          .update = {.momentum = 0.0F,
                     .schedule = {.kind = ScheduleKind::kConstant, .learning_rate = 0.01F}},
          .epochs = 2,
          .seed = 5};
}

Result<SessionResult> run_network(const SessionOptions& options, std::uint64_t stop_after = ~0ULL) {
  std::uint64_t steps = 0;
  return run_session(
      options,
      [&](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<GradientExchange>> {
        return make_local_exchange(keys, RuleKind::kSgd);
      },
      [&] { return ++steps >= stop_after; });
}

TEST_CASE("A run with dropout repeats bit by bit, also where it was stopped and resumed") {
  const BackendKind backend = GENERATE(BackendKind::kOnednn, BackendKind::kReference);
  const TemporaryDirectory directory;
  SessionOptions options = session(backend);
  for (const char* name : {"a", "b"}) {
    options.checkpoint.path = directory.path / name;
    REQUIRE(run_network(options));
  }
  REQUIRE(directory.read("a") == directory.read("b"));
  options.checkpoint.path = directory.path / "half";
  REQUIRE(run_network(options, 7)->next_step == 7);
  options.checkpoint.resume = options.checkpoint.path;
  options.checkpoint.path = directory.path / "joined";
  REQUIRE(run_network(options));
  REQUIRE(directory.read("joined") == directory.read("a"));
  // And the masks are not for nothing.
  SessionOptions without = session(backend, 0.0F);
  without.checkpoint.path = directory.path / "without";
  REQUIRE(run_network(without));
  REQUIRE(directory.read("without") != directory.read("a"));
}

TEST_CASE("A described network learns on either backend") {
  for (const BackendKind backend : {BackendKind::kOnednn, BackendKind::kReference}) {
    SessionOptions options = session(backend);
    options.update.momentum = 0.9F;
    options.epochs = 8;
    const auto result = run_network(options);
    REQUIRE(result);
    REQUIRE(result->test_accuracy > 0.9);
  }
}

TEST_CASE("What cannot be trained is refused before anybody is joined") {
  SessionOptions options = session(BackendKind::kReference);
  options.executor.threads = 2;
  const auto threads = run_network(options);
  REQUIRE_FALSE(threads);
  REQUIRE(threads.error().message().find("train.threads") != std::string::npos);
  nn::Graph nothing({.channels = 1, .height = 12, .width = 12});
  nothing.add("pool", nn::GlobalAveragePool{}, {0});
  options = session(BackendKind::kOnednn);
  options.graph = nothing;
  const auto empty = run_network(options);
  REQUIRE_FALSE(empty);
  REQUIRE(empty.error().message().find("nothing to train") != std::string::npos);
}

}  // namespace
}  // namespace phub::train
