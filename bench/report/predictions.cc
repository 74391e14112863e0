// What was computed and not measured: steps on many workers, throughput per dollar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "bench/report/sections.h"

namespace phub::bench::report {
namespace {

plots::NamedLine& line_of(std::vector<plots::NamedLine>& lines, const std::string& name) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const plots::NamedLine& line) { return line.name == name; });
  return found == lines.end() ? *lines.insert(lines.end(), {name, {}, false}) : *found;
}

void sort_by_x(std::vector<plots::NamedLine>& lines) {
  for (plots::NamedLine& line : lines) {
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const auto& a, const auto& b) { return a.x < b.x; });
  }
}

// All of these words that occur, "measured, predicted".
std::string words_of(const Records& records, const char* field) {
  std::set<std::string> words;
  for (const Record& record : records) words.insert(word_in(record, field));
  words.erase("");
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "; ") + word;
  return text;
}

// A picture for each policy: lines of the shapes over the workers, bars where all have as many.
std::string policies_html(const Records& records) {
  std::map<std::string, std::vector<plots::NamedLine>> policies;
  std::set<double> workers;
  for (const Record& record : records) {
    const auto x = number_in(record, "workers");
    const auto y = number_in(record, "seconds");
    if (!x || !y) continue;
    workers.insert(*x);
    line_of(policies[word_in(record, "policy")], word_in(record, "shape"))
        .points.push_back({*x, *y});
  }
  std::string figures;
  for (auto& [policy, lines] : policies) {
    const std::string caption = "An iteration (predicted), policy " + policy;
    if (workers.size() > 1) {
      sort_by_x(lines);
      for (plots::NamedLine& line : lines) line.has_dots = true;
      figures += figure(
          caption, plots::LinePlot{"workers", std::move(lines), {}, true, true, count_of, time_of});
      continue;
    }
    std::vector<plots::ValueBar> bars;
    for (const plots::NamedLine& line : lines) {
      for (const auto& point : line.points) {
        bars.push_back({line.name, point.y, time_of(point.y), {}, {}});
      }
    }
    figures += figure(fmt::format("{}, {} workers", caption, count_of(*workers.begin())), bars);
  }
  return figures;
}

Records with(const Records& records, const char* what) {
  Records found;
  for (const Record& record : records) {
    if (word_in(record, "what") == what) found.push_back(record);
  }
  return found;
}

std::string deployment_of(const Record& record) {
  return fmt::format("{} ({})", word_in(record, "deployment"), word_in(record, "throughput"));
}

std::string deployments_html(const Records& rows) {
  if (rows.empty()) return {};
  PageTable table(
      "deployment|throughput|bound by|>samples/s|>dollars|>watts|>samples/s per $1000|>against the "
      "first");
  std::vector<plots::ValueBar> bars;
  for (const Record& row : rows) {
    const auto ratio = number_in(row, "ratio_to_first");
    const std::string times = ratio ? fmt::format("{:.3f}x", *ratio) : kAbsent;
    table.add({word_in(row, "deployment"), word_in(row, "throughput"), word_in(row, "bound_by"),
               figure_in(row, "samples_per_second"), figure_in(row, "dollars"),
               figure_in(row, "watts"), figure_in(row, "per_1000_dollars"), times});
    const auto value = number_in(row, "per_1000_dollars");
    if (!value) continue;
    bars.push_back(
        {deployment_of(row), *value, fmt::format("{} ({})", figure_of(*value), times), {}, {}});
  }
  return note(fmt::format("Prices of {}: {}.", word_in(rows.front(), "prices_of"),
                          word_in(rows.front(), "prices_source"))) +
         table.to_html() + side_by_side(figure("Samples/s per $1000", bars));
}

bool has_whole_values(const plots::LinePlot& plot) {
  const auto is_whole = [](const plots::LinePoint& point) {
    return point.x == std::floor(point.x);
  };
  return std::all_of(plot.lines.begin(), plot.lines.end(), [&](const plots::NamedLine& line) {
    return std::all_of(line.points.begin(), line.points.end(), is_whole);
  });
}

// A picture for each axis, with where deployments break even with the first.
std::string curves_html(const Records& points, const Records& evens) {
  std::map<std::string, plots::LinePlot> axes;
  for (const Record& point : points) {
    const auto x = number_in(point, "value");
    const auto y = number_in(point, "per_1000_dollars");
    if (!x || !y) continue;
    plots::LinePlot& plot = axes[word_in(point, "axis")];
    line_of(plot.lines, deployment_of(point)).points.push_back({*x, *y});
  }
  for (const Record& even : evens) {
    const auto x = number_in(even, "value");
    const auto plot = axes.find(word_in(even, "axis"));
    if (!x || plot == axes.end()) continue;
    plot->second.marks.push_back(
        {*x, fmt::format("{} breaks even at {}, better {}", word_in(even, "deployment"),
                         figure_of(*x), is_true(even, "is_better_above") ? "above" : "below")});
  }
  std::string figures;
  for (auto& [axis, plot] : axes) {
    sort_by_x(plot.lines);
    plot.axis = axis;
    plot.is_logarithmic = true;
    plot.is_counted = has_whole_values(plot);
    plot.x_figure = plot.y_figure = figure_of;
    figures += figure("Samples/s per $1000 over " + axis, plot);
  }
  return side_by_side(figures);
}

std::string sensitivity_html(const Records& rows) {
  PageTable table(
      "what is off|>by a factor of|deployment|throughput|>against the first, least|>most");
  for (const Record& row : rows) {
    table.add({word_in(row, "axis"), figure_in(row, "factor"), word_in(row, "deployment"),
               word_in(row, "throughput"), figure_in(row, "ratio_low"),
               figure_in(row, "ratio_high")});
  }
  return rows.empty() ? "" : heading("If a price or the model were off") + table.to_html();
}

}  // namespace

Section simulate_section(const Records& records) {
  PageTable table(
      ">workers|>racks|shape|policy|>iteration|>exposed|>exchange|>messages|>efficiency|bound by|"
      ">images/s|>error against measured");
  for (const Record& record : records) {
    table.add({count_in(record, "workers"), count_in(record, "racks"), word_in(record, "shape"),
               word_in(record, "policy"), time_in(record, "seconds"),
               time_in(record, "exposed_seconds"), time_in(record, "exchange_seconds"),
               count_in(record, "messages"), share_in(record, "efficiency"),
               word_in(record, "bound"), figure_in(record, "images_per_second"),
               share_in(record, "error")});
  }
  return {"Iterations on many workers", words_of(records, "kind"),
          side_by_side(policies_html(records)) + table.to_html()};
}

Section dollars_section(const Records& records) {
  return {"Throughput per dollar", words_of(records, "throughput"),
          deployments_html(with(records, "deployment")) +
              curves_html(with(records, "curve"), with(records, "break_even")) +
              sensitivity_html(with(records, "sensitivity"))};
}

}  // namespace phub::bench::report
