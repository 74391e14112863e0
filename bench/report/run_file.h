// One file of a run's folder, and what it turned out to be by its content.
//
// Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/fields.h"

namespace phub::bench::report {

struct RunFile {
  std::string name;
  std::int64_t written = 0;  // seconds since 1970, by the file system
  // The records by their kind (sections.h), in the order in which the file has them.
  std::vector<std::pair<std::string, Records>> parts;
  std::string svg;                    // the whole file, if it is a picture
  std::vector<std::string> left_out;  // what of it is not shown, and why; never silently nothing

  bool is_shown() const { return !parts.empty() || !svg.empty(); }
};

// A JSON object, an array of objects, an object a line, or an SVG picture; the name says nothing.
RunFile recognise(std::string name, const std::string& text);

}  // namespace phub::bench::report
