// "phub-bench tenants": what tenants cost and do to each other on one server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

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

class Tenants {
 public:
  Tenants(const TenantsOptions& options, Places& places) : options_(options), places_(places) {}

  const std::vector<TenantRow>& rows() const { return rows_; }

  Status run(const std::string& transport) {
    for (const std::string& scenario : options_.scenarios) {
      if (scenario == "below") PHUB_RETURN_IF_ERROR(below_capacity(transport));
      if (scenario == "saturation") PHUB_RETURN_IF_ERROR(saturation(transport));
      if (scenario == "flood") PHUB_RETURN_IF_ERROR(flood(transport));
    }
    return {};
  }

 private:
  // Eight training jobs that leave the server room: each beside the others against each alone.
  Status below_capacity(const std::string& transport) {
    std::vector<Load> loads;
    for (int i = 0; i < 8; ++i) {
      loads.push_back({.job = fmt::format("job{}", i),
                       .workers = 2,
                       .elements = i % 2 == 0 ? kLenetElements : kResnet20Elements,
                       .keys = i % 2 == 0 ? "8" : "62",
                       .transport = transport,
                       .compute_us = options_.compute_us});
    }
    std::vector<double> worst;
    std::vector<double> mean;
    for (unsigned block = 0; block < options_.blocks; ++block) {
      progress(fmt::format("{}: 8 jobs below capacity, block {}", transport, block + 1));
      PHUB_ASSIGN_OR_RETURN(const auto server, start(loads));
      // Jobs of one size are alike: one of each is enough alone.
      PHUB_ASSIGN_OR_RETURN(const std::vector<Totals> totals,
                            measure(*server, {{0, 1, 2, 3, 4, 5, 6, 7}, {0}, {1}}, options_.slice));
      std::vector<double> kept;
      for (std::size_t i = 0; i < loads.size(); ++i) {
        kept.push_back(rate(totals[0], i) / rate(totals[1 + i % 2], i % 2));
      }
      worst.push_back(100 * std::max(0.0, 1 - std::ranges::min(kept)));
      mean.push_back(100 * (1 - sum_of(kept) / static_cast<double>(kept.size())));
    }
    add("8 jobs below capacity, loss of the worst, %", transport, worst, 5);
    add("8 jobs below capacity, mean loss, %", transport, mean);
    return {};
  }

  Status saturation(const std::string& transport) {
    std::vector<double> exchanges;
    std::vector<double> core_time;
    std::vector<double> sum;
    std::vector<double> busy;
    const std::vector<Load> loads = {saturating("one", "a", transport, 1),
                                     saturating("two", "b", transport, 2),
                                     saturating("four", "c", transport, 4)};
    for (unsigned block = 0; block < options_.blocks; ++block) {
      progress(fmt::format("{}: saturation with weights 1:2:4, block {}", transport, block + 1));
      PHUB_ASSIGN_OR_RETURN(const auto server, start(loads));
      // Shares without interruption.
      PHUB_ASSIGN_OR_RETURN(const std::vector<Totals> shares,
                            measure(*server, {{0, 1, 2}}, options_.seconds));
      exchanges.push_back(farthest_from_weights(shares[0].exchanges));
      core_time.push_back(farthest_from_weights(shares[0].core_seconds));
      busy.push_back(100 * shares[0].workers_busy / shares[0].seconds);
      // Each alone on the same server: where a job's memory lies is worth a fifth of its speed.
      PHUB_ASSIGN_OR_RETURN(const std::vector<Totals> totals,
                            measure(*server, {{0, 1, 2}, {0}, {1}, {2}}, options_.slice));
      double alone = 0;
      for (std::size_t job = 0; job < loads.size(); ++job) {
        alone += rate(totals[1 + job], job) * static_cast<double>(1U << job) / 7.0;
      }
      sum.push_back(100 * (1 - sum_of(totals[0].exchanges) / totals[0].seconds / alone));
    }
    add("weights 1:2:4, farthest from its share of exchanges, %", transport, exchanges, 5);
    add("weights 1:2:4, farthest from its share of core time, %", transport, core_time);
    add("time in which the workers' CPUs worked, %", transport, busy);
    add("their sum below one job's alone, %", transport, sum, 5);
    return {};
  }

  // Two tenants beside a third of the same weight, which has six times the jobs and then garbage.
  Status flood(const std::string& transport) {
    std::vector<Load> loads = {saturating("calm", "a", transport),
                               saturating("quiet", "b", transport)};
    for (int i = 0; i < 6; ++i) {
      loads.push_back(saturating("flood", fmt::format("c{}", i), transport));
    }
    std::vector<double> loss;
    std::vector<double> garbage_loss;
    for (unsigned block = 0; block < options_.blocks; ++block) {
      progress(fmt::format("{}: a tenant floods, block {}", transport, block + 1));
      PHUB_ASSIGN_OR_RETURN(const auto server, start(loads));
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
      loss.push_back(lost(totals[1]));
      garbage_loss.push_back(lost(totals[2]));
    }
    add("a tenant floods with 6 jobs, others' worst loss, %", transport, loss, 10);
    add(fmt::format("garbage on the data port ({} refused), loss, %", drops_), transport,
        garbage_loss, 10);
    return {};
  }

  // A fresh server with these jobs and their tenants.
  Result<std::unique_ptr<TenantServer>> start(const std::vector<Load>& loads) {
    PHUB_ASSIGN_OR_RETURN(auto server, TenantServer::start(places_));
    std::set<std::string> tenants = {Load().tenant};  // which every server has
    for (const Load& load : loads) {
      if (!tenants.insert(load.tenant).second) continue;
      PHUB_RETURN_IF_ERROR(server->create_tenant(load.tenant, load.weight));
    }
    for (const Load& load : loads) PHUB_RETURN_IF_ERROR(server->start(load));
    return server;
  }

  // What the jobs get in each of several conditions: which of them run. The conditions take turns
  // in short slices, because the machine's speed drifts, until each has had --seconds.
  Result<std::vector<Totals>> measure(TenantServer& server,
                                      const std::vector<std::vector<std::size_t>>& conditions,
                                      double slice) {
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

  Load saturating(const std::string& tenant, const std::string& job, const std::string& transport,
                  std::uint32_t weight = 1) const {
    return {.tenant = tenant,
            .job = job,
            .workers = options_.workers,
            .elements = options_.elements,
            .dtype = options_.dtype,
            .transport = transport,
            .weight = weight};
  }

  void progress(const std::string& text) const {
    if (!options_.json) fmt::print(stderr, "{}\n", text);
  }

  // `values` are of the blocks; `bar` is what their median may be.
  void add(const std::string& measure, const std::string& transport,
           const std::vector<double>& values, std::optional<int> bar = {}) {
    const Spread value = spread_of(values);
    rows_.push_back({measure, transport, bar ? fmt::format("<= {}", *bar) : "", value,
                     !bar || value.median <= *bar});
  }

  const TenantsOptions& options_;
  Places& places_;
  std::vector<TenantRow> rows_;
  std::uint64_t drops_ = 0;
};

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
