#include "bench/dollars/throughput.h"

#include <algorithm>

#include "bench/dollars/bill.h"
#include "bench/dollars/price_file.h"
#include "bench/simulate/shapes.h"

namespace phub::bench {
namespace {

constexpr double kBytesOfGigabit = 1e9 / 8.0;
constexpr double kBytesOfGigabyte = 1e9;
constexpr double kMillis = 1e3;
constexpr double kBothWays = 2.0;

struct Limit {
  double seconds = 0.0;
  std::string bound;
};

simulate::Shape shape_of(PricedExchange exchange) {
  switch (exchange) {
    case PRICED_EXCHANGE_COLOCATED:
      return simulate::Shape::kColocated;
    case PRICED_EXCHANGE_RING:
      return simulate::Shape::kRing;
    case PRICED_EXCHANGE_PBOX:
      return simulate::Shape::kHierarchical;
  }
  return simulate::Shape::kRing;
}

// Bytes a second, each way, of a rack's servers: of their NICs, or of their hosts if those are
// less.
struct ServerRate {
  double rate = 0.0;
  bool is_of_host = false;
};

ServerRate server_rate_of(const PriceFile& prices, const Deployment& deployment) {
  const double nics = nic_gigabits(prices, deployment.server()) * kBytesOfGigabit *
                      prices.workload().link_efficiency();
  const PartPrice& host = part_of(prices, deployment.server().host());
  const double most = host.exchange_gigabytes() * kBytesOfGigabyte / kBothWays;
  const bool is_of_host = host.has_exchange_gigabytes() && most < nics;
  return {deployment.servers() * (is_of_host ? most : nics), is_of_host};
}

Limit exchange_limit(const PriceFile& prices, const Deployment& deployment) {
  const double efficiency = prices.workload().link_efficiency();
  simulate::Network network{.workers = deployment.workers() * deployment.racks(),
                            .rack_workers = deployment.workers(),
                            .servers = deployment.servers()};
  network.worker_rate = nic_gigabits(prices, deployment.worker()) * kBytesOfGigabit * efficiency;
  network.uplink_rate = uplink_gigabits(prices, deployment) * kBytesOfGigabit * efficiency;
  ServerRate servers;
  if (deployment.exchange() == PRICED_EXCHANGE_PBOX) servers = server_rate_of(prices, deployment);
  network.server_rate = servers.rate;
  const simulate::Exchange exchange =
      simulate::exchange_of(shape_of(deployment.exchange()), network);
  Limit limit{exchange.byte * static_cast<double>(prices.workload().model_bytes()), exchange.bound};
  if (limit.bound == "server NIC" && servers.is_of_host) limit.bound = "server host";
  return limit;
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
  return iteration(prices, deployment, exchange_limit(prices, deployment));
}

Prediction predict_with(const PriceFile& prices, const Deployment& deployment,
                        double exchange_seconds) {
  return iteration(prices, deployment, {exchange_seconds, "exchange"});
}

}  // namespace phub::bench
