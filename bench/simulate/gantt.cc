#include "bench/simulate/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "bench/plots/svg.h"
#include "common/text/table.h"

namespace phub::bench::simulate {
namespace {

constexpr double kWidth = 1200.0;
constexpr double kLeft = 90.0;
constexpr double kTop = 64.0;
constexpr double kLane = 46.0;
constexpr double kBarHeight = 32.0;
constexpr double kRight = 20.0;
constexpr int kTicks = 8;

struct Kind {
  std::string_view name;
  const char* colour;
};
constexpr std::array<Kind, 7> kKinds = {{{"backward", "#4878a8"},
                                         {"exchange", "#d1703c"},
                                         {"reply", "#eebd9b"},
                                         {"update", "#8a6bb1"},
                                         {"forward", "#5a9e6f"},
                                         {"loss", "#7f7f7f"},
                                         {"input", "#b8a13a"}}};

void add_axis(double end, double scale, double bottom, std::string& svg) {
  const double step = plots::tick_step(end, kTicks);
  for (int i = 0; i * step <= end; ++i) {
    const double x = kLeft + i * step * scale;
    fmt::format_to(std::back_inserter(svg),
                   "<path d=\"M{0:.2f} {1}V{2}\" class=\"grid\"/>"
                   "<text x=\"{0:.2f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
                   x, kTop - 4, bottom, bottom + 16, human_time(i * step));
  }
}

// The kinds that the picture has.
void add_legend(const Iteration& iteration, double y, std::string& svg) {
  std::set<std::string_view> there;
  for (const Bar& bar : iteration.bars) there.insert(bar.kind);
  double x = kLeft;
  for (const Kind& kind : kKinds) {
    if (!there.contains(kind.name)) continue;
    fmt::format_to(std::back_inserter(svg),
                   "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
                   "<text x=\"{}\" y=\"{}\">{}</text>\n",
                   x, y, kind.colour, x + 17, y + 11, kind.name);
    x += 100;
  }
}

}  // namespace

std::string gantt_svg(const Iteration& iteration, const std::string& title) {
  constexpr std::array<const char*, 3> kLanes = {"input", "compute", "exchange"};
  const double end = iteration.seconds > 0 ? iteration.seconds : 1.0;
  const double scale = (kWidth - kLeft - kRight) / end;
  const double bottom = kTop + kLane * kLanes.size();
  std::string svg = fmt::format("<text class=\"title\" x=\"{}\" y=\"24\">{}</text>\n", kLeft,
                                plots::escaped(title));
  add_legend(iteration, 36, svg);
  add_axis(end, scale, bottom, svg);
  for (std::size_t lane = 0; lane < kLanes.size(); ++lane) {
    fmt::format_to(std::back_inserter(svg),
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 8,
                   kTop + kLane * static_cast<double>(lane) + kBarHeight / 2 + 4, kLanes[lane]);
  }
  for (const Bar& bar : iteration.bars) {
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const Kind& each) { return each.name == bar.kind; });
    fmt::format_to(std::back_inserter(svg),
                   "<rect x=\"{:.3f}\" y=\"{}\" width=\"{:.3f}\" height=\"{}\" fill=\"{}\" "
                   "class=\"edge\"><title>{} {}: at {}, {}</title></rect>\n",
                   kLeft + bar.start * scale,
                   kTop + kLane * static_cast<double>(static_cast<int>(bar.track)),
                   bar.seconds * scale, kBarHeight, kind->colour, bar.kind,
                   plots::escaped(bar.name), human_time(bar.start), human_time(bar.seconds));
  }
  return plots::document(kWidth, {std::move(svg), bottom + 28});
}

}  // namespace phub::bench::simulate
