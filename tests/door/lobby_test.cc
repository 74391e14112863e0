// Who gives way among those who wait at a door.
#include "server/door/lobby.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace phub::server {
namespace {

struct Guest final : Lobby::Guest {
  void turn_out() override { is_out = true; }
  bool is_out = false;
};

}  // namespace

TEST_CASE("a lobby's newcomer takes the oldest place of the address that has most") {
  Lobby lobby(8);  // an address has six of them at most
  std::array<Guest, 5> crowd;
  std::array<Guest, 3> rack;
  for (Guest& guest : crowd) lobby.enter("a", guest);
  for (Guest& guest : rack) lobby.enter("b", guest);
  CHECK(lobby.size() == 8);
  std::array<Guest, 2> late;
  lobby.enter("c", late[0]);
  CHECK(crowd[0].is_out);
  lobby.leave(crowd[1]);
  lobby.enter("c", late[1]);
  CHECK(std::none_of(crowd.begin() + 1, crowd.end(), [](const Guest& g) { return g.is_out; }));
  CHECK(std::none_of(rack.begin(), rack.end(), [](const Guest& g) { return g.is_out; }));
  CHECK(lobby.size() == 8);
}

TEST_CASE("a lobby whose addresses have as many turns out who came first, whatever it is called") {
  Lobby lobby(8);
  std::array<Guest, 10> guests;
  for (std::size_t i = 0; i < 7; ++i) lobby.enter("m" + std::to_string(i), guests[i]);
  lobby.enter("a", guests[7]);
  lobby.enter("z", guests[8]);
  CHECK(guests[0].is_out);
  lobby.enter("b", guests[9]);
  CHECK(guests[1].is_out);
  CHECK(std::none_of(guests.begin() + 2, guests.end(), [](const Guest& g) { return g.is_out; }));
}

TEST_CASE("a lobby's address has three quarters at most, and turns out its own beyond them") {
  Lobby lobby(8);
  std::array<Guest, 7> crowd;
  for (Guest& guest : crowd) lobby.enter("a", guest);
  CHECK(crowd[0].is_out);
  CHECK_FALSE(crowd[1].is_out);
  CHECK(lobby.size() == 6);
}

}  // namespace phub::server
