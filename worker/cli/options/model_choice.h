// Which network a command line means: a built-in model, maybe changed, or a description's file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/graph/description.h"

namespace phub {

struct ModelChoice {
  std::string what;  // a model's name or a description's file
  std::optional<std::uint32_t> classes;
  std::string image;  // "HxW" or "HxWxC"
  bool zero_gamma = false;
};

// NAME|FILE, --image, --classes and --zero-gamma.
void add_model_choice(CLI::App& command, ModelChoice& choice);

// Whether there is a built-in model of that name.
bool is_model(std::string_view name);

// Errors: kInvalidArgument names the option, or the file, its field and the cure.
Result<nn::Description> find_network(const ModelChoice& choice);

}  // namespace phub
