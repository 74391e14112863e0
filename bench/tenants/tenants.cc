// "phub-bench tenants": what tenants cost and do to each other on one server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/tenants/load.h"

namespace phub::bench {
namespace {

constexpr std::uint64_t kLenetElements = 431'080;
constexpr std::uint64_t kResnet20Elements = 272'474;

struct TenantRow {
  std::string measure;
  std::string transport;
  std::string bar;
  Spread value;
  bool met = false;
};

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// What one job got a second.
double rate(const Totals& totals, std::size_t job) {
  return totals.exchanges[job] / totals.seconds;
}

// The worst of several figures, over the blocks.
struct Collected {
  std::vector<double> values;
  void add(double value) { values.push_back(value); }
  Spread spread() const { return spread_of(values); }
};

class Tenants {
 public:
  Tenants(const TenantsOptions& options, Places& places) : options_(options), places_(places) {}

  Status run(const std::string& transport);
  const std::vector<TenantRow>& rows() const { return rows_; }

 private:
  Status below_capacity(const std::string& transport);
  Status saturation(const std::string& transport);
  Status flood(const std::string& transport);

  // A fresh server with these tenants and jobs.
  Result<std::unique_ptr<TenantServer>> start(
      const std::vector<std::pair<std::string, std::uint32_t>>& who,
      const std::vector<Load>& loads);
  // What the jobs get in each of several conditions: which of them run. The conditions take turns
  // in short slices, because the machine's speed drifts, until each has had --seconds.
  Result<std::vector<Totals>> measure(TenantServer& server,
                                      const std::vector<std::vector<std::size_t>>& conditions,
                                      double slice);
  Load saturating(const std::string& tenant, const std::string& job, const std::string& transport,
                  std::uint32_t weight = 1) const;
  void progress(const std::string& text) const;
  void add(std::string measure, const std::string& transport, std::string bar, const Collected& of,
           bool met) {
    rows_.push_back({std::move(measure), transport, std::move(bar), of.spread(), met});
  }

  const TenantsOptions& options_;
  Places& places_;
  std::vector<TenantRow> rows_;
  std::uint64_t drops_ = 0;
};

void Tenants::progress(const std::string& text) const {
  if (!options_.json) fmt::print(stderr, "{}\n", text);
}

Result<std::unique_ptr<TenantServer>> Tenants::start(
    const std::vector<std::pair<std::string, std::uint32_t>>& who, const std::vector<Load>& loads) {
  PHUB_ASSIGN_OR_RETURN(auto server, TenantServer::start(places_));
  for (const auto& [name, weight] : who) {
    PHUB_RETURN_IF_ERROR(server->create_tenant(name, weight));
  }
  for (const Load& load : loads) PHUB_RETURN_IF_ERROR(server->start(load));
  return server;
}

Result<std::vector<Totals>> Tenants::measure(
    TenantServer& server, const std::vector<std::vector<std::size_t>>& conditions, double slice) {
  std::vector<Totals> totals(conditions.size());
  while (totals.back().seconds < options_.seconds) {
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      PHUB_RETURN_IF_ERROR(server.run_only(conditions[i]));
      PHUB_RETURN_IF_ERROR(server.measure(std::min(slice, options_.seconds), totals[i]));
    }
  }
  PHUB_ASSIGN_OR_RETURN(drops_, server.drops());
  for (const Totals& of : totals) {
    std::vector<double> rates;
    for (const double exchanges : of.exchanges) rates.push_back(exchanges / of.seconds);
    progress(
        fmt::format("  {:.1f} exchanges/s; of the time the server worked {:.0f} %, "
                    "the workers' CPUs {:.0f} %",
                    fmt::join(rates, ", "), 100 * sum_of(of.core_seconds) / of.seconds,
                    100 * of.workers_busy / of.seconds));
  }
  return totals;
}

Load Tenants::saturating(const std::string& tenant, const std::string& job,
                         const std::string& transport, std::uint32_t weight) const {
  return {.tenant = tenant,
          .job = job,
          .workers = options_.workers,
          .elements = options_.elements,
          .dtype = options_.dtype,
          .transport = transport,
          .weight = weight};
}

// Eight training jobs that leave the server room: each beside the others against each alone.
Status Tenants::below_capacity(const std::string& transport) {
  std::vector<Load> loads;
  for (int i = 0; i < 8; ++i) {
    loads.push_back({.job = fmt::format("job{}", i),
                     .workers = 2,
                     .elements = i % 2 == 0 ? kLenetElements : kResnet20Elements,
                     .keys = i % 2 == 0 ? "8" : "62",
                     .transport = transport,
                     .compute_us = options_.compute_us});
  }
  Collected worst;
  Collected mean;
  for (unsigned block = 0; block < options_.blocks; ++block) {
    progress(fmt::format("{}: 8 jobs below capacity, block {}", transport, block + 1));
    PHUB_ASSIGN_OR_RETURN(const auto server, start({}, loads));
    // Jobs of one size are alike: one of each is enough alone.
    PHUB_ASSIGN_OR_RETURN(const std::vector<Totals> totals,
                          measure(*server, {{0, 1, 2, 3, 4, 5, 6, 7}, {0}, {1}}, options_.slice));
    double lowest = 1.0;
    double sum = 0.0;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const double kept = rate(totals[0], i) / rate(totals[1 + i % 2], i % 2);
      lowest = std::min(lowest, kept);
      sum += kept;
    }
    worst.add(100 * (1 - lowest));
    mean.add(100 * (1 - sum / static_cast<double>(loads.size())));
  }
  add("8 jobs below capacity, loss of the worst, %", transport, "<= 5", worst,
      worst.spread().median <= 5);
  add("8 jobs below capacity, mean loss, %", transport, "", mean, true);
  return {};
}

