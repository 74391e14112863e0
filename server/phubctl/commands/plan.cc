#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

std::string share_of(std::uint64_t bytes, std::uint64_t all) {
  return human_share(all == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(all));
}

std::string cores_table(const control::PlanReply& plan, std::uint64_t all_bytes) {
  const bool has_ports = !plan.port_loads().empty();
  Table table(has_ports ? ">SERVER|>CORE|>CHUNKS|>BYTES|>SHARE|RDMA PORT"
                        : ">SERVER|>CORE|>CHUNKS|>BYTES|>SHARE");
  for (const control::CoreLoad& load : plan.loads()) {
    std::vector<std::string> cells = {std::to_string(load.server()), std::to_string(load.core()),
                                      human_count(load.chunks()), human_bytes(load.bytes()),
                                      share_of(load.bytes(), all_bytes)};
    if (has_ports) {
      cells.push_back(load.device().empty() ? "-" : human_port(load.device(), load.port()));
    }
    table.add(std::move(cells));
  }
  return table.to_string();
}

std::string ports_table(const control::PlanReply& plan, std::uint64_t all_bytes) {
  Table table("RDMA PORT|>SERVER|CORES|>CHUNKS|>BYTES|>SHARE");
  for (const control::PortLoad& load : plan.port_loads()) {
    table.add({human_port(load.device(), load.port()), std::to_string(load.server()),
               fmt::format("{}", fmt::join(load.cores(), ",")), human_count(load.chunks()),
               human_bytes(load.bytes()), share_of(load.bytes(), all_bytes)});
  }
  return table.to_string();
}

std::string imbalance_text(const control::PlanReply& plan, std::uint64_t all_bytes) {
  std::uint64_t most = 0;
  for (const control::CoreLoad& load : plan.loads()) most = std::max(most, load.bytes());
  const double mean = static_cast<double>(all_bytes) / std::max(1, plan.loads_size());
  return fmt::format(
      "rule lars keeps all of a key on one core: the busiest core has {:.2f}x of the mean\n",
      mean == 0.0 ? 1.0 : static_cast<double>(most) / mean);
}

}  // namespace

std::string loads_text(const control::PlanReply& plan) {
  std::uint64_t all_bytes = 0;
  for (const control::CoreLoad& load : plan.loads()) all_bytes += load.bytes();
  std::string cores = cores_table(plan, all_bytes);
  if (plan.whole_keys()) cores += "\n" + imbalance_text(plan, all_bytes);
  return plan.port_loads().empty() ? cores : cores + "\n" + ports_table(plan, all_bytes);
}

}  // namespace phub::phubctl
