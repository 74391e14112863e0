#include "bench/dollars/curve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/dollars/price_file.h"

namespace phub::bench {
namespace {

constexpr std::string_view kPricePrefix = "price:";
constexpr std::string_view kPowerWord = "power";
constexpr int kHalvings = 50;
constexpr double kSameShare = 1e-9;  // figures as close as this are equal

struct Axis {
  std::string_view name;
  double from = 0.0;
  double to = 0.0;
  bool is_counted = false;
};

constexpr Axis kAxes[] = {{"gpu-speed", 0.25, 8.0, false},
                          {"model-size", 0.25, 8.0, false},
                          {"oversubscription", 1.0, 8.0, false},
                          {"server-nics", 1.0, 16.0, true},
                          {"workers", 1.0, 64.0, true}};
constexpr Axis kPriceAxis = {"price", 0.25, 4.0, false};

Status refuse_axis(const std::string& axis, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("--curve \"{}\" {}", axis, why)};
}

const Axis* axis_of(const std::string& name) {
  if (name.starts_with(kPricePrefix)) return &kPriceAxis;
  for (const Axis& axis : kAxes) {
    if (axis.name == name) return &axis;
  }
  return nullptr;
}

// False: nothing of that name is there.
bool change_price(const std::string& name, double factor, PriceFile& prices) {
  if (name == kPowerWord && prices.has_power()) {
    prices.mutable_power()->set_dollars_per_kwh(prices.power().dollars_per_kwh() * factor);
    return true;
  }
  for (PartPrice& part : *prices.mutable_part()) {
    if (part.name() != name) continue;
    part.set_dollars(part.dollars() * factor);
    return true;
  }
  return false;
}

std::vector<std::string> names_of_prices(const PriceFile& prices) {
  std::vector<std::string> names;
  for (const PartPrice& part : prices.part()) names.push_back(part.name());
  if (prices.has_power()) names.emplace_back(kPowerWord);
  return names;
}

// False: the deployment has nothing of it.
bool change_deployment(const std::string& axis, double value, Deployment& deployment) {
  const auto count = static_cast<std::uint32_t>(std::lround(value));
  if (axis == "workers") {
    deployment.set_workers(count);
  } else if (axis == "server-nics" && deployment.has_server()) {
    deployment.mutable_server()->set_nics(count);
  } else if (axis == "oversubscription" && deployment.network().has_core_switch()) {
    deployment.mutable_network()->set_oversubscription(value);
  } else {
    return false;
  }
  return true;
}

bool change_workload(const std::string& axis, double value, PriceFile& prices) {
  if (!prices.has_workload()) return false;
  PricedWorkload& work = *prices.mutable_workload();
  if (axis == "gpu-speed") {
    work.set_compute_ms(work.compute_ms() / value);
    return work.compute_ms() > 0.0;
  }
  if (axis != "model-size") return false;
  const double bytes = static_cast<double>(work.model_bytes()) * value;
  work.set_model_bytes(static_cast<std::uint64_t>(std::llround(std::max(1.0, bytes))));
  return true;
}

// What was measured holds for what was measured.
void forget_measured(const std::string& axis, PriceFile& prices) {
  for (Deployment& deployment : *prices.mutable_deployment()) {
    const bool holds = axis == "gpu-speed" && deployment.measured().has_exchange_ms();
    if (!holds) deployment.clear_measured();
  }
}

std::vector<double> values_of(const Axis& axis, const CurveRange& range) {
  const double from = range.to > 0.0 ? range.from : axis.from;
  const double to = range.to > 0.0 ? range.to : axis.to;
  std::vector<double> values;
  for (unsigned i = 0; i < range.points; ++i) {
    const double share = static_cast<double>(i) / (range.points - 1);
    const double value = from * std::pow(to / from, share);
    const double kept = axis.is_counted ? std::round(value) : value;
    if (values.empty() || kept > values.back()) values.push_back(kept);
  }
  return values;
}

Result<CurvePoint> point_at(const PriceFile& prices, const std::string& axis, double value) {
  PHUB_ASSIGN_OR_RETURN(const PriceFile here, changed(prices, axis, value));
  PHUB_ASSIGN_OR_RETURN(std::vector<PricedRow> rows, compare(here));
  return CurvePoint{value, std::move(rows)};
}

// 1: row `index` is better than the first; -1: worse; 0: neither.
int side_of(const CurvePoint& point, std::size_t index) {
  const double ratio = point.rows[index].ratio;
  if (std::abs(ratio - 1.0) <= kSameShare) return 0;
  return ratio > 1.0 ? 1 : -1;
}

// Between two points on different sides.
Result<double> crossing(const PriceFile& prices, const Curve& curve, std::size_t index,
                        const CurvePoint& low, const CurvePoint& high) {
  double below = low.value;
  double above = high.value;
  const int side = side_of(low, index);
  for (int i = 0; i < kHalvings && above > below; ++i) {
    const double middle = curve.is_counted ? std::floor((below + above) / 2) : (below + above) / 2;
    if (middle <= below) break;
    PHUB_ASSIGN_OR_RETURN(const CurvePoint point, point_at(prices, curve.axis, middle));
    (side_of(point, index) == side ? below : above) = middle;
  }
  return above;
}

Status find_break_evens(const PriceFile& prices, Curve& curve) {
  for (std::size_t row = 1; row < curve.points.front().rows.size(); ++row) {
    const CurvePoint* last = nullptr;
    for (const CurvePoint& point : curve.points) {
      const int side = side_of(point, row);
      if (side == 0) continue;
      if (last != nullptr && side_of(*last, row) != side) {
        PHUB_ASSIGN_OR_RETURN(const double value, crossing(prices, curve, row, *last, point));
        curve.break_evens.push_back(
            {point.rows[row].deployment, point.rows[row].basis, value, side > 0});
      }
      last = &point;
    }
  }
  return {};
}

// Lines that are drawn from point to point cross where they should.
Status add_points_at_break_evens(const PriceFile& prices, Curve& curve) {
  for (const BreakEven& found : curve.break_evens) {
    const auto at = std::ranges::lower_bound(curve.points, found.value, {}, &CurvePoint::value);
    if (at != curve.points.end() && at->value == found.value) continue;
    PHUB_ASSIGN_OR_RETURN(CurvePoint point, point_at(prices, curve.axis, found.value));
    curve.points.insert(at, std::move(point));
  }
  return {};
}

}  // namespace

