#include "server/directory/directory.h"

#include <catch2/catch.hpp>

namespace phub::server {
namespace {

TEST_CASE("a static directory has the racks of the configuration by name, servers in their order") {
  const auto directory = std::move(*Directory::create(
      {.rack = "b",
       .address = "10.0.0.3:7400",
       .racks = {{.name = "b", .servers = {"10.0.0.3:7400"}},
                 {.name = "a", .servers = {"10.0.0.2:7400", "10.0.0.1:7400"}}}}));
  const std::vector<RackEntry> expected = {
      {.name = "a", .servers = {"10.0.0.2:7400", "10.0.0.1:7400"}},
      {.name = "b", .servers = {"10.0.0.3:7400"}}};
  CHECK(directory->racks() == expected);
  CHECK(directory->own_rack() == "b");
  CHECK_FALSE(directory->may_grow());
  CHECK(directory->own_address() == "10.0.0.3:7400");
}

TEST_CASE("a server without a rack knows no racks") {
  const auto directory = std::move(*Directory::create({}));
  CHECK(directory->racks().empty());
  CHECK(directory->own_rack().empty());
}

}  // namespace
}  // namespace phub::server
