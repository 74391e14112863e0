#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/base/statistics.h"
#include "bench/rack/rack.h"
#include "bench/rack/round_model.h"
#include "bench/rack/scenario.h"
#include "common/text/table.h"

namespace phub::bench {
namespace {

constexpr double kMega = 1e6;
constexpr double kMicrosecond = 1e-6;

// Counted at the interfaces, a round.
double a_round(std::uint64_t bytes, const RackResult& result) {
  return static_cast<double>(bytes) / std::max(1.0, static_cast<double>(result.rounds()));
}

std::string mega(double bytes) { return fmt::format("{:.2f}", bytes / kMega); }

std::string heading(const RackResult& result) {
  const Work work = work_of(result.scenario);
  std::string title = result.scenario.title();
  if (!title.empty()) title += "\n";
  title += fmt::format("{} rack(s), {} workers, {} server(s), ", result.fabric.racks, work.workers,
                       work.servers);
  if (is_colocated(result.scenario)) title += "colocated, ";
  if (is_joined(result.scenario)) title += fmt::format("shape {}, ", result.scenario.shape());
  if (const std::uint32_t latency = result.scenario.links().latency_us(); latency > 0) {
    title += fmt::format("{} more for each message, ", human_time(latency * kMicrosecond));
  }
  if (result.scenario.has_training()) return title + "training\n";
  return title + fmt::format("{} {} elements, {}\n", human_count(work.elements),
                             name_of(work.dtype), name_of(work.rule));
}

// Of the messages that follow each other, seconds; 0: there is none that was added.
double latency_of(const RackScenario& scenario) {
  return scenario.links().latency_us() * kMicrosecond * messages_in_a_row(scenario);
}

std::string time_table(const RackResult& result) {
  Table table("a round|>median|>blocks' least|>most");
  const Spread spread = spread_of(round_means(result.blocks));
  table.add(
      {"measured", human_time(spread.median), human_time(spread.min), human_time(spread.max)});
  const RackLink& bound = bounding_link(result.fabric);
  const double of_link = least_seconds(bound);
  const double of_messages = latency_of(result.scenario);
  const double least = std::max(of_link, of_messages);
  table.add({fmt::format("least that {} at {:g} Mbit/s allows", bound.name, bound.mbit),
             human_time(of_link), "", ""});
  if (of_messages > 0) {
    table.add(
        {fmt::format("least that {} messages in a row allow", messages_in_a_row(result.scenario)),
         human_time(of_messages), "", ""});
  }
  table.add({"least of measured", human_share(least / spread.median),
             human_share(least / spread.max), human_share(least / spread.min)});
  // A replay's prediction, compute and all, follows.
  if (result.scenario.has_replay()) return table.to_string();
  const double modelled = modelled_seconds(result.scenario, result.fabric);
  table.add({"predicted from all links' queues", human_time(modelled), "", ""});
  return table.to_string() + fmt::format("The prediction is off by {:+.1f} %.\n",
                                         100.0 * (modelled / spread.median - 1.0));
}

// A training's payload is the workers' to know; what links carry is counted in namespaces only.
std::string link_table(const RackResult& result) {
  const bool has_payload = !result.scenario.has_training();
  const bool has_counts = !result.losses.empty();
  std::string titles = "link|>Mbit/s";
  if (has_payload) titles += "|>payload MB up|>down";
  if (has_counts) titles += "|>counted MB up|>down|>busy up|>down";
  Table table(titles);
  for (std::size_t i = 0; i < result.fabric.links.size(); ++i) {
    const RackLink& link = result.fabric.links[i];
    const LinkBytes& bytes = result.load.links()[i];
    std::vector<std::string> cells = {link.name, fmt::format("{:g}", link.mbit)};
    if (has_payload) cells.insert(cells.end(), {mega(link.up_bytes), mega(link.down_bytes)});
    if (has_counts) {
      cells.insert(cells.end(), {mega(a_round(bytes.up, result)), mega(a_round(bytes.down, result)),
                                 human_share(result.load.link_busy(link, bytes.up)),
                                 human_share(result.load.link_busy(link, bytes.down))});
    }
    table.add(std::move(cells));
  }
  return table.to_string();
}

std::string loss_lines(const RackResult& result) {
  Table table("link|>dropped up|>down|>sent again");
  for (std::size_t i = 0; i < result.losses.size(); ++i) {
    const LinkLosses& lost = result.losses[i];
    if (lost.dropped_up + lost.dropped_down + lost.resent == 0) continue;
    table.add({result.fabric.links[i].name, human_count(lost.dropped_up),
               human_count(lost.dropped_down),
               i < result.fabric.hosts.size() ? human_count(lost.resent) : ""});
  }
  if (table.empty()) return "No queue dropped a packet, and no host sent a segment again.\n";
  return "Packets that full queues dropped, and segments that hosts sent again, in all blocks:\n" +
         table.to_string();
}

bool links_bind(const RackResult& result) {
  const std::vector<double> cpus = result.load.cpus_busy();
  return std::all_of(cpus.begin(), cpus.end(), [](double busy) { return busy < kCpuBusyMost; });
}

std::string cpu_lines(const RackResult& result) {
  std::vector<std::string> cpus;
  for (const double busy : result.load.cpus_busy()) cpus.push_back(human_share(busy));
  const std::string busy = fmt::format(
      "CPUs busy: {}; the machine {}, of which servers and workers {}.\n", fmt::join(cpus, ", "),
      human_share(result.load.machine_busy()), human_share(result.load.own_busy()));
  if (links_bind(result)) {
    return busy + fmt::format("No CPU is busy for {} of the time: links are the limit.\n",
                              human_share(kCpuBusyMost));
  }
  return busy + fmt::format(
                    "A CPU is busy for {} of the time or more, so these figures may be the CPUs': "
                    "lower links.worker_mbit, or stop what else runs.\n",
                    human_share(kCpuBusyMost));
}

nlohmann::ordered_json links_json(const RackResult& result) {
  nlohmann::ordered_json links = nlohmann::json::array();
  for (std::size_t i = 0; i < result.fabric.links.size(); ++i) {
    const RackLink& link = result.fabric.links[i];
    const LinkBytes& bytes = result.load.links()[i];
    nlohmann::ordered_json object = {{"link", link.name}, {"mbit", link.mbit}};
    if (!result.scenario.has_training()) {
      object["payload_up_bytes"] = link.up_bytes;
      object["payload_down_bytes"] = link.down_bytes;
    }
    if (result.losses.empty()) {
      links.push_back(std::move(object));
      continue;
    }
    object["counted_up_bytes"] = a_round(bytes.up, result);
    object["counted_down_bytes"] = a_round(bytes.down, result);
    object["busy_up"] = result.load.link_busy(link, bytes.up);
    object["busy_down"] = result.load.link_busy(link, bytes.down);
    object["dropped_up"] = result.losses[i].dropped_up;
    object["dropped_down"] = result.losses[i].dropped_down;
    if (i < result.fabric.hosts.size()) object["resent"] = result.losses[i].resent;
    links.push_back(std::move(object));
  }
  return links;
}

// What was counted at interfaces and CPUs.
std::string counted_text(const RackResult& result) {
  if (result.losses.empty()) {
    return "Interfaces and CPUs of machines elsewhere are not counted here.\n";
  }
  return loss_lines(result) + "\n" + cpu_lines(result);
}

// What was exchanged, how long a round took, and what would have been the least.
nlohmann::ordered_json exchange_json(const RackResult& result) {
  const Work work = work_of(result.scenario);
  const std::vector<double> seconds = all_values(result.blocks);
  const double p50 = median(round_means(result.blocks));
  const RackLink& bound = bounding_link(result.fabric);
  const double least = std::max(least_seconds(bound), latency_of(result.scenario));
  nlohmann::ordered_json object = {{"elements", work.elements},
                                   {"dtype", name_of(work.dtype)},
                                   {"rule", name_of(work.rule)},
                                   {"iterations", seconds.size()},
                                   {"seconds_p50", p50},
                                   {"seconds_p99", percentile(seconds, kTail)},
                                   {"seconds_of_blocks", round_means(result.blocks)},
                                   {"least_seconds", least_seconds(bound)},
                                   {"bounding_link", bound.name},
                                   {"least_latency_seconds", latency_of(result.scenario)},
                                   {"least_of_measured", least / p50},
                                   {"verified", result.failure.empty()},
                                   {"checksum", result.checksum}};
  if (result.scenario.has_replay()) return object;  // its own prediction is on a line of its own
  const double modelled = modelled_seconds(result.scenario, result.fabric);
  object["predicted_seconds"] = modelled;
  object["prediction_error"] = modelled / p50 - 1.0;
  return object;
}

}  // namespace

std::vector<double> round_means(const std::vector<std::vector<double>>& blocks) {
  std::vector<double> means;
  for (const auto& block : blocks) {
    means.push_back(std::accumulate(block.begin(), block.end(), 0.0) /
                    static_cast<double>(block.size()));
  }
  return means;
}

std::string report_text(const RackResult& result) {
  if (!result.faulted.empty()) {
    return heading(result) + "\n" + fault_report_text(result.scenario, result.faulted);
  }
  const bool trained = result.scenario.has_training();
  return fmt::format(
      "{}\n{}\nA {}'s bytes on each link{}:\n{}\n{}", heading(result),
      trained ? training_table(result.epochs) : time_table(result) + peers_table(result),
      trained ? "step" : "round",
      result.losses.empty() ? "" : "; counted at the interface, headers included",
      link_table(result), counted_text(result));
}

std::string report_json(const RackResult& result) {
  const Work work = work_of(result.scenario);
  nlohmann::ordered_json object = {{"bench", "rack"},
                                   {"system", "phub"},
                                   {"title", result.scenario.title()},
                                   {"shape", result.scenario.shape()},
                                   {"transport", work.transport},
                                   {"racks", result.fabric.racks},
                                   {"workers", work.workers},
                                   {"servers", work.servers},
                                   {"colocated", is_colocated(result.scenario)},
                                   {"latency_us", result.scenario.links().latency_us()},
                                   {"server_cores", work.server_cores}};
  if (!result.faulted.empty()) {
    object.update(fault_report_json(result.scenario, result.faulted));
    return object.dump();
  }
  object.update(result.scenario.has_training() ? training_json(result.epochs)
                                               : exchange_json(result));
  object["links"] = links_json(result);
  if (!result.peers.empty()) object["peers"] = peers_json(result);
  if (result.losses.empty()) return object.dump();
  object.update({{"cpus_busy", result.load.cpus_busy()},
                 {"machine_busy", result.load.machine_busy()},
                 {"own_busy", result.load.own_busy()},
                 {"links_are_the_limit", links_bind(result)}});
  return object.dump();
}

}  // namespace phub::bench
