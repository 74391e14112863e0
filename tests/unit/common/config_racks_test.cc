// ServerConfig's rack, advertise_address and directory.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/base/rack.h"
#include "common/config/config.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string error_of(const std::string& text) {
  const auto config = parse_server_config(text, "s.textproto");
  if (config) return "no error";
  CHECK(config.error().code() == Code::kInvalidArgument);
  return config.error().message();
}

// A server of rack a, with this as the inside of its directory.
std::string in_rack_a(const std::string& directory) {
  return "rack: \"a\" control_address: \"10.0.0.1:7400\"\n"
         "security { allow_plaintext: true tokens: \"off\" }\n"
         "directory {\n" +
         directory + "\n}\n";
}

constexpr char kRackA[] = "racks { name: \"a\" servers: \"10.0.0.1:7400\" }\n";

TEST_CASE("a server is in a rack of a static directory") {
  CHECK(error_of(in_rack_a(kRackA)) == "no error");
  CHECK(error_of(in_rack_a(std::string(kRackA) +
                           "racks { name: \"b\" servers: \"[::1]:7400\" servers: \"b2.example:1\" "
                           "}")) == "no error");
  CHECK(error_of("rack: \"a\" control_address: \"127.0.0.1:0\" advertise_address: \"a1:7400\"\n"
                 "directory { racks { name: \"a\" servers: \"a1:7400\" } }") == "no error");
}

TEST_CASE("a directory's wrong entry is named with its place and the cure") {
  struct Case {
    std::string inside;
    std::string place;
    std::string words;
  };
  const std::string a = kRackA;
  const Case cases[] = {
      {"", "s.textproto: directory.racks: ", "is missing: list each rack as racks {"},
      {a + "racks { name: \"a\" servers: \"10.0.0.2:1\" }",
       "s.textproto:5:9: directory.racks[1].name: ", "rack \"a\" is listed twice"},
      {a + "racks { name: \"-b\" servers: \"10.0.0.2:1\" }",
       "s.textproto:5:9: directory.racks[1].name: ", "1 to 64 of a-z A-Z 0-9 . _ -"},
      {a + "racks { name: \"b/c\" servers: \"10.0.0.2:1\" }",
       "s.textproto:5:9: directory.racks[1].name: ", "\"b/c\" is no name of a rack"},
      {a + "racks { servers: \"10.0.0.2:1\" }",
       "s.textproto: directory.racks[1].name: ", "\"\" is no name of a rack"},
      {a + "racks { name: \"b\" }",
       "s.textproto: directory.racks[1].servers: ", "rack \"b\" needs at least one"},
      {a + "racks { name: \"b\" servers: \"10.0.0.2\" }",
       "s.textproto:5:19: directory.racks[1].servers: ", "has no port"},
      {a + "racks { name: \"b\" servers: \"10.0.0.2:0\" }",
       "s.textproto:5:19: directory.racks[1].servers: ", "has port 0"},
      {a + "racks { name: \"b\" servers: \"0.0.0.0:7400\" }",
       "s.textproto:5:19: directory.racks[1].servers: ", "names no host"},
      {a + "racks { name: \"b\" servers: \"10.0.0.2:1\" servers: \"10.0.0.1:7400\" }",
       "s.textproto:5:41: directory.racks[1].servers: ", "a server is in one rack, once"},
      {"racks { name: \"b\" servers: \"10.0.0.2:1\" }",
       "s.textproto:1:1: rack: ", "\"a\" is not in directory.racks"},
      {"racks { name: \"a\" servers: \"10.0.0.2:1\" }", "s.textproto:1:11: control_address: ",
       "\"10.0.0.1:7400\" is not among the servers of rack \"a\""},
  };
  for (const Case& c : cases) {
    INFO(c.inside);
    CHECK_THAT(error_of(in_rack_a(c.inside)), StartsWith(c.place) && Contains(c.words));
  }
}

TEST_CASE("a rack and a directory need each other") {
  CHECK_THAT(error_of("rack: \"a\""), StartsWith("s.textproto:1:1: rack: has no effect without"));
  CHECK_THAT(error_of("directory { racks { name: \"a\" servers: \"10.0.0.1:7400\" } }"),
             StartsWith("s.textproto:1:1: directory: has no effect without rack"));
  CHECK_THAT(error_of("advertise_address: \"10.0.0.1:7400\""),
             StartsWith("s.textproto:1:1: advertise_address: has no effect without rack"));
}

TEST_CASE("a server that is listed by another address gives it as advertise_address") {
  const std::string directory = "directory { racks { name: \"a\" servers: \"a1.example:7400\" } }";
  CHECK_THAT(error_of("rack: \"a\"\nadvertise_address: \"a2.example:7400\"\n" + directory),
             StartsWith("s.textproto:2:1: advertise_address: \"a2.example:7400\" is not among"));
  CHECK_THAT(error_of("rack: \"a\"\nadvertise_address: \"0.0.0.0:7400\"\n" + directory),
             StartsWith("s.textproto:2:1: advertise_address: \"0.0.0.0:7400\" names no host"));
}

TEST_CASE("more racks or servers than a server can know are refused with the figures") {
  std::string racks = kRackA;
  for (std::size_t i = 0; i < kRacksMax; ++i) {
    racks += fmt::format("racks {{ name: \"r{}\" servers: \"r{}:1\" }}\n", i, i);
  }
  CHECK_THAT(error_of(in_rack_a(racks)), Contains("1025 racks are listed; at most 1024 can be"));
  std::string servers = "racks { name: \"a\" servers: \"10.0.0.1:7400\"\n";
  for (std::size_t i = 0; i < kRackServersMax; ++i) {
    servers += fmt::format("servers: \"s{}:1\"\n", i);
  }
  CHECK_THAT(error_of(in_rack_a(servers + "}")),
             Contains("4097 servers are listed; at most 4096 can be"));
}

}  // namespace
}  // namespace phub
