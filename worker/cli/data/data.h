// The sub-commands of `phub-worker data`. Called by data.cc.
#pragma once

#include "worker/cli/commands.h"

namespace phub {

// Writes a set of encoded images as one file for each split.
Command add_data_pack_command(CLI::App& data);
// Reads every sample of a set, and names the damaged ones.
Command add_data_check_command(CLI::App& data);
// Draws what a network sees of the images, and counts the classes.
Command add_data_show_command(CLI::App& data);
// How fast images are read, decoded and made to batches.
Command add_data_bench_command(CLI::App& data);

}  // namespace phub
