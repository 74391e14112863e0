// ServerConfig's rack, advertise_address and directory.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rack.h"
#include "common/config/config.h"
#include "common/job/rack_list.h"

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
      {a + "racks { name: \"b//c\" servers: \"10.0.0.2:1\" }",
       "s.textproto:5:9: directory.racks[1].name: ", "\"b//c\" is no name of a rack"},
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

TEST_CASE("a token between racks is refused, for the directory says who would receive it") {
  CHECK_THAT(error_of(in_rack_a(kRackA) + "rack_security { token_file: \"t\" }"),
             Contains("rack_security.token_file") && Contains("pki issue"));
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

// A server of rack a, with this as the inside of its etcd.
std::string with_etcd(const std::string& etcd) {
  return "rack: \"a\"\n"
         "directory { etcd {\n" +
         etcd + "\n} }\n";
}

TEST_CASE("a directory in an etcd has the documented defaults") {
  const auto config =
      parse_server_config(with_etcd("endpoints: \"127.0.0.1:2379\""), "s.textproto");
  REQUIRE(config);
  CHECK(config->directory().etcd().prefix() == "/phub/racks");
  CHECK(config->directory().etcd().lease_s() == 10);
  CHECK(error_of(with_etcd("endpoints: \"10.0.0.9:2379\" endpoints: \"[::1]:2379\" lease_s: 2 "
                           "timeout_ms: 1999 user: \"phub\" password_file: \"p\" "
                           "ca: \"ca.pem\" certificate: \"c.pem\" key: \"k.pem\"")) == "no error");
}

TEST_CASE("a wrong field of the etcd is named with its place and the cure") {
  struct Case {
    std::string inside;
    std::string words;
  };
  const std::string member = "endpoints: \"127.0.0.1:2379\" ";
  const std::string remote = "endpoints: \"10.0.0.9:2379\" ";
  const std::string user = "user: \"u\" password_file: \"p\" ";
  const Case cases[] = {
      {"", "directory.etcd.endpoints: give 1 to 16 addresses"},
      {"endpoints: \"10.0.0.9\"", "s.textproto:3:1: directory.etcd.endpoints: \"10.0.0.9\" has no"},
      {member + member, "s.textproto:3:29: directory.etcd.endpoints: \"127.0.0.1:2379\" is listed"},
      {member + "prefix: \"\"", "directory.etcd.prefix: give 1 to 200 bytes"},
      {member + "prefix: \"/phub/\"", "directory.etcd.prefix: give 1 to 200 bytes"},
      {member + "prefix: \"\\n\"", "directory.etcd.prefix: give 1 to 200 bytes"},
      {member + "lease_s: 1", "directory.etcd.lease_s: 1 is outside"},
      {member + "timeout_ms: 49", "directory.etcd.timeout_ms: 49 is outside"},
      {member + "lease_s: 3", "directory.etcd.timeout_ms: 3000 ms is not less than the lease, 3 s"},
      {member + "ca: \"x\" certificate: \"x\"", "directory.etcd.certificate: certificate and key"},
      {member + "certificate: \"x\" key: \"x\"", "directory.etcd.ca: is missing"},
      {member + "user: \"u\"", "directory.etcd.user: user and password_file go together"},
      {member + "allow_plaintext: true", "directory.etcd.allow_plaintext: has no effect"},
      {remote + user,
       "directory.etcd.endpoints: without TLS everybody on the way to 10.0.0.9:2379"},
  };
  for (const Case& c : cases) {
    INFO(c.inside);
    CHECK_THAT(error_of(with_etcd(c.inside)), StartsWith("s.textproto:") && Contains(c.words));
  }
  CHECK(error_of(with_etcd(remote + user + "allow_plaintext: true")) == "no error");
  CHECK_THAT(error_of(with_etcd(member + "} racks { name: \"a\"")),
             Contains("directory.racks: has no effect beside etcd"));
}

TEST_CASE("a server that others are to find says an address that they can reach") {
  const std::string etcd = "directory { etcd { endpoints: \"127.0.0.1:2379\" } }\n";
  const std::string anywhere = "rack: \"a\" security { allow_plaintext: true tokens: \"off\" }\n" +
                               etcd + "control_address: \"0.0.0.0:7400\"\n";
  CHECK_THAT(error_of(anywhere),
             StartsWith("s.textproto:3:1: control_address: \"0.0.0.0:7400\" names no host"));
  CHECK(error_of(anywhere + "advertise_address: \"a1.example:0\"") == "no error");
  CHECK_THAT(error_of("rack: \"a b\"\n" + etcd),
             StartsWith("s.textproto:1:1: rack: \"a b\" is no name of a rack"));
}

TEST_CASE("racks on a command line are names and workers, and say what is wrong with them") {
  const auto racks = parse_racks("a:4,row-2.b:1");
  REQUIRE(racks);
  CHECK(*racks == std::vector<RackSpec>{{"a", 4}, {"row-2.b", 1}});
  for (const auto& [text, what] :
       std::vector<std::pair<std::string, std::string>>{{"a:4", "two racks or more"},
                                                        {"", "no number of workers"},
                                                        {"a:4,", "no number of workers"},
                                                        {"a:4,b", "\"b\" has no number"},
                                                        {"a:4,b:0", "from 1 to 1024"},
                                                        {"a:4,b:1025", "from 1 to 1024"},
                                                        {"a:4,b:-1", "from 1 to 1024"},
                                                        {"a:4,b:4x", "from 1 to 1024"},
                                                        {"a:4,a:4", "there twice"},
                                                        {"a:4,b c:4", "no name of a rack"}}) {
    INFO(text);
    const auto wrong = parse_racks(text);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code() == Code::kInvalidArgument);
    CHECK_THAT(wrong.error().message(), Contains(what));
  }
}

