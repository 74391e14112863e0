#include "common/cost/exchange.h"

#include <algorithm>

namespace phub::cost {

void Exchange::bound_by(std::initializer_list<Limit> limits) {
  for (const Limit& limit : limits) {
    if (limit.byte <= byte) continue;
    byte = limit.byte;
    bound = limit.name;
  }
}

double Exchange::seconds(double bytes) const {
  if (bytes <= 0) return 0;
  const double unit = std::min(bytes, unit_bytes);
  const double chunk = std::min(bytes, chunk_bytes);
  double total = latency;
  for (const Stage& stage : stages) {
    total += std::max(unit * stage.byte, chunk * stage.chunk_byte);
  }
  // Trees: the hops of one direction work at once, the two directions one after the other.
  return total + (bytes - unit) * byte;
}

MessageCost Exchange::cost(double bytes) const {
  const double total = seconds(bytes);
  if (!is_streamed) return {.busy = total};
  const double busy = std::min(total, bytes * byte);
  return {.busy = busy, .delay = total - busy};
}

void Exchange::keep_rates_only() {
  latency = 0.0;
  unit_bytes = 0.0;
  stages.clear();
}

}  // namespace phub::cost
