// Which transport a worker takes, and what it says about it.
#include "common/connect/transport_choice.h"

#include <sched.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "common/transport/descriptors.h"
#include "common/transport/shm/namespace.h"
#include "tests/support/temporary_directory.h"

namespace phub::client {
namespace {

using Catch::Matchers::Contains;

// A server of this host, whose unix socket is in this network namespace.
struct Listening {
  UniqueFd socket = std::move(*transport::listen_abstract("phub-transport-choice-test"));
  JoinInfo joined;

  Listening() {
    joined.same_host = true;
    joined.host = "127.0.0.1";
    joined.tcp_port = 7077;
    joined.shm_socket = "phub-transport-choice-test";
  }
};

Status no_verbs(const RdmaPort&, std::uint32_t) { return {Code::kNotFound, "no RDMA"}; }

}  // namespace

TEST_CASE("auto is shm where the server's socket can be reached") {
  const Listening server;
  const auto choice = choose_transport("auto", server.joined, no_verbs);
  REQUIRE(choice);
  CHECK(choice->transport == "shm");
}

TEST_CASE("auto is tcp in another container of the server's host, and says why") {
  JoinInfo elsewhere = Listening().joined;  // its socket is closed: it is in no namespace
  const auto choice = choose_transport("auto", elsewhere, no_verbs);
  REQUIRE(choice);
  CHECK(choice->transport == "tcp");
  CHECK_THAT(choice->reason, Contains("no shm: its socket is not in this network namespace"));
  const auto refused = choose_transport("shm", elsewhere, no_verbs);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Contains("another container"));
}

TEST_CASE("auto is verbs where every core's port is within reach, and else says why not") {
  JoinInfo elsewhere;
  elsewhere.tcp_port = 7077;
  elsewhere.rdma.resize(2);
  elsewhere.rdma[0].device = "mlx5_0";
  elsewhere.rdma[1].device = "mlx5_1";
  std::vector<std::string> asked;
  const auto chosen = choose_transport("auto", elsewhere, [&](const RdmaPort& peer, auto) {
    asked.push_back(peer.device);
    return Status();
  });
  REQUIRE(chosen);
  CHECK(chosen->transport == "verbs");
  CHECK(asked == std::vector<std::string>{"mlx5_0", "mlx5_1"});
  const auto lacking = choose_transport("auto", elsewhere, no_verbs);
  REQUIRE(lacking);
  CHECK(lacking->transport == "tcp");
  CHECK_THAT(lacking->reason, Contains("no verbs: no RDMA"));
}

TEST_CASE("a thread in a network namespace of its own does not see the server's socket") {
  const Listening server;
  bool is_alone = false;
  bool sees = true;
  std::thread([&] {
    is_alone = ::unshare(CLONE_NEWNET) == 0;
    sees = transport::is_in_this_namespace(server.joined.shm_socket);
  }).join();
  if (!is_alone) {
    WARN("no right to make a network namespace: not tried");
    return;
  }
  CHECK_FALSE(sees);
  CHECK(transport::is_in_this_namespace(server.joined.shm_socket));
}

TEST_CASE("a list of sockets that cannot be read rules nothing out") {
  CHECK(transport::is_in_this_namespace("any", "/nowhere"));
  const TemporaryDirectory folder;
  const std::string list = (folder.path / "unix").string();
  std::ofstream(list) << "Num RefCount Protocol Flags Type St Inode Path\n"
                      << "00: 00000002 00000000 00010000 0001 01 17000 @phub-1-22\n"
                      << "00: 00000002 00000000 00010000 0001 01 17001 /run/phub-1-2\n";
  CHECK(transport::is_in_this_namespace("phub-1-22", list));
  CHECK_FALSE(transport::is_in_this_namespace("phub-1-2", list));
}

}  // namespace phub::client