Result<PriceFile> changed(const PriceFile& prices, const std::string& axis, double value) {
  PriceFile copy = prices;
  if (axis.starts_with(kPricePrefix)) {
    const std::string name = axis.substr(kPricePrefix.size());
    if (change_price(name, value, copy)) return copy;
    return refuse_axis(axis, fmt::format("names no part of the file; it has {}",
                                         fmt::join(names_of_prices(prices), ", ")));
  }
  forget_measured(axis, copy);
  bool is_changed = change_workload(axis, value, copy);
  for (Deployment& deployment : *copy.mutable_deployment()) {
    is_changed |= is_priced(deployment) && change_deployment(axis, value, deployment);
  }
  if (!is_changed) {
    return refuse_axis(axis, "changes nothing here; is there a workload, a server, a core_switch?");
  }
  if (!copy.has_workload()) return refuse_axis(axis, "needs a workload to predict from");
  return copy;
}

Result<Curve> curve_of(const PriceFile& prices, const CurveRange& range) {
  const Axis* const axis = axis_of(range.axis);
  if (axis == nullptr) {
    return refuse_axis(range.axis,
                       "is not known; take gpu-speed, model-size, oversubscription, server-nics, "
                       "workers or price:PART");
  }
  const bool is_range = range.to == 0.0 || (range.from > 0.0 && range.to > range.from);
  if (!is_range) return refuse_axis(range.axis, "has a range that is none; --from 0.5 --to 8");
  if (axis->is_counted && range.to > 0.0 && range.from < 1.0) {
    return refuse_axis(range.axis, "counts; begin --from 1");
  }
  PriceFile priced = prices;
  priced.clear_deployment();
  for (const Deployment& deployment : prices.deployment()) {
    if (is_priced(deployment)) *priced.add_deployment() = deployment;
  }
  if (priced.deployment().empty()) {
    return refuse_axis(range.axis, "needs deployments with parts; there are published ones only");
  }
  Curve curve{.axis = range.axis,
              .is_counted = axis->is_counted,
              .is_of_model = axis != &kPriceAxis,
              .points = {},
              .break_evens = {}};
  for (const double value : values_of(*axis, range)) {
    PHUB_ASSIGN_OR_RETURN(CurvePoint point, point_at(priced, range.axis, value));
    curve.points.push_back(std::move(point));
  }
  PHUB_RETURN_IF_ERROR(find_break_evens(priced, curve));
  PHUB_RETURN_IF_ERROR(add_points_at_break_evens(priced, curve));
  return curve;
}

}  // namespace phub::bench
