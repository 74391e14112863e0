#include "bench/dollars/throughput.h"

#include <algorithm>

#include "bench/dollars/bill.h"
#include "bench/dollars/price_file.h"

namespace phub::bench {
namespace {

constexpr double kBytesOfGigabit = 1e9 / 8.0;
constexpr double kBytesOfGigabyte = 1e9;
constexpr double kMillis = 1e3;
constexpr double kBothWays = 2.0;

struct Limit {
  double seconds = 0.0;
  std::string_view bound;
};

// What all shapes ask; bytes and bytes a second.
struct Links {
  double model = 0.0;
  double workers = 0.0;  // in a rack
  double racks = 0.0;
  double worker = 0.0;  // rates
  double uplink = 0.0;  // 0: there is none
};

Limit longest(std::initializer_list<Limit> limits) {
  return std::max(limits, [](const Limit& a, const Limit& b) { return a.seconds < b.seconds; });
}

double across(double bytes, double rate) { return bytes > 0.0 ? bytes / rate : 0.0; }

Limit colocated(const Links& links) {
  const double all = links.workers * links.racks;
  const double of_others = (links.racks - 1) / links.racks;
  return longest({{2 * links.model * (all - 1) / all / links.worker, "worker NICs"},
                  {across(2 * links.workers * links.model * of_others, links.uplink), "uplinks"}});
}

Limit ring(const Links& links) {
  const double all = links.workers * links.racks;
  const double bytes = 2 * links.model * (all - 1) / all;
  return longest({{bytes / links.worker, "worker NICs"},
                  {across(links.racks > 1 ? bytes : 0.0, links.uplink), "uplinks"}});
}

Limit pbox(const Links& links, const PriceFile& prices, const Deployment& deployment) {
  const double nics = nic_gigabits(prices, deployment.server()) * kBytesOfGigabit *
                      prices.workload().link_efficiency();
  const PartPrice& host = part_of(prices, deployment.server().host());
  const double most = host.exchange_gigabytes() * kBytesOfGigabyte / kBothWays;
  const bool is_host = host.has_exchange_gigabytes() && most < nics;
  const double server = deployment.servers() * (is_host ? most : nics);
  const double bytes = 2 * links.model * (links.racks - 1) / links.racks;
  const std::string_view name = is_host ? "server host" : "server NICs";
  return longest({{links.model / links.worker, "worker NICs"},
                  {links.workers * links.model / server, name},
                  {bytes / server, name},
                  {across(bytes, links.uplink), "uplinks"}});
}

Limit exchange_of(const PriceFile& prices, const Deployment& deployment) {
  const double efficiency = prices.workload().link_efficiency();
  const Links links = {
      .model = static_cast<double>(prices.workload().model_bytes()),
      .workers = static_cast<double>(deployment.workers()),
      .racks = static_cast<double>(deployment.racks()),
      .worker = nic_gigabits(prices, deployment.worker()) * kBytesOfGigabit * efficiency,
      .uplink = uplink_gigabits(prices, deployment) * kBytesOfGigabit * efficiency};
  switch (deployment.exchange()) {
    case PRICED_EXCHANGE_COLOCATED:
      return colocated(links);
    case PRICED_EXCHANGE_RING:
      return ring(links);
    case PRICED_EXCHANGE_PBOX:
      return pbox(links, prices, deployment);
  }
  return {};
}

Prediction iteration(const PriceFile& prices, const Deployment& deployment, const Limit& exchange) {
  const PricedMachine& worker = deployment.worker();
  const PricedWorkload& work = prices.workload();
  const double speed = worker.has_gpu() ? part_of(prices, worker.gpu()).speed() : 1.0;
  const double gpus = worker.has_gpu() ? worker.gpus() : 1.0;
  Prediction made;
  made.compute_seconds = work.compute_ms() / kMillis / speed;
  made.exchange_seconds = exchange.seconds;
  made.seconds = made.compute_seconds + made.exchange_seconds -
                 work.overlap() * std::min(made.compute_seconds, made.exchange_seconds);
  made.bound = made.compute_seconds >= made.exchange_seconds ? "compute" : exchange.bound;
  made.samples_per_second =
      deployment.racks() * 1.0 * deployment.workers() * gpus * work.samples() / made.seconds;
  return made;
}

}  // namespace

Prediction predict(const PriceFile& prices, const Deployment& deployment) {
  return iteration(prices, deployment, exchange_of(prices, deployment));
}

Prediction predict_with(const PriceFile& prices, const Deployment& deployment,
                        double exchange_seconds) {
  return iteration(prices, deployment, {exchange_seconds, "exchange"});
}

}  // namespace phub::bench
