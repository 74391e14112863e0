// "phub-bench tenants": what tenants cost and do to each other on one server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "bench/commands.h"
#include "bench/statistics.h"
#include "bench/tenants/load.h"

namespace phub::bench {
namespace {

constexpr std::uint64_t kLenetElements = 431'080;
constexpr std::uint64_t kResnet20Elements = 272'474;
constexpr std::chrono::milliseconds kSettle{500};

struct Row {
  std::string measure;
  std::string transport;
  std::string bar;
  Spread value;
  bool met = false;
};

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
  const std::vector<Row>& rows() const { return rows_; }

 private:
  Status below_capacity(const std::string& transport);
  Status saturation(const std::string& transport);
  Status flood(const std::string& transport);

  // A fresh server with these tenants and jobs.
  Result<std::unique_ptr<TenantServer>> start(
      const std::vector<std::pair<std::string, std::uint32_t>>& who,
      const std::vector<Load>& loads);
  // What the jobs get now, after a while to settle.
  Result<Rates> measure(TenantServer& server);
  // The same while only these jobs run, by the order of their starts. All run again afterwards.
  Result<Rates> measure_only(TenantServer& server, std::size_t jobs,
                             const std::vector<std::size_t>& running);
  Load saturating(const std::string& tenant, const std::string& job,
                  const std::string& transport) const;
  void progress(const std::string& text) const;
  void add(std::string measure, const std::string& transport, std::string bar, const Collected& of,
           bool met) {
    rows_.push_back({std::move(measure), transport, std::move(bar), of.spread(), met});
  }

  const TenantsOptions& options_;
  Places& places_;
  std::vector<Row> rows_;
  std::uint64_t drops_ = 0;
};

void Tenants::progress(const std::string& text) const {
  if (!options_.json) fmt::print(stderr, "{}\n", text);
}

Result<std::unique_ptr<TenantServer>> Tenants::start(
    const std::vector<std::pair<std::string, std::uint32_t>>& who, const std::vector<Load>& loads) {
  PHUB_ASSIGN_OR_RETURN(auto server, TenantServer::start(1, places_));
  for (const auto& [name, weight] : who) {
    PHUB_RETURN_IF_ERROR(server->create_tenant(name, weight));
  }
  for (const Load& load : loads) PHUB_RETURN_IF_ERROR(server->start(load));
  return server;
}

Result<Rates> Tenants::measure(TenantServer& server) {
  std::this_thread::sleep_for(kSettle);
  PHUB_ASSIGN_OR_RETURN(Rates rates, server.measure(options_.seconds));
  PHUB_ASSIGN_OR_RETURN(drops_, server.drops());
  const double served = std::accumulate(rates.core_seconds.begin(), rates.core_seconds.end(), 0.0);
  progress(
      fmt::format("  {:.1f} exchanges/s; of the time the server worked {:.0f} %, "
                  "the workers' CPUs {:.0f} %",
                  fmt::join(rates.exchanges, ", "), 100 * served, 100 * rates.workers_busy));
  return rates;
}

Result<Rates> Tenants::measure_only(TenantServer& server, std::size_t jobs,
                                    const std::vector<std::size_t>& running) {
  for (std::size_t job = 0; job < jobs; ++job) {
    server.pause(job, std::find(running.begin(), running.end(), job) == running.end());
  }
  Result<Rates> rates = measure(server);
  for (std::size_t job = 0; job < jobs; ++job) server.pause(job, false);
  return rates;
}

Load Tenants::saturating(const std::string& tenant, const std::string& job,
                         const std::string& transport) const {
  return {.tenant = tenant,
          .job = job,
          .workers = options_.workers,
          .elements = options_.elements,
          .dtype = options_.dtype,
          .transport = transport};
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
    PHUB_ASSIGN_OR_RETURN(const Rates all, measure(*server));
    const std::vector<double>& together = all.exchanges;
    // Jobs of one size are alike: one of each is enough alone.
    PHUB_ASSIGN_OR_RETURN(const Rates lenet, measure_only(*server, loads.size(), {0}));
    PHUB_ASSIGN_OR_RETURN(const Rates resnet, measure_only(*server, loads.size(), {1}));
    double lowest = 1.0;
    double sum = 0.0;
    for (std::size_t i = 0; i < together.size(); ++i) {
      const double alone = i % 2 == 0 ? lenet.exchanges[0] : resnet.exchanges[1];
      const double kept = together[i] / alone;
      lowest = std::min(lowest, kept);
      sum += kept;
    }
    worst.add(100 * (1 - lowest));
    mean.add(100 * (1 - sum / static_cast<double>(together.size())));
  }
  add("8 jobs below capacity, loss of the worst, %", transport, "<= 5", worst,
      worst.spread().median <= 5);
  add("8 jobs below capacity, mean loss, %", transport, "", mean, true);
  return {};
}

