// Lines, columns and numbers of a text, and errors that say where they are.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace phub::bench::simulate {

struct Field {
  std::string_view text;
  std::size_t column = 0;  // from 1
};

struct Line {
  std::string_view text;
  std::size_t number = 0;  // from 1
};

// Every line that says something; '#' begins a comment.
std::vector<Line> lines_of(std::string_view text);

// The columns of a text that itself begins at `column`: at commas or tabs where there are some,
// else at runs of blanks.
std::vector<Field> fields_of(std::string_view text, std::size_t column);

// A number that is finite and not negative.
std::optional<double> number_of(std::string_view text);

// Anything that is written as a number: negative, too large, or nan as well.
bool is_numeric(std::string_view text);

// kInvalidArgument, FILE:LINE:COLUMN: what.
Status error_at(const std::string& file, std::size_t line, std::size_t column,
                const std::string& what);

// The same of a field that is no such number, or one above `most`; `what` names it.
Result<double> number_at(const std::string& file, std::size_t line, const Field& field,
                         const char* what, double most);

}  // namespace phub::bench::simulate
