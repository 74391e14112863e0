// `phub-bench report`: a run's folder as one HTML page.
//
// Main thread. It starts nothing and measures nothing.
#pragma once

#include <string>
#include <vector>

#include "bench/report/run_file.h"
#include "common/base/status.h"

namespace phub::bench::report {

struct ReportOptions {
  std::string folder;
  std::string output;  // empty: report.html in the folder
  bool json = false;   // of what was shown and what was not
};

// The files of the folder by their names, each read whole; folders, devices and files above 64 MiB
// are there with a reason why they are left out. Errors: kNotFound; kInvalidArgument when it is no
// folder.
Result<std::vector<RunFile>> read_folder(const std::string& folder);

// The page. `title` is what the run is called.
std::string html_of(const std::string& title, const std::vector<RunFile>& files);

// Writes the page, and says what is in it. Errors: those of read_folder; kInvalidArgument when no
// file can be shown; kInternal when the page cannot be written.
Status run_report(const ReportOptions& options);

}  // namespace phub::bench::report