// How far the tenant that is farthest from its share of 1:2:4 is from it, in per cent.
double farthest_from_weights(const std::vector<double>& got) {
  const double total = sum_of(got);
  double most = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double share = static_cast<double>(1U << i) / 7.0;
    most = std::max(most, 100 * std::abs(got[i] / total / share - 1));
  }
  return most;
}

Status Tenants::saturation(const std::string& transport) {
  Collected exchanges;
  Collected core_time;
  Collected sum;
  Collected busy;
  const std::vector<Load> loads = {saturating("one", "a", transport, 1),
                                   saturating("two", "b", transport, 2),
                                   saturating("four", "c", transport, 4)};
  for (unsigned block = 0; block < options_.blocks; ++block) {
    progress(fmt::format("{}: saturation with weights 1:2:4, block {}", transport, block + 1));
    PHUB_ASSIGN_OR_RETURN(const auto server, start({{"one", 1}, {"two", 2}, {"four", 4}}, loads));
    // Shares without interruption.
    PHUB_ASSIGN_OR_RETURN(const std::vector<Totals> shares,
                          measure(*server, {{0, 1, 2}}, options_.seconds));
    exchanges.add(farthest_from_weights(shares[0].exchanges));
    core_time.add(farthest_from_weights(shares[0].core_seconds));
    busy.add(100 * shares[0].workers_busy / shares[0].seconds);
    // Each alone on the same server: where a job's memory lies is worth a fifth of its speed.
    PHUB_ASSIGN_OR_RETURN(const std::vector<Totals> totals,
                          measure(*server, {{0, 1, 2}, {0}, {1}, {2}}, options_.slice));
    double alone = 0;
    for (std::size_t job = 0; job < loads.size(); ++job) {
      alone += rate(totals[1 + job], job) * static_cast<double>(1U << job) / 7.0;
    }
    sum.add(100 * (1 - sum_of(totals[0].exchanges) / totals[0].seconds / alone));
  }
  add("weights 1:2:4, farthest from its share of exchanges, %", transport, "<= 5", exchanges,
      exchanges.spread().median <= 5);
  add("weights 1:2:4, farthest from its share of core time, %", transport, "", core_time, true);
  add("time in which the workers' CPUs worked, %", transport, "", busy, true);
  add("their sum below one job's alone, %", transport, "<= 5", sum, sum.spread().median <= 5);
  return {};
}

// Two tenants beside a third of the same weight, which has six times the jobs and then garbage.
Status Tenants::flood(const std::string& transport) {
  const std::vector<std::pair<std::string, std::uint32_t>> who = {
      {"calm", 1}, {"quiet", 1}, {"flood", 1}};
  std::vector<Load> loads = {saturating("calm", "a", transport),
                             saturating("quiet", "b", transport),
                             saturating("flood", "c0", transport)};
  for (int i = 1; i < 6; ++i) {
    loads.push_back(saturating("flood", fmt::format("c{}", i), transport));
  }
  Collected loss;
  Collected garbage_loss;
  for (unsigned block = 0; block < options_.blocks; ++block) {
    progress(fmt::format("{}: a tenant floods, block {}", transport, block + 1));
    PHUB_ASSIGN_OR_RETURN(const auto server, start(who, loads));
    PHUB_RETURN_IF_ERROR(server->start_garbage());
    const std::size_t garbage = loads.size();
    PHUB_ASSIGN_OR_RETURN(
        const std::vector<Totals> totals,
        measure(*server, {{0, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, garbage}},
                options_.slice));
    const auto lost = [&](const Totals& now) {
      const auto kept = [&](std::size_t job) { return rate(now, job) / rate(totals[0], job); };
      return 100 * (1 - std::min(kept(0), kept(1)));
    };
    loss.add(lost(totals[1]));
    garbage_loss.add(lost(totals[2]));
  }
  add("a tenant floods with 6 jobs, others' worst loss, %", transport, "<= 10", loss,
      loss.spread().median <= 10);
  add(fmt::format("garbage on the data port ({} refused), loss, %", drops_), transport, "<= 10",
      garbage_loss, garbage_loss.spread().median <= 10);
  return {};
}

Status Tenants::run(const std::string& transport) {
  for (const std::string& scenario : options_.scenarios) {
    if (scenario == "below") PHUB_RETURN_IF_ERROR(below_capacity(transport));
    if (scenario == "saturation") PHUB_RETURN_IF_ERROR(saturation(transport));
    if (scenario == "flood") PHUB_RETURN_IF_ERROR(flood(transport));
  }
  return {};
}

void print(const std::vector<TenantRow>& rows, bool json) {
  if (!json) {
    fmt::print("{:<58} {:>9} {:>6} {:>8} {:>18}\n", "MEASURE", "TRANSPORT", "BAR", "MEDIAN",
               "[MIN .. MAX]");
  }
  for (const TenantRow& row : rows) {
    if (json) {
      const nlohmann::ordered_json line = {{"bench", "tenants"},         {"measure", row.measure},
                                           {"transport", row.transport}, {"bar", row.bar},
                                           {"median", row.value.median}, {"min", row.value.min},
                                           {"max", row.value.max},       {"met", row.met}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:<58} {:>9} {:>6} {:>8.1f} {:>18}{}\n", row.measure, row.transport, row.bar,
                 row.value.median, fmt::format("[{:.1f} .. {:.1f}]", row.value.min, row.value.max),
                 row.met ? "" : "  NOT MET");
    }
  }
}

}  // namespace

Status run_tenants(const TenantsOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  Tenants tenants(options, *places);
  Status status;
  for (const std::string& transport : options.transports) {
    if (status.ok()) status = tenants.run(transport);
  }
  print(tenants.rows(), options.json);
  return status;
}

}  // namespace phub::bench
