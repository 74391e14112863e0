// "phub-bench bars": every bar that the product is held to, in one run.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/commands.h"
#include "bench/exchange.h"
#include "bench/keys.h"
#include "bench/report.h"
#include "bench/statistics.h"

namespace phub::bench {
namespace {

constexpr std::uint32_t kWorkers = 4;
constexpr std::uint64_t kSmallElements = 8192;  // one 32 KiB chunk of fp32

struct Bar {
  std::string measure;
  double limit = 0.0;
  bool at_most = true;
  Spread value;

  bool met() const { return at_most ? value.median <= limit : value.median >= limit; }
};

// The systems of the large run, by their roles in the bars.
struct Roles {
  System* shm = nullptr;
  System* shm_nesterov = nullptr;
  System* shm_twice = nullptr;  // with twice the workers
  System* tcp = nullptr;
  System* tcp_twice = nullptr;
  System* gloo = nullptr;
  System* halving_doubling = nullptr;
  System* openmpi_shm = nullptr;
  System* openmpi_tcp = nullptr;
  System* roof = nullptr;
  System* roof_nesterov = nullptr;
};

struct Part {
  System** role;
  SystemKind kind;
  const char* transport;
  std::uint32_t workers;
  RuleKind rule;
};

Status start_parts(std::span<const Part> parts, const Work& base, Places& places, Lineup& lineup) {
  for (const Part& part : parts) {
    Work work = base;
    work.transport = part.transport;
    work.workers = part.workers;
    work.rule = part.rule;
    PHUB_ASSIGN_OR_RETURN(auto system, start_system(part.kind, work, places));
    *part.role = system.get();
    lineup.systems.push_back(std::move(system));
  }
  return {};
}

Result<Lineup> start_large(const Work& base, Places& places, Roles& roles) {
  using enum SystemKind;
  constexpr RuleKind kSum = RuleKind::kSum;
  constexpr RuleKind kNesterov = RuleKind::kNesterov;
  const std::vector<Part> parts = {
      {&roles.shm, kPhub, "shm", kWorkers, kSum},
      {&roles.shm_nesterov, kPhub, "shm", kWorkers, kNesterov},
      {&roles.shm_twice, kPhub, "shm", 2 * kWorkers, kSum},
      {&roles.roof, kRoof, "shm", kWorkers, kSum},
      {&roles.roof_nesterov, kRoof, "shm", kWorkers, kNesterov},
      {&roles.openmpi_shm, kOpenMpi, "shm", kWorkers, kSum},
      {&roles.tcp, kPhub, "tcp", kWorkers, kSum},
      {&roles.gloo, kGlooRing, "tcp", kWorkers, kSum},
      {&roles.halving_doubling, kGlooHalvingDoubling, "tcp", kWorkers, kSum},
      {&roles.openmpi_tcp, kOpenMpi, "tcp", kWorkers, kSum},
      {&roles.tcp_twice, kPhub, "tcp", 2 * kWorkers, kSum}};
  Lineup lineup;
  PHUB_RETURN_IF_ERROR(start_parts(parts, base, places, lineup));
  System* all = roles.gloo;
  System* halves = roles.halving_doubling;
  lineup.comparisons = {
      {roles.shm->work, roles.shm, {roles.shm, all, halves, roles.openmpi_shm, roles.roof}},
      {roles.shm_nesterov->work, roles.shm_nesterov, {roles.shm_nesterov, roles.roof_nesterov}},
      {roles.shm_twice->work, roles.shm_twice, {roles.shm_twice}},
      {roles.tcp->work, roles.tcp, {roles.tcp, all, halves, roles.openmpi_tcp, roles.roof}},
      {roles.tcp_twice->work, roles.tcp_twice, {roles.tcp_twice}}};
  return lineup;
}

// Time of the Nesterov exchange over that of the sum plus what the state's streams cost the roof.
Spread nesterov_ratio(const Roles& roles) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < roles.shm->blocks.size(); ++i) {
    const double streams = median(roles.roof_nesterov->blocks[i]) - median(roles.roof->blocks[i]);
    ratios.push_back(median(roles.shm_nesterov->blocks[i]) /
                     (median(roles.shm->blocks[i]) + streams));
  }
  return spread_of(ratios);
}