// How far the tenant that is farthest from its share of 1:2:4 is from it, in per cent.
double farthest_from_weights(const std::vector<double>& got) {
  const double total = std::accumulate(got.begin(), got.end(), 0.0);
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
  const std::vector<Load> loads = {saturating("one", "a", transport),
                                   saturating("two", "b", transport),
                                   saturating("four", "c", transport)};
  for (unsigned block = 0; block < options_.blocks; ++block) {
    progress(fmt::format("{}: saturation with weights 1:2:4, block {}", transport, block + 1));
    PHUB_ASSIGN_OR_RETURN(const auto server, start({{"one", 1}, {"two", 2}, {"four", 4}}, loads));
    PHUB_ASSIGN_OR_RETURN(const Rates rates, measure(*server));
    exchanges.add(farthest_from_weights(rates.exchanges));
    core_time.add(farthest_from_weights(rates.core_seconds));
    busy.add(100 * rates.workers_busy);
    // Each alone on the same server: where a job's memory lies is worth a fifth of its speed.
    double alone = 0;
    for (std::size_t job = 0; job < loads.size(); ++job) {
      PHUB_ASSIGN_OR_RETURN(const Rates only, measure_only(*server, loads.size(), {job}));
      alone += only.exchanges[job] * static_cast<double>(1U << job) / 7.0;
    }
    // Before and after: the machine's speed drifts.
    PHUB_ASSIGN_OR_RETURN(const Rates again, measure(*server));
    const auto total = [](const Rates& of) {
      return std::accumulate(of.exchanges.begin(), of.exchanges.end(), 0.0);
    };
    sum.add(100 * (1 - (total(rates) + total(again)) / 2 / alone));
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
    const std::vector<std::size_t> fair = {0, 1, 2};
    PHUB_ASSIGN_OR_RETURN(const Rates before, measure_only(*server, loads.size(), fair));
    PHUB_ASSIGN_OR_RETURN(const Rates valid, measure(*server));
    PHUB_ASSIGN_OR_RETURN(const Rates after, measure_only(*server, loads.size(), fair));
    PHUB_RETURN_IF_ERROR(server->start_garbage());
    PHUB_ASSIGN_OR_RETURN(const Rates garbage, measure_only(*server, loads.size(), fair));
    const auto lost = [&](const Rates& now) {
      const auto kept = [&](std::size_t job) {
        return 2 * now.exchanges[job] / (before.exchanges[job] + after.exchanges[job]);
      };
      return 100 * (1 - std::min(kept(0), kept(1)));
    };
    loss.add(lost(valid));
    garbage_loss.add(lost(garbage));
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

void print(const std::vector<Row>& rows, bool json) {
  if (!json) {
    fmt::print("{:<58} {:>9} {:>6} {:>8} {:>18}\n", "MEASURE", "TRANSPORT", "BAR", "MEDIAN",
               "[MIN .. MAX]");
  }
  for (const Row& row : rows) {
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

int run_tenants(const TenantsOptions& options) {
  const auto places = Places::create();
  Status status = places ? Status() : places.error();
  if (status.ok()) {
    Tenants tenants(options, **places);
    for (const std::string& transport : options.transports) {
      if (status.ok()) status = tenants.run(transport);
    }
    print(tenants.rows(), options.json);
  }
  if (status.ok()) return 0;
  fmt::print(stderr, "phub-bench: {}\n", status.message());
  return 1;
}

}  // namespace phub::bench
