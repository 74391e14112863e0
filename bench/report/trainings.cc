// What workers say of themselves: metrics of a training, a step's parts, layers' times.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/report/sections.h"
#include "common/text/table.h"

namespace phub::bench::report {
namespace {

constexpr std::size_t kMostPoints = 200;  // of a line
constexpr std::size_t kMostLayers = 12;   // of a picture

// One start of a worker, with what came after it.
struct TrainingRun {
  std::string name;
  std::vector<plots::LinePoint> losses;
  std::vector<plots::LinePoint> accuracies;
  std::vector<plots::LinePoint> rates;
};

std::string name_of_run(const Record& start) {
  return fmt::format("{}, {}, worker {} of {}, batch {}", word_in(start, "model"),
                     word_in(start, "transport"), count_in(start, "worker"),
                     count_in(start, "workers"), count_in(start, "batch"));
}

void add_point(const Record& record, const char* x, const char* y,
               std::vector<plots::LinePoint>& points) {
  const auto at = number_in(record, x);
  const auto value = number_in(record, y);
  if (at && value) points.push_back({*at, *value});
}

std::vector<TrainingRun> runs_of(const Records& records) {
  std::vector<TrainingRun> runs(1);
  for (const Record& record : records) {
    const std::string event = word_in(record, "event");
    if (event == "start") {
      if (!runs.back().name.empty() || !runs.back().losses.empty()) runs.emplace_back();
      runs.back().name = name_of_run(record);
    } else if (event == "step") {
      add_point(record, "step", "loss", runs.back().losses);
    } else if (event == "epoch") {
      add_point(record, "epoch", "test_accuracy", runs.back().accuracies);
      add_point(record, "epoch", "images_per_second", runs.back().rates);
    }
  }
  return runs;
}

// Means of neighbours, so that a line has at most kMostPoints points.
std::vector<plots::LinePoint> thinned(const std::vector<plots::LinePoint>& points) {
  const std::size_t each = (points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<plots::LinePoint> means;
  for (std::size_t i = 0; i < points.size(); i += each) {
    const std::size_t count = std::min(each, points.size() - i);
    plots::LinePoint mean;
    for (std::size_t j = i; j < i + count; ++j) {
      mean.x += points[j].x / static_cast<double>(count);
      mean.y += points[j].y / static_cast<double>(count);
    }
    means.push_back(mean);
  }
  return means;
}

std::string run_figure(const std::string& caption, const std::vector<TrainingRun>& runs,
                       std::vector<plots::LinePoint> TrainingRun::*points, const char* axis) {
  plots::LinePlot plot;
  plot.axis = axis;
  plot.is_counted = true;
  plot.x_figure = count_of;
  plot.y_figure = figure_of;
  bool is_thinned = false;
  for (const TrainingRun& run : runs) {
    is_thinned = is_thinned || (run.*points).size() > kMostPoints;
    plot.lines.push_back({run.name, thinned(run.*points), false});
  }
  return figure(caption + (is_thinned ? " (each point the mean of some)" : ""), plot);
}

double number_or_0(const Record& record, const char* field) {
  return number_in(record, field).value_or(0.0);
}

void keep_largest(std::vector<plots::ValueBar>& bars) {
  std::stable_sort(bars.begin(), bars.end(),
                   [](const auto& a, const auto& b) { return a.value > b.value; });
  if (bars.size() > kMostLayers) bars.resize(kMostLayers);
}

std::string memory_figure(const Record& profile) {
  const auto memory = profile.find("memory_bytes");
  std::vector<plots::ValueBar> bars;
  if (memory == profile.end() || !memory->is_object()) return {};
  for (const auto& [part, unused] : memory->items()) {
    const double bytes = number_or_0(*memory, part.c_str());
    bars.push_back({part, bytes, bytes_in(*memory, part.c_str()), {}, {}});
  }
  return figure("Memory", bars);
}

std::string layers_html(const Record& profile) {
  PageTable table("layer|kind|>forward|>backward|>push|>wait|>of the step|>GFLOP/s|>keys");
  std::vector<plots::ValueBar> bars;
  const double step = number_or_0(profile, "step_seconds");
  for (const Record& layer : profile.at("layers")) {
    if (!layer.is_object()) continue;
    const double compute =
        number_or_0(layer, "forward_seconds") + number_or_0(layer, "backward_seconds");
    const double all =
        compute + number_or_0(layer, "push_seconds") + number_or_0(layer, "wait_seconds");
    const double flops = number_or_0(layer, "forward_flops") + number_or_0(layer, "backward_flops");
    double bytes = 0.0;
    for (const double key : numbers_in(layer, "key_bytes")) bytes += std::max(key, 0.0);
    table.add({word_in(layer, "name"), word_in(layer, "kind"), time_in(layer, "forward_seconds"),
               time_in(layer, "backward_seconds"), time_in(layer, "push_seconds"),
               time_in(layer, "wait_seconds"), step > 0.0 ? human_share(all / step) : kAbsent,
               compute > 0.0 ? figure_of(1e-9 * flops / compute) : kAbsent,
               bytes <= kMostNumber ? human_bytes(static_cast<std::uint64_t>(bytes)) : kAbsent});
    bars.push_back({word_in(layer, "name"), all, time_of(all), {}, {}});
  }
  keep_largest(bars);
  return side_by_side(figure("The longest layers: forward, backward, push and wait", bars) +
                      memory_figure(profile)) +
         table.to_html();
}

}  // namespace

Section training_section(const Records& records) {
  const std::vector<TrainingRun> runs = runs_of(records);
  std::string html;
  for (const TrainingRun& run : runs) html += note(run.name);
  PageTable table(
      ">epoch|>steps|>loss|>train accuracy|>test accuracy|>seconds|>of it exchange|>images/s");
  for (const Record& record : records) {
    if (word_in(record, "event") != "epoch") continue;
    const double seconds = number_or_0(record, "seconds");
    table.add(
        {count_in(record, "epoch"), count_in(record, "steps"), figure_in(record, "loss"),
         share_in(record, "train_accuracy"), share_in(record, "test_accuracy"),
         time_in(record, "seconds"),
         seconds > 0.0 ? human_share(number_or_0(record, "exchange_seconds") / seconds) : kAbsent,
         figure_in(record, "images_per_second")});
  }
  const std::string figures =
      run_figure("Loss", runs, &TrainingRun::losses, "step") +
      run_figure("Test accuracy", runs, &TrainingRun::accuracies, "epoch") +
      run_figure("Images a second of this worker", runs, &TrainingRun::rates, "epoch");
  return {"Training", "measured", html + table.to_html() + side_by_side(figures)};
}

Section profile_section(const Records& records) {
  std::string html;
  for (const Record& record : records) {
    const auto inner = record.find("phub_profile");
    const Record& profile = inner != record.end() ? *inner : record;
    html += note(
        fmt::format("{} on {}, {}, batch {}, {}, {}; {}, exchange {}. A step takes {}: "
                    "{} images/s, {} of the peak ({}).",
                    word_in(profile, "model"), word_in(profile, "backend"),
                    word_in(profile, "compute_type"), count_in(profile, "batch"),
                    counted_in(profile, "threads", "thread"), counted_in(profile, "steps", "step"),
                    counted_in(profile, "workers", "worker"), word_in(profile, "transport"),
                    time_in(profile, "step_seconds"), figure_in(profile, "images_per_second"),
                    share_in(profile, "utilisation"), word_in(profile, "peak")));
    html += layers_html(profile);
  }
  return {"Layers of a step", "measured", html};
}

Section device_steps_section(const Records& records) {
  std::string html;
  for (const Record& profile : records) {
    html += note(fmt::format(
        "{}, {}, batch {}, {} passes: forward {}, backward {}.", word_in(profile, "model"),
        word_in(profile, "compute_type"), count_in(profile, "batch"), count_in(profile, "passes"),
        time_in(profile, "forward_seconds"), time_in(profile, "backward_seconds")));
    PageTable table("step|pass|>time|>bytes|>flops|>of the roof");
    std::vector<plots::ValueBar> bars;
    for (const Record& step : profile.at("steps")) {
      if (!step.is_object()) continue;
      table.add({word_in(step, "name"), word_in(step, "pass"), time_in(step, "seconds"),
                 bytes_in(step, "bytes"), count_in(step, "flops"), share_in(step, "roof")});
      const double seconds = number_or_0(step, "seconds");
      bars.push_back({word_in(step, "name") + ", " + word_in(step, "pass"),
                      seconds,
                      time_of(seconds),
                      {},
                      {}});
    }
    keep_largest(bars);
    html += side_by_side(figure("The longest steps", bars)) + table.to_html();
  }
  return {"Steps of a device", "measured", html};
}

Section step_section(const Records& records) {
  PageTable table("model|backend|type|>batch|>threads|part|>median|>least|>most|>images/s");
  std::string figures;
  for (const Record& record : records) {
    std::vector<plots::ValueBar> bars;
    for (const std::string part : {"forward", "loss", "backward", "update", "step"}) {
      const auto times = record.find(part + "_seconds");
      if (times == record.end() || !times->is_object()) continue;
      table.add({word_in(record, "model"), word_in(record, "backend"),
                 word_in(record, "compute_type"), count_in(record, "batch"),
                 count_in(record, "threads"), part, time_in(*times, "median"),
                 time_in(*times, "min"), time_in(*times, "max"),
                 part == "step" ? figure_in(record, "images_per_second") : ""});
      const double middle = number_or_0(*times, "median");
      bars.push_back({part, middle, time_of(middle), {}, {}});
      const auto low = number_in(*times, "min");
      const auto high = number_in(*times, "max");
      if (low && high) bars.back().range = {*low, *high};
    }
    figures +=
        figure(fmt::format("{}, {}, batch {}, {}: median [least .. most]", word_in(record, "model"),
                           word_in(record, "compute_type"), count_in(record, "batch"),
                           counted_in(record, "threads", "thread")),
               bars);
  }
  return {"A worker's step", "measured", table.to_html() + side_by_side(figures)};
}

}  // namespace phub::bench::report