// A program's --server gives them.
TEST_CASE("a file for a job of several racks may leave the servers out") {
  const auto config = parse_worker_config(
      "workers: 2 racks { name: \"a\" workers: 1 } racks { name: \"b\" workers: 1 }\n"
      "data { format: \"synthetic\" }",
      "w");
  CHECK((config ? "" : config.error().message()) == "");
}

TEST_CASE("a threshold of small keys is hybrid's only") {
  const auto worker = [](const std::string& text) {
    const auto config = parse_worker_config(
        "servers: \"s:1\" workers: 2 racks { name: \"a\" workers: 1 }\n"
        "racks { name: \"b\" workers: 1 }\n" +
            text,
        "w");
    return config ? "no error" : config.error().message();
  };
  CHECK_THAT(worker("rack_hybrid_bytes: 4096"), Contains("w:3:1: rack_hybrid_bytes"));
  CHECK_THAT(worker("rack_shape: \"hybrid\" rack_hybrid_bytes: 4096"),
             !Contains("rack_hybrid_bytes"));
  CHECK_THAT(worker("rack_shape: \"ring\""), Contains("spread, chain, multicolour, hybrid"));
}

TEST_CASE("what goes from rack to rack is checked where it is written") {
  const auto worker = [](const std::string& text, const std::string& racks =
                                                      "racks { name: \"a\" workers: 1 }\n"
                                                      "racks { name: \"b\" workers: 1 }\n") {
    const auto config = parse_worker_config(
        "servers: \"s:1\" workers: 2 data { path: \"x\" }\n" + racks + "rack_compress {" + text,
        "w");
    return config ? "no error" : config.error().message();
  };
  CHECK(worker("}") == "no error");
  CHECK(worker("density: 1 selector: \"mstopk\" }") == "no error");
  CHECK_THAT(worker("density: 0 }"), Contains("w:4:16: rack_compress.density"));
  CHECK_THAT(worker("selector: \"best\" }"), Contains("rack_compress.selector"));
  CHECK_THAT(worker("}", ""), Contains("rack_compress.density: 0.01 contradicts racks: nothing"));
  CHECK_THAT(worker("} rack_wire_type: \"bf16\""), Contains("contradicts rack_wire_type"));
  CHECK(worker("} optimizer { rule: \"lars\" }") == "no error");
  CHECK(worker("} wire_type: \"fp16\" train { loss_scale { factor: 8 } }") == "no error");
  CHECK(worker("} wire_type: \"fp16\" train { loss_scale { dynamic {} } }") == "no error");
}

