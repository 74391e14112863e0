// Where a library that is opened at run time may be, and the first of these places that has it.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub::nn::cuda {

struct LibrarySearch {
  const char* file = nullptr;
  const char* in_wheels = nullptr;  // its folder below a Python environment's packages
  std::vector<std::filesystem::path> toolkits{};
  std::string missing{};  // what is said where it is nowhere
};

// Below the folders first (which hold a Python environment's packages, a toolkit, or the library
// itself), then as the dynamic linker searches, then in toolkits. `load` is called with a file and
// says whether it is the library. Errors: its kFailedPrecondition ends the search; else kNotFound
// lists what was tried.
template <typename Load>
Status load_first(const LibrarySearch& search, const std::vector<std::filesystem::path>& folders,
                  const Load& load) {
  std::vector<std::filesystem::path> files;
  for (const auto& folder : folders) {
    for (const char* below : {"", "lib", "lib64", search.in_wheels}) {
      files.push_back(folder / below / search.file);
    }
  }
  files.emplace_back(search.file);
  for (const auto& folder : search.toolkits) files.push_back(folder / search.file);
  std::string tried;
  for (const std::filesystem::path& file : files) {
    if (file.is_absolute() && !std::filesystem::exists(file)) {
      tried += "\n  " + file.string() + ": not there";
      continue;
    }
    const Status loaded = load(file);
    if (loaded.ok() || loaded.code() == Code::kFailedPrecondition) return loaded;
    tried += "\n  " + loaded.message();
  }
  return {Code::kNotFound, search.missing + " Tried:" + tried};
}

// A library's functions by name; remembers which are missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  struct Symbol {
    void* address;
    template <typename Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };
  // Null where it is missing.
  Symbol operator[](const char* name) {
    void* const address = library_ != nullptr ? dlsym(library_, name) : nullptr;
    if (address == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    return {address};
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace phub::nn::cuda
