#include "bench/report/report.h"

#include <memory>

#include "bench/cli/cli.h"

namespace phub::bench {

void add_report(CLI::App& app, Run& run) {
  auto options = std::make_shared<report::ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "a run's folder as one HTML page");
  command->footer(
      "Put what was written with --json into one folder: phub-bench exchange, bars, chunks, roof,\n"
      "aggregate, transport, tenants, rack run, simulate and dollars; phub-worker's profile,\n"
      "bench and train --metrics; phubctl trace; SVG pictures; lscpu --json for the processor.\n"
      "A file is known by its content, whatever its name. What is not known is named in the page\n"
      "and here, with why. The page is one file that asks the network for nothing.\n\n"
      "  mkdir run; lscpu --json > run/machine.json\n"
      "  phub-bench exchange --transport shm,tcp --workers 2,4,8 --json > run/exchange.json\n"
      "  phub-bench report run\n"
      "  phub-bench report run -o report.html");
  command->add_option("FOLDER", options->folder, "where a run's files lie")->required();
  command->add_option("-o,--output", options->output,
                      "the page; left out: report.html in the folder");
  command->add_flag("--json", options->json, "what is shown and what is not, as one JSON object");
  command->callback([options, &run] { run = [options] { return run_report(*options); }; });
}

}  // namespace phub::bench