Spread memory_ratio(const System& system) {
  const std::uint64_t owned = owned_server_bytes(system.work, *system.memory);
  const double value = static_cast<double>(owned - system.memory->job_staging) /
                       static_cast<double>(ideal_server_bytes(system.work));
  return {value, value, value};
}

std::vector<Bar> judge(const Roles& roles) {
  const auto over = [](const System* a, const System* b) { return ratio(a->blocks, b->blocks); };
  return {{"shm sum / roof", 1.6, true, over(roles.shm, roles.roof)},
          {"Open MPI over shared memory / shm sum", 4.0, false, over(roles.openmpi_shm, roles.shm)},
          {"Gloo ring / shm sum", 3.0, false, over(roles.gloo, roles.shm)},
          {"shm Nesterov / (shm sum + state streams)", 1.15, true, nesterov_ratio(roles)},
          {"Gloo ring / tcp sum", 1.0, false, over(roles.gloo, roles.tcp)},
          {"Open MPI over TCP / tcp sum", 1.3, false, over(roles.openmpi_tcp, roles.tcp)},
          {"shm, 8 workers / 4", 2.2, true, over(roles.shm_twice, roles.shm)},
          {"tcp, 8 workers / 4", 2.3, true, over(roles.tcp_twice, roles.tcp)},
          {"server memory / ideal, shm sum", 1.2, true, memory_ratio(*roles.shm)},
          {"server memory / ideal, shm Nesterov", 1.2, true, memory_ratio(*roles.shm_nesterov)},
          {"server memory / ideal, tcp sum", 1.2, true, memory_ratio(*roles.tcp)}};
}

void print_bars(const std::vector<Bar>& bars, bool json) {
  if (json) {
    for (const Bar& bar : bars) {
      const nlohmann::ordered_json object = {{"bench", "bars"},           {"measure", bar.measure},
                                             {"limit", bar.limit},        {"at_most", bar.at_most},
                                             {"value", bar.value.median}, {"min", bar.value.min},
                                             {"max", bar.value.max},      {"met", bar.met()}};
      fmt::print("{}\n", object.dump());
    }
    return;
  }
  fmt::print("\n");
  Table table({"measure (block by block)", "bar", "median", "[min .. max]", "met"});
  for (const Bar& bar : bars) {
    table.add({bar.measure, fmt::format("{} {:.2f}x", bar.at_most ? "<=" : ">=", bar.limit),
               fmt::format("{:.2f}x", bar.value.median),
               fmt::format("[{:.2f} .. {:.2f}]", bar.value.min, bar.value.max),
               bar.met() ? "yes" : "NO"});
  }
  table.print();
  fmt::print(
      "ideal server memory: parameters + optimizer state; staging and, over shm, the workers'\n"
      "gradients are left out, the daemon itself is in.\n");
}

void print_lineup(const Lineup& lineup, const BlockPlan& plan, bool json) {
  for (const Comparison& comparison : lineup.comparisons) {
    if (json) {
      print_json("exchange", comparison, plan);
    } else {
      print_comparison(comparison, plan);
    }
  }
}

ExchangeOptions small_options(const BarsOptions& options) {
  ExchangeOptions small;
  small.transports = {"shm", "tcp"};
  small.workers = {kWorkers};
  small.work = options.work;
  small.work.elements = kSmallElements;
  small.work.keys = "one";
  small.systems = {SystemKind::kPhub, SystemKind::kGlooRing, SystemKind::kGlooHalvingDoubling,
                   SystemKind::kOpenMpi};
  small.plan = options.small_plan;
  return small;
}

}  // namespace

int run_bars(const BarsOptions& options) {
  const auto run = [&]() -> Result<bool> {
    PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
    bool right = true;
    {
      Roles roles;
      PHUB_ASSIGN_OR_RETURN(Lineup large, start_large(options.work, *places, roles));
      PHUB_RETURN_IF_ERROR(measure(large, options.plan));
      print_lineup(large, options.plan, options.json);
      print_bars(judge(roles), options.json);
      right = report_failures(large);
      for (const auto& system : large.systems) system->group->stop();
    }
    PHUB_ASSIGN_OR_RETURN(Lineup small, start_lineup(small_options(options), *places));
    PHUB_RETURN_IF_ERROR(measure(small, options.small_plan));
    print_lineup(small, options.small_plan, options.json);
    right = report_failures(small) && right;
    for (const auto& system : small.systems) system->group->stop();
    return right;
  };
  return finish(run());
}

}  // namespace phub::bench
