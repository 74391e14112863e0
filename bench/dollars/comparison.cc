#include "bench/dollars/comparison.h"

#include <fmt/format.h>

#include <cmath>

#include "bench/dollars/price_file.h"

namespace phub::bench {
namespace {

constexpr double kThousandDollars = 1000.0;
constexpr double kMillisOfSecond = 1e3;

PricedRow published_row(const Deployment& deployment) {
  PricedRow row;
  row.deployment = deployment.name();
  row.basis = Basis::kPublished;
  row.source = deployment.published().source();
  row.per_1000_dollars = deployment.published().per_1000_dollars();
  return row;
}

void predict_row(const Prediction& made, PricedRow& row) {
  row.samples_per_second = made.samples_per_second;
  row.seconds = made.seconds;
  row.bound = made.bound;
}

Result<PricedRow> priced_row(const PriceFile& prices, const Deployment& deployment) {
  PricedRow row;
  row.deployment = deployment.name();
  row.source = deployment.measured().source();
  if (deployment.measured().has_samples_per_second()) {
    row.basis = Basis::kMeasured;
    row.samples_per_second = deployment.measured().samples_per_second();
  } else if (deployment.has_measured()) {
    const bool is_all = prices.workload().compute_ms() == 0.0;
    row.basis = is_all ? Basis::kMeasured : Basis::kExchangeMeasured;
    const double seconds = deployment.measured().exchange_ms() / kMillisOfSecond;
    predict_row(predict_with(prices, deployment, seconds), row);
  } else {
    predict_row(predict(prices, deployment), row);
  }
  row.bill = bill_of(prices, deployment);
  row.per_1000_dollars = row.samples_per_second / row.bill.total() * kThousandDollars;
  if (row.bill.total() > 0.0 && std::isfinite(row.per_1000_dollars)) return row;
  return Status(
      Code::kInvalidArgument,
      fmt::format("deployment \"{}\" {}", row.deployment,
                  row.bill.total() > 0.0 ? "takes no time; give compute_ms, or more than one worker"
                                         : "costs nothing; give its parts dollars"));
}

}  // namespace

std::string_view name_of(Basis basis) {
  switch (basis) {
    case Basis::kMeasured:
      return "measured";
    case Basis::kPredicted:
      return "predicted";
    case Basis::kExchangeMeasured:
      return "predicted, exchange measured";
    case Basis::kPublished:
      return "published";
  }
  return "";
}

Result<std::vector<PricedRow>> compare(const PriceFile& prices) {
  std::vector<PricedRow> rows;
  for (const Deployment& deployment : prices.deployment()) {
    if (!is_priced(deployment)) {
      rows.push_back(published_row(deployment));
      continue;
    }
    PHUB_ASSIGN_OR_RETURN(PricedRow row, priced_row(prices, deployment));
    rows.push_back(std::move(row));
  }
  for (PricedRow& row : rows) row.ratio = row.per_1000_dollars / rows.front().per_1000_dollars;
  return rows;
}

}  // namespace phub::bench
