#include "bench/dollars/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "bench/dollars/curve.h"
#include "bench/dollars/price_file.h"

namespace phub::bench {
namespace {

constexpr double kNoEffect = 1e-6;

std::vector<std::string> axes_of(const PriceFile& prices) {
  std::vector<std::string> axes;
  for (const PartPrice& part : prices.part()) axes.push_back("price:" + part.name());
  if (prices.has_power()) axes.emplace_back("price:power");
  const auto is_measured = [](const Deployment& deployment) { return deployment.has_measured(); };
  if (!prices.has_workload() || std::ranges::any_of(prices.deployment(), is_measured)) return axes;
  if (prices.workload().compute_ms() > 0.0) axes.emplace_back("gpu-speed");
  axes.emplace_back("model-size");
  return axes;
}

double swing(const Sensitivity& found) { return std::abs(std::log(found.high / found.low)); }

}  // namespace

Result<std::vector<Sensitivity>> sensitivities(const PriceFile& prices, double share) {
  PriceFile priced = prices;
  priced.clear_deployment();
  for (const Deployment& deployment : prices.deployment()) {
    if (is_priced(deployment)) *priced.add_deployment() = deployment;
  }
  std::vector<Sensitivity> found;
  if (priced.deployment_size() < 2) return found;
  for (const std::string& axis : axes_of(priced)) {
    PHUB_ASSIGN_OR_RETURN(const PriceFile lower, changed(priced, axis, 1.0 / (1.0 + share)));
    PHUB_ASSIGN_OR_RETURN(const PriceFile higher, changed(priced, axis, 1.0 + share));
    PHUB_ASSIGN_OR_RETURN(const std::vector<PricedRow> low, compare(lower));
    PHUB_ASSIGN_OR_RETURN(const std::vector<PricedRow> high, compare(higher));
    for (std::size_t i = 1; i < low.size(); ++i) {
      const Sensitivity one{axis, low[i].deployment, low[i].ratio, high[i].ratio, low[i].basis};
      if (swing(one) > kNoEffect) found.push_back(one);
    }
  }
  std::ranges::stable_sort(
      found, [](const Sensitivity& a, const Sensitivity& b) { return swing(a) > swing(b); });
  return found;
}

}  // namespace phub::bench
