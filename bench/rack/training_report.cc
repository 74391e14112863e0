#include <fmt/format.h>

#include "bench/base/statistics.h"
#include "bench/rack/training.h"
#include "common/text/table.h"

namespace phub::bench {
namespace {

std::vector<double> of_each(const std::vector<TrainedEpoch>& epochs, double TrainedEpoch::*field) {
  std::vector<double> values;
  for (const TrainedEpoch& epoch : epochs) values.push_back(epoch.*field);
  return values;
}

std::vector<double> exchange_shares(const std::vector<TrainedEpoch>& epochs) {
  std::vector<double> shares;
  for (const TrainedEpoch& epoch : epochs) {
    shares.push_back(epoch.seconds > 0 ? epoch.exchange_seconds / epoch.seconds : 0);
  }
  return shares;
}

}  // namespace

std::string training_table(const std::vector<TrainedEpoch>& epochs) {
  const TrainedEpoch& last = epochs.back();
  Table table("an epoch|>median|>least|>most");
  const Spread rates = spread_of(of_each(epochs, &TrainedEpoch::images_per_second));
  table.add({"images/s, all workers", fmt::format("{:.1f}", rates.median),
             fmt::format("{:.1f}", rates.min), fmt::format("{:.1f}", rates.max)});
  const Spread shares = spread_of(exchange_shares(epochs));
  table.add({"of its time in the exchange", human_share(shares.median), human_share(shares.min),
             human_share(shares.max)});
  std::string text = table.to_string();
  text += fmt::format("\nAfter {} steps, {} epoch(s): loss {:.4f}, accuracy {:.2f} %",
                      human_count(steps_of(epochs)), epochs.size(), last.loss,
                      100 * last.train_accuracy);
  if (last.test_accuracy >= 0) {
    text += fmt::format(", on the test images {:.2f} %", 100 * last.test_accuracy);
  }
  return text + ".\n";
}

nlohmann::ordered_json training_json(const std::vector<TrainedEpoch>& epochs) {
  const TrainedEpoch& last = epochs.back();
  nlohmann::ordered_json object = {
      {"steps", steps_of(epochs)},
      {"epochs", epochs.size()},
      {"images_per_second_p50", median(of_each(epochs, &TrainedEpoch::images_per_second))},
      {"images_per_second_of_epochs", of_each(epochs, &TrainedEpoch::images_per_second)},
      {"exchange_share_p50", median(exchange_shares(epochs))},
      {"seconds_of_epochs", of_each(epochs, &TrainedEpoch::seconds)},
      {"loss_of_epochs", of_each(epochs, &TrainedEpoch::loss)},
      {"loss", last.loss},
      {"train_accuracy", last.train_accuracy}};
  if (last.test_accuracy >= 0) {
    object["test_accuracy_of_epochs"] = of_each(epochs, &TrainedEpoch::test_accuracy);
    object["test_accuracy"] = last.test_accuracy;
  }
  return object;
}

}  // namespace phub::bench
