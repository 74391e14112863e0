// A core with as many connections as it has room for, over every transport: lists that are filled
// on the data path are as long as they may become when they are made.
#include <catch2/catch.hpp>

#include "tests/support/main/counting_new.h"
#include "tests/support/server/core_rig.h"

namespace phub::testing {

TEST_CASE("a core that replies on every connection of every transport allocates nothing") {
  CoreRig rig("all");
  rig.push_chunk(3);  // of all workers: when it is complete, all have a reply at once
  allocations = 0;
  counting = true;
  rig.run();
  counting = false;
  CHECK(allocations == 0);
  CHECK(rig.waiting_replies() == 6);
}

}  // namespace phub::testing
