// A set of encoded images on the command line: its path, and which of its splits.
//
// Functions of main's thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "worker/data/formats/progress.h"
#include "worker/data/formats/sample_set.h"

namespace phub {

struct SetChoice {
  std::string path;
  std::vector<std::string> splits = {"train", "test"};
};

// PATH and --split. The arguments outlive the parsing.
void add_set_options(CLI::App& command, SetChoice& choice);

std::vector<data::Split> splits_of(const SetChoice& choice);
// Draws a bar on standard error where that is a terminal, from 0 to 100 % of a pass. It stops the
// pass when the process is asked to end.
data::OnProgress progress_bar(const std::string& what);

}  // namespace phub
