#include "worker/cuda/tuning/engine_cache.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace phub::nn::cuda {
namespace {

// A file of its own that is removed at the end.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name)
      : path(std::filesystem::temp_directory_path() /
             ("phub_engine_cache_" + std::to_string(::getpid()) + name)) {
    std::filesystem::remove(path);
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

const EngineScope kScope{91900, "NVIDIA H200"};

TEST_CASE("Engines are found again by graph, version and device; the last measurement counts") {
  const TemporaryFile file("found");
  {
    auto cache = EngineCache::open(file.path, kScope);
    REQUIRE(cache);
    REQUIRE(cache->add("conv A", {{63, {{2, 14}, {27, 1}}}, 41.5}).ok());
    REQUIRE(cache->add("conv B", {{5, {}}, 7.0}).ok());
    REQUIRE(cache->add("conv B", {{6, {}}, 6.0}).ok());
  }
  const auto again = EngineCache::open(file.path, kScope);
  REQUIRE(again);
  CHECK(again->size() == 2);
  const auto found = again->find("conv A");
  REQUIRE(found);
  CHECK(found->choice == EngineChoice{63, {{2, 14}, {27, 1}}});
  CHECK(found->microseconds == 41.5);
  CHECK(again->find("conv B")->choice.engine == 6);
  CHECK_FALSE(again->find("conv C"));
  CHECK(EngineCache::open(file.path, {91800, kScope.device})->size() == 0);
  CHECK(EngineCache::open(file.path, {kScope.cudnn_version, "NVIDIA A100"})->size() == 0);
}

TEST_CASE("Blocks are found again with the times of their two ways") {
  const TemporaryFile file("blocks");
  {
    auto cache = EngineCache::open(file.path, kScope);
    REQUIRE(cache);
    REQUIRE(cache->add("0123", {{6, {}}, 6.0}).ok());  // a graph may be called so too
    REQUIRE(cache->add_block("0123", "conv1, statistics", {41.5, 40.5}).ok());
    REQUIRE(cache->add_block("4567", "conv2, statistics", {1.0, 2.0}).ok());
  }
  const auto again = EngineCache::open(file.path, kScope);
  REQUIRE(again);
  CHECK(again->size() == 1);
  const auto found = again->find_block("0123");
  REQUIRE(found);
  CHECK(found->fused == 41.5);
  CHECK(found->unfused == 40.5);
  CHECK_FALSE(found->is_fused());
  CHECK(again->find_block("4567")->is_fused());
  CHECK_FALSE(again->find_block("89ab"));
  CHECK_FALSE(EngineCache::open(file.path, {kScope.cudnn_version, "another"})->find_block("0123"));
}

TEST_CASE("Engines that come with the program are known, and what is measured here counts more") {
  const TemporaryFile file("own"), others("committed");
  const auto measured = [](std::int64_t engine, double microseconds) {
    return MeasuredEngine{{engine, {}}, microseconds};
  };
  {
    auto committed = EngineCache::open(others.path, kScope);
    REQUIRE(committed->add("both", measured(1, 10.0)).ok());
    REQUIRE(committed->add("only committed", measured(2, 20.0)).ok());
    REQUIRE(committed->add_block("0123", "layer1.0", {2.0, 3.0}).ok());
    auto own = EngineCache::open(file.path, kScope);
    REQUIRE(own->add("both", measured(3, 30.0)).ok());
  }
  std::ifstream in(others.path);
  const std::string committed((std::istreambuf_iterator<char>(in)), {});
  const auto cache = EngineCache::open(file.path, kScope, committed);
  REQUIRE(cache);
  CHECK(cache->find("both")->choice.engine == 3);
  CHECK(cache->find("only committed")->choice.engine == 2);
  CHECK(cache->find_block("0123"));
  CHECK(EngineCache::open({}, {kScope.cudnn_version, "another"}, committed)->size() == 0);
  const auto damaged = EngineCache::open({}, kScope, committed + "{");
  REQUIRE_FALSE(damaged);
  CHECK_THAT(damaged.error().message(), Catch::Contains("come with phub-worker:4"));
  // Whatever is in the tree is readable.
  CHECK(EngineCache::open({}, kScope, committed_engines()));
}

TEST_CASE("A damaged cache names the line and the cure") {
  const TemporaryFile file("damaged");
  std::ofstream(file.path) << "\n{\"cudnn\": 91900, \"device\": \"NVIDIA H200\"}\n";
  const auto cache = EngineCache::open(file.path, kScope);
  REQUIRE_FALSE(cache);
  CHECK(cache.error().code() == Code::kDataLoss);
  CHECK_THAT(cache.error().message(),
             Catch::Contains(file.path.string() + ":2") && Catch::Contains("remove the line"));
}

TEST_CASE("Without a file engines are remembered in memory; a folder that is not there is told") {
  auto cache = EngineCache::open({}, kScope);
  REQUIRE(cache);
  CHECK(cache->add("conv", {{1, {}}, 1.0}).ok());
  CHECK(cache->find("conv"));
  auto nowhere = EngineCache::open("/nowhere/engines.jsonl", kScope);
  REQUIRE(nowhere);
  CHECK(nowhere->add("conv", {{1, {}}, 1.0}).code() == Code::kUnavailable);
  CHECK(nowhere->find("conv"));
}

}  // namespace
}  // namespace phub::nn::cuda
