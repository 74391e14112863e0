// How many cores there are by default, and on which CPUs.
#include "server/plane/core_cpus.h"

#include <catch2/catch.hpp>

#include "common/base/affinity.h"

namespace phub::server {
namespace {

TEST_CASE("By default half of the CPUs are the workers'") {
  CHECK(default_cores(0) == 1);  // a system that does not say how many it has
  CHECK(default_cores(1) == 1);
  CHECK(default_cores(2) == 1);
  CHECK(default_cores(3) == 1);
  CHECK(default_cores(64) == 32);
  const auto usable = usable_cpus();
  REQUIRE(usable);
  const auto cpus = assign_cpus({});
  REQUIRE(cpus);
  REQUIRE(cpus->size() == default_cores(usable->size()));
  for (std::size_t core = 0; core < cpus->size(); ++core) CHECK((*cpus)[core] == (*usable)[core]);
}

TEST_CASE("Who says how many cores has so many, or is told what there is") {
  const auto usable = usable_cpus();
  REQUIRE(usable);
  const auto all = static_cast<std::uint32_t>(usable->size());
  DataPlaneOptions options;
  options.cores = all;
  REQUIRE(assign_cpus(options));
  CHECK(assign_cpus(options)->size() == all);
  options.cores = all + 1;
  const auto refused = assign_cpus(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kResourceExhausted);
  options.allow_oversubscription = true;
  const auto shared = assign_cpus(options);
  REQUIRE(shared);
  CHECK(shared->size() == all + 1);
  CHECK_FALSE(shared->front());
}

}  // namespace
}  // namespace phub::server
