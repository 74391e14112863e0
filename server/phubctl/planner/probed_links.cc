#include "server/phubctl/planner/probed_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace phub::phubctl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Links {
 public:
  explicit Links(const control::Probe& probe) : probe_(probe) {
    for (const control::ProbedLink& link : probe.links()) {
      links_.emplace(std::pair(link.from(), link.to()), &link);
    }
  }

  // Null: it was not measured.
  const control::ProbedLink* between(std::uint32_t from, std::uint32_t to) const {
    const auto found = links_.find({from, to});
    return found == links_.end() ? nullptr : found->second;
  }
  std::string name_of(std::uint32_t server) const {
    const auto& one = probe_.servers(static_cast<int>(server));
    return fmt::format("{} of rack {}", one.address(), one.rack());
  }
  // Seconds a byte of the fastest link that the server has.
  double nic_of(std::uint32_t server) const {
    double least = kInfinity;
    for (const auto& [ends, link] : links_) {
      if (ends.first != server && ends.second != server) continue;
      least = std::min<double>(least, link->seconds_per_byte());
    }
    return least;
  }
  // The shortest latency between two of these, or of all.
  double least_alpha(const std::vector<std::uint32_t>& servers) const {
    double least = kInfinity;
    for (const auto& [ends, link] : links_) {
      const auto has = [&](std::uint32_t server) {
        return std::find(servers.begin(), servers.end(), server) != servers.end();
      };
      if (!servers.empty() && !(has(ends.first) && has(ends.second))) continue;
      least = std::min<double>(least, link->alpha_seconds());
    }
    return least;
  }

 private:
  const control::Probe& probe_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, const control::ProbedLink*> links_;
};

using Servers = std::vector<std::vector<std::uint32_t>>;  // of the probe, by rack of the job

Result<Servers> servers_of(const control::Probe& probe, const std::vector<RackSpec>& racks) {
  Servers servers;
  for (const RackSpec& rack : racks) {
    std::vector<std::uint32_t>& own = servers.emplace_back();
    for (int i = 0; i < probe.servers_size(); ++i) {
      if (probe.servers(i).rack() == rack.name) own.push_back(static_cast<std::uint32_t>(i));
    }
    if (own.empty()) {
      return Status(Code::kFailedPrecondition,
                    fmt::format("the last probe does not know rack {}; measure with `phubctl "
                                "probe`",
                                rack.name));
    }
    if (own.size() != servers.front().size()) {
      return Status(Code::kFailedPrecondition,
                    fmt::format("rack {} has {} servers and rack {} has {}: racks of a job have as "
                                "many",
                                racks.front().name, servers.front().size(), rack.name, own.size()));
    }
  }
  return servers;
}

// Of the servers in the same place; `message` becomes the longest time of one.
Result<cost::RackLink> link_of(const Links& links, const std::vector<std::uint32_t>& from,
                               const std::vector<std::uint32_t>& to, double& message) {
  cost::RackLink all{.alpha = 0.0, .byte = kInfinity};
  for (std::size_t k = 0; k < from.size(); ++k) {
    const control::ProbedLink* const link = links.between(from[k], to[k]);
    if (link == nullptr) {
      return Status(Code::kFailedPrecondition,
                    fmt::format("the last probe could not measure from {} to {}; `phubctl probe` "
                                "says why",
                                links.name_of(from[k]), links.name_of(to[k])));
    }
    all.alpha = std::max<double>(all.alpha, link->alpha_seconds());
    all.byte = std::min<double>(all.byte, link->seconds_per_byte());
    message = std::max<double>(message, link->message_seconds());
  }
  return all;
}

void set_nics(const Links& links, const Servers& servers, const NicRates& rates,
              ProbedNetwork& made) {
  for (const std::vector<std::uint32_t>& own : servers) {
    double slowest = 0.0;
    for (const std::uint32_t server : own) slowest = std::max(slowest, links.nic_of(server));
    const double server = rates.server > 0 ? 1 / rates.server : slowest;
    made.network.server_byte.push_back(server);
    made.network.worker_byte.push_back(rates.worker > 0 ? 1 / rates.worker : server);
  }
  if (rates.server <= 0) {
    made.assumptions.push_back(
        "a server's NIC is as fast as the fastest link measured at it (--server-gbit)");
  }
  if (rates.worker <= 0) {
    made.assumptions.push_back("a worker's NIC is as fast as its server's (--worker-gbit)");
  }
}

void set_inside_alpha(const Links& links, const Servers& servers, ProbedNetwork& made) {
  double longest = 0.0;
  for (const std::vector<std::uint32_t>& own : servers) {
    if (own.size() > 1) longest = std::max(longest, links.least_alpha(own));
  }
  if (longest > 0 && longest < kInfinity) {
    made.network.inside_alpha = longest;
    return;
  }
  made.network.inside_alpha = links.least_alpha({});
  made.assumptions.push_back(
      "latency inside a rack is the shortest one that was measured, as no rack has two servers to "
      "measure between");
}

}  // namespace

Result<ProbedNetwork> network_of(const control::Probe& probe, const std::vector<RackSpec>& racks,
                                 const NicRates& rates) {
  if (probe.servers().empty()) {
    return Status(Code::kFailedPrecondition,
                  "the server knows no measurement of the links between racks; measure with "
                  "`phubctl probe`");
  }
  PHUB_ASSIGN_OR_RETURN(const Servers servers, servers_of(probe, racks));
  const Links links(probe);
  ProbedNetwork made;
  cost::RackNetwork& network = made.network;
  network.servers = static_cast<std::uint32_t>(servers.front().size());
  for (const RackSpec& rack : racks) {
    network.names.push_back(rack.name);
    network.workers.push_back(rack.workers);
  }
  network.links.assign(racks.size(), std::vector<cost::RackLink>(racks.size()));
  for (std::size_t from = 0; from < racks.size(); ++from) {
    for (std::size_t to = 0; to < racks.size(); ++to) {
      if (from == to) continue;
      PHUB_ASSIGN_OR_RETURN(network.links[from][to],
                            link_of(links, servers[from], servers[to], network.message));
    }
  }
  made.assumptions.push_back(
      "a server takes chunks no faster than small writes on one connection follow each other");
  set_nics(links, servers, rates, made);
  set_inside_alpha(links, servers, made);
  if (network.servers > 1) {
    made.assumptions.push_back("a rack's servers share its uplink, as fast as its fastest link");
  }
  return made;
}

}  // namespace phub::phubctl
