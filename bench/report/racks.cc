// What is measured beside what should be: rounds of racks and what their links allow, replayed
// steps and their prediction.
#include <fmt/format.h>

#include <algorithm>

#include "bench/base/statistics.h"
#include "bench/report/sections.h"
#include "common/text/table.h"

namespace phub::bench::report {
namespace {

std::string rounds_figure(const Record& run) {
  std::vector<plots::ValueBar> bars;
  const auto p50 = number_in(run, "seconds_p50");
  if (p50) {
    const Spread blocks = spread_of(numbers_in(run, "seconds_of_blocks"));
    bars.push_back({"a round (measured)", *p50, time_of(*p50), {}, {}});
    if (blocks.max > 0.0) bars.back().range = {blocks.min, blocks.max};
  }
  const auto least = number_in(run, "least_seconds");
  if (least) {
    bars.push_back({fmt::format("least that {} allows (predicted)", word_in(run, "bounding_link")),
                    *least,
                    time_of(*least),
                    {},
                    {}});
  }
  return figure("A round: median [blocks' least .. most]", bars);
}

// Links, and a bar for the busier way of each.
std::string links_html(const Record& run) {
  constexpr std::size_t kMostBars = 24;
  const auto links = run.find("links");
  if (links == run.end() || !links->is_array()) return side_by_side(rounds_figure(run));
  PageTable table(
      "link|>Mbit/s|>payload up|>down|>counted up|>down|>busy up|>down|>dropped up|>down|>sent "
      "again");
  std::vector<plots::ValueBar> bars;
  for (const Record& link : *links) {
    if (!link.is_object()) continue;
    table.add({word_in(link, "link"), figure_in(link, "mbit"), bytes_in(link, "payload_up_bytes"),
               bytes_in(link, "payload_down_bytes"), bytes_in(link, "counted_up_bytes"),
               bytes_in(link, "counted_down_bytes"), share_in(link, "busy_up"),
               share_in(link, "busy_down"), count_in(link, "dropped_up"),
               count_in(link, "dropped_down"), count_in(link, "resent")});
    const double busy = std::max(number_in(link, "busy_up").value_or(0.0),
                                 number_in(link, "busy_down").value_or(0.0));
    bars.push_back({word_in(link, "link"), busy, human_share(busy), {}, {}});
  }
  std::stable_sort(bars.begin(), bars.end(),
                   [](const auto& a, const auto& b) { return a.value > b.value; });
  if (bars.size() > kMostBars) bars.resize(kMostBars);
  return heading("Bytes on each link, of a round or a step") + table.to_html() +
         side_by_side(rounds_figure(run) +
                      figure("The busiest links, the busier way (measured)", bars));
}

// What a fault did to each worker; "" for a run without faults.
std::string faults_html(const Record& run) {
  const auto ends = run.find("ends");
  const auto faults = run.find("faults");
  if (ends == run.end() || !ends->is_array()) return {};
  std::string html;
  if (faults != run.end() && faults->is_array()) {
    for (const Record& fault : *faults) {
      html += note(fmt::format("Fault: {} of {}, at round {} or after {} s.",
                               word_in(fault, "kind"), word_in(fault, "target"),
                               count_in(fault, "at_round"), figure_in(fault, "at_s")));
    }
  }
  PageTable table("worker|end|>after|right|error|wrong");
  for (const Record& end : *ends) {
    table.add({word_in(end, "worker"), word_in(end, "end"), time_in(end, "seconds"),
               yes_in(end, "right"), word_in(end, "error"), word_in(end, "wrong")});
  }
  return html + table.to_html();
}

std::string cpu_note(const Record& run) {
  const std::vector<double> all = numbers_in(run, "cpus_busy");
  if (all.empty()) return {};
  std::string cpus;
  for (const double busy : all) cpus += (cpus.empty() ? "" : ", ") + human_share(busy);
  return note(
      fmt::format("CPUs busy: {}; the machine {}, of which servers and workers {}. Links "
                  "are the limit: {}.",
                  cpus, share_in(run, "machine_busy"), share_in(run, "own_busy"),
                  yes_in(run, "links_are_the_limit")));
}

// Of trainings: what each of their epochs ended with, over the seconds that they had trained.
std::string curves_figure(const Records& records, const char* field, const char* caption,
                          std::string (*shown)(double)) {
  plots::LinePlot plot;
  plot.axis = "seconds of training";
  plot.x_figure = [](double seconds) { return fmt::format("{:.4g}", seconds); };
  plot.y_figure = shown;
  for (const Record& run : records) {
    const std::vector<double> seconds = numbers_in(run, "seconds_of_epochs");
    const std::vector<double> values = numbers_in(run, field);
    if (seconds.empty() || values.size() != seconds.size()) continue;
    plot.lines.push_back({word_in(run, "title"), {}, true});
    double at = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      at += std::max(0.0, seconds[i]);
      plot.lines.back().points.push_back({at, values[i]});
    }
  }
  return plot.lines.empty() ? "" : figure(caption, plot);
}

std::string curves_html(const Records& records) {
  return side_by_side(curves_figure(records, "loss_of_epochs", "Loss of each epoch (measured)",
                                    [](double loss) { return fmt::format("{:.4g}", loss); }) +
                      curves_figure(records, "test_accuracy_of_epochs",
                                    "Accuracy on the test images (measured)", human_share));
}

std::string replay_of(const Record& record) {
  return fmt::format("{}, {}, {}", word_in(record, "network"), word_in(record, "policy"),
                     counted_in(record, "workers", "worker"));
}

// Measured beside predicted, and how far off the prediction is. Both only of the first ones.
std::string replays_html(const Records& records) {
  constexpr std::size_t kMostReplays = 30;
  std::vector<plots::ValueBar> times;
  std::vector<plots::ValueBar> errors;
  for (std::size_t i = 0; i < std::min(records.size(), kMostReplays); ++i) {
    const Record& record = records[i];
    const auto p50 = number_in(record, "seconds_p50");
    const auto predicted = number_in(record, "predicted_seconds");
    const auto error = number_in(record, "error");
    const Spread blocks = spread_of(numbers_in(record, "seconds_of_blocks"));
    if (p50) times.push_back({replay_of(record) + " (measured)", *p50, time_of(*p50), {}, {}});
    if (p50 && blocks.max > 0.0) times.back().range = {blocks.min, blocks.max};
    if (predicted) {
      times.push_back(
          {replay_of(record) + " (predicted)", *predicted, time_of(*predicted), {}, {}});
    }
    if (error) errors.push_back({replay_of(record), *error, human_share(*error), {}, {}});
  }
  return side_by_side(figure("An iteration: median [blocks' least .. most]", times) +
                      figure("How far the prediction is off", errors));
}

}  // namespace

