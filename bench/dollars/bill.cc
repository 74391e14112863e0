#include "bench/dollars/bill.h"

#include <algorithm>

#include "bench/dollars/price_file.h"

namespace phub::bench {
namespace {

constexpr double kHoursOfYear = 8760.0;
constexpr double kWattsOfKilowatt = 1000.0;

class BillWriter {
 public:
  explicit BillWriter(const PriceFile& prices) : prices_(prices) {}

  void buy(Expense expense, const std::string& name, double pieces) {
    const PartPrice& part = part_of(prices_, name);
    bill_.items.push_back({expense, name, pieces, pieces * part.dollars()});
    bill_.watts += pieces * part.watts();
  }

  void buy_ports(const std::string& name, double ports) {
    const PartPrice& part = part_of(prices_, name);
    const double share = ports / part.ports();
    bill_.items.push_back({Expense::kPorts, name, ports, share * part.dollars()});
    bill_.watts += share * part.watts();
  }

  void buy_machines(Expense expense, const PricedMachine& machine, const PricedNetwork& network,
                    double count) {
    buy(expense, machine.host(), count);
    if (machine.has_gpu()) buy(Expense::kGpus, machine.gpu(), count * machine.gpus());
    const double nics = count * machine.nics();
    buy(Expense::kNics, machine.nic(), nics);
    const double cables =
        nics * part_of(prices_, machine.nic()).ports() / part_of(prices_, network.cable()).ports();
    buy(Expense::kCables, network.cable(), cables);
    buy_ports(network.rack_switch(), cables);
  }

  Bill finish() {
    if (prices_.has_power()) {
      const PowerPrice& power = prices_.power();
      const double kilowatt_hours =
          bill_.watts / kWattsOfKilowatt * power.overhead() * power.years() * kHoursOfYear;
      bill_.items.push_back(
          {Expense::kPower, "kWh", kilowatt_hours, kilowatt_hours * power.dollars_per_kwh()});
    }
    return bill_;
  }

 private:
  const PriceFile& prices_;
  Bill bill_;
};

}  // namespace

double Bill::total() const {
  double sum = 0.0;
  for (const BillItem& item : items) sum += item.dollars;
  return sum;
}

double Bill::of(Expense expense) const {
  double sum = 0.0;
  for (const BillItem& item : items) sum += item.expense == expense ? item.dollars : 0.0;
  return sum;
}

double nic_gigabits(const PriceFile& prices, const PricedMachine& machine) {
  const PartPrice& nic = part_of(prices, machine.nic());
  return nic.gigabits() * nic.ports() * machine.nics();
}

double uplink_gigabits(const PriceFile& prices, const Deployment& deployment) {
  if (!deployment.network().has_core_switch()) return 0.0;
  return nic_gigabits(prices, deployment.worker()) * deployment.workers() /
         deployment.network().oversubscription();
}

Bill bill_of(const PriceFile& prices, const Deployment& deployment) {
  BillWriter writer(prices);
  const double racks = deployment.racks();
  const PricedNetwork& network = deployment.network();
  writer.buy_machines(Expense::kWorkers, deployment.worker(), network,
                      racks * deployment.workers());
  if (deployment.has_server()) {
    writer.buy_machines(Expense::kServers, deployment.server(), network,
                        racks * deployment.servers());
  }
  if (network.has_core_switch()) {
    const double port = std::min(part_of(prices, network.rack_switch()).gigabits(),
                                 part_of(prices, network.core_switch()).gigabits());
    const double uplinks = racks * uplink_gigabits(prices, deployment) / port;
    writer.buy_ports(network.rack_switch(), uplinks);
    writer.buy_ports(network.core_switch(), uplinks);
    writer.buy(Expense::kCables, network.core_cable(), uplinks);
  }
  return writer.finish();
}

}  // namespace phub::bench
