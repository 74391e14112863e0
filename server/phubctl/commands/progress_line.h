// What is done now, on a terminal's last line; nothing where there is no terminal.
//
// One thread.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace phub::phubctl {

class ProgressLine {
 public:
  ProgressLine() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}
  // Leaves the line empty.
  ~ProgressLine() { show(""); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text) const {
    if (is_terminal_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }

 private:
  bool is_terminal_;
};

}  // namespace phub::phubctl
