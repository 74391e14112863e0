#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/base/statistics.h"
#include "bench/rack/rack.h"
#include "common/text/table.h"

namespace phub::bench {
namespace {

constexpr double kBytesPerMegabyte = 1e6;

// The link that was the busiest while a system worked, and the bytes of its busier way in a round.
struct Busiest {
  std::string name;
  double busy = 0;
  double bytes = 0;
};

Busiest busiest(const RackResult& result, const RackLoad& load) {
  Busiest found;
  for (std::size_t i = 0; i < result.fabric.links.size(); ++i) {
    const RackLink& link = result.fabric.links[i];
    const std::uint64_t bytes = std::max(load.links()[i].up, load.links()[i].down);
    const double busy = load.link_busy(link, bytes);
    if (busy <= found.busy) continue;
    found = {link.name, busy, static_cast<double>(bytes) / static_cast<double>(result.rounds())};
  }
  return found;
}

// Block by block, of the means.
Spread against_phub(const Blocks& blocks, const RackResult& result) {
  const auto means = [](const Blocks& all) {
    Blocks of_blocks;
    for (const double mean : round_means(all)) of_blocks.push_back({mean});
    return of_blocks;
  };
  return ratio(means(blocks), means(result.blocks));
}

void add_row(Table& table, const RackResult& result, const std::string& name, const Blocks& blocks,
             const RackLoad& load) {
  const Spread seconds = spread_of(round_means(blocks));
  const Spread against = against_phub(blocks, result);
  const Busiest link = busiest(result, load);
  table.add({name, human_time(seconds.median), human_time(seconds.min), human_time(seconds.max),
             fmt::format("{:.2f}x [{:.2f} .. {:.2f}]", against.median, against.min, against.max),
             link.name, human_share(link.busy),
             fmt::format("{:.2f}", link.bytes / kBytesPerMegabyte)});
}

}  // namespace

std::string peers_table(const RackResult& result) {
  if (result.peers.empty()) return "";
  Table table("system|>a round|>least|>most|>against phub|busiest link|>busy|>MB a round");
  add_row(table, result, "phub", result.blocks, result.load);
  for (const PeerResult& peer : result.peers) {
    add_row(table, result, peer.name, peer.blocks, peer.load);
  }
  return "\nBlock by block in turn:\n" + table.to_string();
}

nlohmann::ordered_json peers_json(const RackResult& result) {
  nlohmann::ordered_json peers = nlohmann::json::array();
  for (const PeerResult& peer : result.peers) {
    const Spread against = against_phub(peer.blocks, result);
    nlohmann::ordered_json links = nlohmann::json::array();
    for (std::size_t i = 0; i < result.fabric.links.size(); ++i) {
      const auto rounds = static_cast<double>(result.rounds());
      const LinkBytes& bytes = peer.load.links()[i];
      links.push_back({{"link", result.fabric.links[i].name},
                       {"counted_up_bytes", static_cast<double>(bytes.up) / rounds},
                       {"counted_down_bytes", static_cast<double>(bytes.down) / rounds}});
    }
    peers.push_back({{"system", peer.name},
                     {"seconds_p50", median(round_means(peer.blocks))},
                     {"seconds_of_blocks", round_means(peer.blocks)},
                     {"against_phub_p50", against.median},
                     {"against_phub_least", against.min},
                     {"against_phub_most", against.max},
                     {"machine_busy", peer.load.machine_busy()},
                     {"links", links}});
  }
  return peers;
}

}  // namespace phub::bench