Section replay_section(const Records& records) {
  PageTable table(
      "network|times|policy|shape|transport|>workers|>servers|>racks|>p50|>blocks' least|>most|"
      ">compute|>predicted|>off by|bound by|no prediction|verified");
  for (const Record& record : records) {
    const std::vector<double> blocks = numbers_in(record, "seconds_of_blocks");
    const Spread spread = spread_of(blocks);
    table.add({word_in(record, "network"), word_in(record, "times"), word_in(record, "policy"),
               word_in(record, "shape"), word_in(record, "transport"), count_in(record, "workers"),
               count_in(record, "servers"), count_in(record, "racks"),
               time_in(record, "seconds_p50"), blocks.empty() ? kAbsent : time_of(spread.min),
               blocks.empty() ? kAbsent : time_of(spread.max), time_in(record, "compute_seconds"),
               time_in(record, "predicted_seconds"), share_in(record, "error"),
               word_in(record, "bound"), word_in(record, "no_prediction"),
               yes_in(record, "verified")});
  }
  return {"Replayed steps", "measured; predicted", table.to_html() + replays_html(records)};
}

Section rack_section(const Records& records) {
  PageTable table(
      "scenario|shape|transport|>racks|>workers|>servers|>elements|rule|>p50|>blocks' least|>most|"
      ">least allowed (predicted)|>of measured|>images/s|>of it exchange|>test accuracy|verified|"
      "ends are right");
  std::string details;
  for (const Record& run : records) {
    const std::vector<double> blocks = numbers_in(run, "seconds_of_blocks");
    const Spread spread = spread_of(blocks);
    const std::string elements =
        number_in(run, "elements")
            ? fmt::format("{} {}", count_in(run, "elements"), word_in(run, "dtype"))
            : "";
    table.add({word_in(run, "title"), word_in(run, "shape"), word_in(run, "transport"),
               count_in(run, "racks"), count_in(run, "workers"), count_in(run, "servers"), elements,
               word_in(run, "rule"), time_in(run, "seconds_p50"),
               blocks.empty() ? kAbsent : time_of(spread.min),
               blocks.empty() ? kAbsent : time_of(spread.max), time_in(run, "least_seconds"),
               share_in(run, "least_of_measured"), figure_in(run, "images_per_second_p50"),
               share_in(run, "exchange_share_p50"), share_in(run, "test_accuracy"),
               yes_in(run, "verified"), yes_in(run, "all_right")});
    if (records.size() > 1) details += heading(word_in(run, "title"));
    details += cpu_note(run) + faults_html(run) + links_html(run);
  }
  return {"Racks", "measured", table.to_html() + curves_html(records) + details};
}

}  // namespace phub::bench::report
