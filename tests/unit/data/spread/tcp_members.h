// Members of a spread set in one process, with their links over TCP.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/unit/data/spread/members.h"
#include "worker/data/spread/spread_set.h"
#include "worker/data/spread/tcp_links.h"

namespace phub::data {

inline constexpr std::chrono::milliseconds kShort{50};  // for what never comes

inline std::vector<client::PeerGroup> groups_of(const std::vector<PeerListener>& listeners,
                                                bool encrypts) {
  client::PeerGroup group{.job_id = 7, .epoch = 1, .encrypts = encrypts};
  group.key.fill(0x5A);
  for (const PeerListener& listener : listeners) {
    group.peers.push_back({.worker = static_cast<std::uint32_t>(group.peers.size()),
                           .host = "127.0.0.1",
                           .port = listener.port()});
  }
  std::vector<client::PeerGroup> groups(listeners.size(), group);
  for (std::uint32_t i = 0; i < groups.size(); ++i) groups[i].own = i;
  return groups;
}

inline std::unique_ptr<SpreadSet> begin_member(Store& store, const client::PeerGroup& group,
                                               PeerListener listener, Notes& notes,
                                               std::chrono::milliseconds patience = kLongEnough,
                                               std::chrono::milliseconds set_up = kLongEnough) {
  auto set = SpreadSet::create(std::make_unique<StoredSet>(store),
                               {.memory_bytes = kPlenty, .readers = 4, .note = notes.note()});
  PHUB_CHECK(set.has_value(), "a set");
  const auto make = [&](Holder& holder, std::uint32_t largest) {
    auto links = TcpLinks::create({.group = group,
                                   .holder = holder,
                                   .readers = 4,
                                   .largest_bytes = std::min(largest, 1000U),
                                   .note = notes.note()},
                                  {.set_up = set_up, .patience = patience}, std::move(listener));
    PHUB_CHECK(links.has_value(), "links");
    return Result<std::unique_ptr<PeerLinks>>(std::move(*links));
  };
  const SpreadPlace place{.self = group.own,
                          .members = static_cast<std::uint32_t>(group.peers.size()),
                          .link_bytes = link_bytes(4, group.encrypts)};
  const Status begun = (*set)->begin(place, make);
  PHUB_CHECK(begun.ok(), begun.message());
  return std::move(*set);
}

}  // namespace phub::data
