// The command line's options for how the CPU backend chooses its kernels, and what is printed of
// it.
//
// Functions of main's thread.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/kernel_choice.h"

namespace phub {

struct KernelArguments {
  std::string rule;   // empty: measured, where it can be remembered
  std::string cache;  // empty: kernels.jsonl in the user's cache
  bool print = false;
};

// --kernels, --kernel-cache.
void add_kernel_options(CLI::App& command, KernelArguments& arguments);
// --print-kernels.
void add_kernel_print(CLI::App& command, KernelArguments& arguments);

// Errors: kInvalidArgument where what is for the CPU backend would be ignored.
Status check_kernel_arguments(const KernelArguments& arguments, bool is_onednn);

// Choices go to `chosen`, if it is not null, which outlives the options; notes go to the standard
// error, and so does a line of progress if that is a terminal.
nn::KernelOptions kernel_options(const KernelArguments& arguments,
                                 std::vector<nn::KernelChoice>* chosen);

// An operation's choice in a line, and its alternatives' times below it.
std::string kernel_table(const std::vector<nn::KernelChoice>& choices);
nlohmann::ordered_json kernel_json(const std::vector<nn::KernelChoice>& choices);

}  // namespace phub
