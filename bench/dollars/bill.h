// What a deployment costs: its parts, and their power.
//
// Values and pure functions; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "proto/prices.pb.h"

namespace phub::bench {

enum class Expense { kWorkers, kGpus, kNics, kCables, kPorts, kServers, kPower };
inline constexpr std::array<std::string_view, 7> kExpenseNames = {
    "workers", "GPUs", "NICs", "cables", "switch ports", "servers", "power"};

struct BillItem {
  Expense expense = Expense::kWorkers;
  std::string part;
  double pieces = 0.0;  // of a switch: ports; shares of ports and cables are counted as shares
  double dollars = 0.0;
};

struct Bill {
  std::vector<BillItem> items;
  double watts = 0.0;

  double total() const;
  double of(Expense expense) const;
};

// All racks of a deployment. A port of a switch costs the switch over its ports; a port's uplinks
// are bought by rate (the workers' NICs over the oversubscription), whole or not. REQUIRES: a
// checked file, a priced deployment of it.
Bill bill_of(const PriceFile& prices, const Deployment& deployment);

// Bits a second, in units of 1e9, of a machine's NICs; of a rack's uplinks (0 without a core).
double nic_gigabits(const PriceFile& prices, const PricedMachine& machine);
double uplink_gigabits(const PriceFile& prices, const Deployment& deployment);

}  // namespace phub::bench