TEST_CASE("how racks wait for each other is checked where it is written") {
  const auto worker = [](const std::string& text) {
    const auto config = parse_worker_config(
        "servers: \"s:1\" workers: 2 data { path: \"x\" } order: \"arrival\"\n"
        "racks { name: \"a\" workers: 1 } racks { name: \"b\" workers: 1 }\n" +
            text,
        "w");
    return config ? "no error" : config.error().message();
  };
  CHECK(worker("rack_local_steps: 5 rack_rounds { quorum: 2 wait_ms: 0 }") == "no error");
  CHECK_THAT(worker("rack_local_steps: 5 rack_rounds { quorum: 3 }"),
             Contains("w:3:35: rack_rounds.quorum: 3 is above the number of racks, 2"));
  CHECK_THAT(worker("rack_local_steps: 5 rack_rounds { quorum: 1 wait_ms: 700000 }"),
             Contains("rack_rounds.wait_ms: 700000, allowed are 0 to 600000"));
  for (const char* const without :
       {"rack_rounds {}", "rack_rounds { quorum: 0 }", "rack_rounds { wait_ms: 250 }"}) {
    CHECK_THAT(worker(std::string("rack_local_steps: 5 ") + without),
               Contains("rack_rounds.quorum: is missing") && Contains("leave rack_rounds out"));
  }
  CHECK_THAT(worker("rack_rounds { quorum: 1 }"),
             Contains("rack_rounds.quorum: 1 contradicts rack_local_steps: 0"));
}

TEST_CASE("racks whose names have other numbers of levels are not nested") {
  const auto worker = [](const std::string& second, const std::string& shape) {
    const auto config = parse_worker_config(
        "servers: \"s:1\" workers: 2\n"
        "racks { name: \"site1/a\" workers: 1 }\n"
        "racks { name: \"" +
            second + "\" workers: 1 }\nrack_shape: \"" + shape + "\"",
        "w");
    return config ? "no error" : config.error().message();
  };
  CHECK_THAT(worker("b", "nested"), Contains("w:4:1: rack_shape") && Contains("\"b\" has 1"));
  CHECK_THAT(worker("site2/b", "nested"), !Contains("rack_shape"));
  CHECK_THAT(worker("b", "spread"), !Contains("rack_shape"));
}

TEST_CASE("checksums go with racks, and contradict gradients that stay on the GPU") {
  const auto told = [](const std::string& more) {
    const auto config = parse_worker_config(
        "data { path: \"x\" } servers: \"a:1\" workers: 2 checksums: true " + more, "w");
    return config ? "no error" : config.error().message();
  };
  CHECK(told("") == "no error");
  CHECK(told("racks { name: \"a\" workers: 1 } racks { name: \"b\" workers: 1 }") == "no error");
  CHECK_THAT(told("train { backend: \"cuda\" gpu_direct: \"required\" }"),
             Contains("checksums:") && Contains("train.gpu_direct") && Contains("\"auto\""));
}

TEST_CASE("several tcp streams go with racks, contradict other transports, and are at most 16") {
  const auto told = [](const std::string& more) {
    const auto config =
        parse_worker_config("data { path: \"x\" } servers: \"a:1\" workers: 2 " + more, "w");
    return config ? "no error " + std::to_string(config->tcp_streams()) : config.error().message();
  };
  CHECK(told("") == "no error 1");
  CHECK(told("tcp_streams: 16") == "no error 16");
  CHECK(told("tcp_streams: 4 transport: \"tcp\"") == "no error 4");
  CHECK_THAT(told("tcp_streams: 17"), Contains("tcp_streams: 17") && Contains("1 to 16"));
  CHECK_THAT(told("tcp_streams: 0"), Contains("tcp_streams: 0") && Contains("1 to 16"));
  for (const std::string other : {"shm", "verbs"}) {
    CHECK_THAT(told("transport: \"" + other + "\" tcp_streams: 2"),
               Contains("tcp_streams:") && Contains("with this transport"));
  }
  CHECK(told("tcp_streams: 2 racks { name: \"a\" workers: 1 } racks { name: \"b\" workers: 1 }") ==
        "no error 2");
}

}  // namespace
}  // namespace phub
