// `phub-worker model`: looks at networks. Called by main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace phub {

struct ModelArguments {
  std::string what;  // a model's name or a description's file
  bool list = false, json = false, textproto = false, segments = false, zero_gamma = false;
  std::uint32_t batch = 1;
  std::optional<std::uint32_t> classes;
  std::string image;  // "HxW" or "HxWxC"
  std::string wire_type = "fp32";
  std::uint32_t chunk_kib = 32;
};

// The sub-command's options.
CLI::App* add_model_command(CLI::App& app, ModelArguments& arguments);

// Prints what was asked for; returns the process' exit status.
int model_command(const ModelArguments& arguments);

}  // namespace phub
