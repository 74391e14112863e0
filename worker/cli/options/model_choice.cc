#include "worker/cli/options/model_choice.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <vector>

#include "common/config/model_names.h"
#include "worker/nn/models/models.h"

namespace phub {
namespace {

Status wrong(const std::string& text) { return {Code::kInvalidArgument, text}; }

// "HxW" or "HxWxC".
Result<nn::Shape> parse_image(const std::string& text) {
  const Status bad =
      wrong("--image " + text + " is not HxW or HxWxC, such as 224x224 or 28x28x1, from 1 to " +
            std::to_string(kPixelsMax));
  std::vector<std::uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::uint32_t number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc() || number == 0 || number > kPixelsMax) return bad;
    numbers.push_back(number);
    at = parsed.ptr;
    if (at == end) break;
    if (*at++ != 'x') return bad;
  }
  if (numbers.size() < 2 || numbers.size() > 3) return bad;
  return nn::Shape{numbers.size() == 3 ? numbers[2] : 3, numbers[0], numbers[1]};
}

bool looks_like_a_file(const std::string& what) {
  return what.find('/') != std::string::npos || what.ends_with(".textproto") ||
         std::filesystem::exists(what);
}

}  // namespace

void add_model_choice(CLI::App& command, ModelChoice& choice) {
  command.add_option("NAME|FILE", choice.what, "A built-in model, or a network description")
      ->type_name("");
  command
      .add_option("--image", choice.image,
                  "Other images than the paper's; 3 channels if C is left out")
      ->type_name("HxW[xC]");
  command.add_option("--classes", choice.classes, "Other than the paper's number of classes")
      ->type_name("N")
      ->check(CLI::Range(1U, 1'000'000U));
  command.add_flag("--zero-gamma", choice.zero_gamma,
                   "The last normalisation of each residual block starts at 0");
}

bool is_model(std::string_view name) {
  return std::find(std::begin(kModelNames), std::end(kModelNames), name) != std::end(kModelNames);
}

Result<nn::Description> find_network(const ModelChoice& choice) {
  if (!is_model(choice.what) && looks_like_a_file(choice.what)) {
    if (choice.classes || !choice.image.empty() || choice.zero_gamma) {
      return wrong("--classes, --image and --zero-gamma are for built-in models; " + choice.what +
                   " says all of it itself");
    }
    return nn::load_network(choice.what);
  }
  nn::ModelOptions options{.classes = choice.classes.value_or(0), .zero_gamma = choice.zero_gamma};
  if (!choice.image.empty()) {
    PHUB_ASSIGN_OR_RETURN(options.image, parse_image(choice.image));
  }
  auto graph = nn::make_model(choice.what, options);
  if (!graph && !is_model(choice.what)) {
    return wrong(graph.error().message() + "; or give a .textproto file");
  }
  if (!graph) return graph.error();
  return nn::Description{choice.what, std::move(*graph)};
}

}  // namespace phub
