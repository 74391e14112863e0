// Members connect to each other in a time that has a bound, and nobody listens for longer.
#include <catch2/catch.hpp>

#include "tests/unit/data/spread/fake_member.h"
#include "tests/unit/data/spread/tcp_members.h"

namespace phub::data {
namespace {

using Catch::Matchers::Contains;

bool can_be_called(const PeerListener& listener) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(listener.port());
  const UniqueFd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

TEST_CASE("A member that is alone in its rack stops to listen when it begins") {
  Store store(kSamples);
  auto set = SpreadSet::create(std::make_unique<StoredSet>(store), {.memory_bytes = kPlenty});
  REQUIRE(set);
  PeerListener listener = listen_here();  // stays until the test ends, as a worker's does
  const client::PeerGroup group{
      .peers = {{.worker = 0, .host = "127.0.0.1", .port = listener.port()}}};
  REQUIRE(can_be_called(listener));
  const auto make = [&](Holder& holder, std::uint32_t) -> Result<std::unique_ptr<PeerLinks>> {
    PHUB_ASSIGN_OR_RETURN(
        auto links, TcpLinks::create({.group = group, .holder = holder}, {}, std::move(listener)));
    return std::unique_ptr<PeerLinks>(std::move(links));
  };
  REQUIRE((*set)->begin({.self = 0, .members = 1}, make).ok());
  CHECK_FALSE(can_be_called(listener));
  std::vector<std::uint8_t> buffer;
  CHECK((*set)->read(1, buffer));
  CHECK((*set)->counts().own == 1);
}

TEST_CASE("A third of a worker's deadline is for connecting, and a third for an answer") {
  const auto options = TcpLinkOptions::within(std::chrono::milliseconds(30'000));
  CHECK(options.set_up == std::chrono::milliseconds(10'000));
  CHECK(options.patience == std::chrono::milliseconds(10'000));
  CHECK(TcpLinkOptions::within(std::chrono::milliseconds(1)).patience.count() == 1);
}

// The first eight that are called do not answer, which takes all of the time.
TEST_CASE("The time to connect is that for all members, however many do not answer") {
  std::vector<PeerListener> listeners;
  for (int i = 0; i < 10; ++i) listeners.push_back(listen_here());
  const auto groups = groups_of(listeners, false);
  Store store(kSamples);
  Notes notes;
  const auto set =
      begin_member(store, groups[0], std::move(listeners[0]), notes, kLongEnough, kShort);
  std::vector<std::uint8_t> buffer;
  REQUIRE(set->read(9, buffer));
  CHECK(set->counts().source == 1);
  REQUIRE(notes.all().size() == 1);
  CHECK_THAT(notes.all()[0],
             Contains("worker 9 (") && Contains("the 50 ms to connect to all workers were over"));
}

TEST_CASE("A member that nobody can reach counts as gone") {
  std::vector<PeerListener> listeners;
  for (int i = 0; i < 2; ++i) listeners.push_back(listen_here());
  const auto groups = groups_of(listeners, false);
  listeners[1].close();
  Store store(kSamples);
  Notes notes;
  const auto set = begin_member(store, groups[0], std::move(listeners[0]), notes);
  std::vector<std::uint8_t> buffer;
  REQUIRE(set->read(1, buffer));
  CHECK(set->counts().source == 1);
  REQUIRE(notes.all().size() == 1);
  CHECK_THAT(notes.all()[0], Contains("Connection refused") && !Contains("loopback"));
}

TEST_CASE("A member that has joined over its own host's loopback address is named with the cure") {
  std::vector<PeerListener> listeners;
  for (int i = 0; i < 2; ++i) listeners.push_back(listen_here());
  auto groups = groups_of(listeners, false);
  groups[0].peers[0].host = "192.0.2.1";  // of another host; nobody connects there here
  listeners[1].close();
  Store store(kSamples);
  Notes notes;
  const auto set = begin_member(store, groups[0], std::move(listeners[0]), notes);
  std::vector<std::uint8_t> buffer;
  REQUIRE(set->read(1, buffer));
  REQUIRE(notes.all().size() == 1);
  CHECK_THAT(notes.all()[0], Contains("worker 1 (127.0.0.1 port ") &&
                                 Contains("joined over a loopback address") &&
                                 Contains("data.spread.address"));
}

}  // namespace
}  // namespace phub::data
