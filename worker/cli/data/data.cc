#include "worker/cli/data/data.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace phub {
namespace {

constexpr const char* kDataExamples = R"(
Examples:
  A folder of JPEGs, in folders named after their classes, as one file for each split:
    phub-worker data pack pictures packed
  Which images are damaged, and how many there are of each class:
    phub-worker data check packed
  What the network of a training sees, as a picture:
    phub-worker data show train.textproto --out sheet.png
  Whether input or compute will be the bound (compare with `phub-worker bench`):
    phub-worker data bench train.textproto

The help of each command has more.)";

}  // namespace

Command add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Look at, check, pack and measure data sets");
  data->require_subcommand(1);
  data->footer(kDataExamples);
  const auto commands = std::make_shared<std::vector<Command>>(
      std::vector<Command>{add_data_pack_command(*data), add_data_check_command(*data),
                           add_data_show_command(*data), add_data_bench_command(*data)});
  return {data, [commands] {
            return std::find_if(commands->begin(), commands->end(),
                                [](const Command& each) { return each.app->parsed(); })
                ->run();
          }};
}

}  // namespace phub
