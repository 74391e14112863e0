#include "bench/report/report.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/report/sections.h"
#include "common/base/version.h"
#include "common/base/visible.h"
#include "common/base/whole_file.h"
#include "common/text/table.h"

namespace phub::bench::report {
namespace {

constexpr std::uint64_t kMostBytes = 64ULL << 20;

std::string date_of(std::int64_t seconds) {
  const std::time_t when = seconds;
  std::tm parts{};
  char text[64];
  if (::gmtime_r(&when, &parts) == nullptr) return "at a time that is none";
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return std::string(text, length);
}

RunFile left_out(std::string name, std::string why) {
  RunFile file;
  file.name = std::move(name);
  file.left_out.push_back(std::move(why));
  return file;
}

RunFile read_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return left_out(name, "is not there (a link to nothing?)");
  if (S_ISDIR(found.st_mode)) return left_out(name, "is a folder; give it a report of its own");
  if (!S_ISREG(found.st_mode)) return left_out(name, "is no file but a FIFO, a socket or a device");
  if (static_cast<std::uint64_t>(found.st_size) > kMostBytes) {
    return left_out(name, fmt::format("has {}; at most {} are read",
                                      human_bytes(static_cast<std::uint64_t>(found.st_size)),
                                      human_bytes(kMostBytes)));
  }
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  if (!stream) return left_out(name, "cannot be read; may you read it?");
  RunFile file = recognise(name, text);
  file.written = found.st_mtime;
  return file;
}

// The name on one line.
std::string shown_name(const std::string& name) {
  std::string shown = visible(name);
  std::replace(shown.begin(), shown.end(), '\n', '?');
  std::replace(shown.begin(), shown.end(), '\t', '?');
  return shown;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "; ") + word;
  return text;
}

std::string content_of(const RunFile& file) {
  std::vector<std::string> words;
  if (!file.svg.empty()) words.emplace_back("picture");
  for (const auto& [kind, records] : file.parts) {
    words.push_back(records.size() > 1 ? fmt::format("{} ({})", kind, records.size()) : kind);
  }
  return joined(words);
}

std::string when(const std::vector<RunFile>& files) {
  std::vector<std::int64_t> times;
  for (const RunFile& file : files) {
    if (file.is_shown()) times.push_back(file.written);
  }
  if (times.empty()) return kAbsent;
  const auto [first, last] = std::minmax_element(times.begin(), times.end());
  const std::string from = date_of(*first);
  const std::string to = date_of(*last);
  return from == to ? from : from + " to " + to;
}

std::string processors(const std::vector<RunFile>& files) {
  std::vector<std::string> names;
  for (const RunFile& file : files) {
    for (const auto& [kind, records] : file.parts) {
      if (kind != "machine") continue;
      for (const Record& machine : records) names.push_back(processor_of(machine));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names.empty()
             ? "not in the folder; lscpu --json > FOLDER/machine.json where it ran puts it there"
             : joined(names);
}

Section files_section(const std::vector<RunFile>& files) {
  PageTable shown("file|what it has|written");
  PageTable not_shown("file|not shown, because it");
  for (const RunFile& file : files) {
    const std::string name = shown_name(file.name);
    if (file.is_shown()) shown.add({name, content_of(file), date_of(file.written)});
    for (const std::string& why : file.left_out) not_shown.add({name, why});
  }
  return {"Files",
          {},
          not_shown.to_html(PageTable::Length::kWhole) + shown.to_html(PageTable::Length::kWhole)};
}

std::vector<Section> sections_of(const std::vector<RunFile>& files) {
  std::vector<Section> sections;
  for (const RunFile& file : files) {
    const std::string from = shown_name(file.name);
    const std::string written = date_of(file.written);
    for (const auto& [kind, records] : file.parts) {
      Section section = section_maker(kind)(records);
      section.file = from;
      section.written = written;
      sections.push_back(std::move(section));
    }
    if (!file.svg.empty()) {
      sections.push_back({"Picture", {}, embedded_svg(from, file.svg), from, written});
    }
  }
  sections.push_back(files_section(files));
  return sections;
}

Status write_page(const std::string& path, const std::string& page) {
  PHUB_ASSIGN_OR_RETURN(const UniqueFd reader, reader_of(path));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << page;
  file.close();
  return file ? Status() : errno_status(path + ": cannot be written");
}

void say(const std::string& path, const std::vector<RunFile>& files, bool json) {
  nlohmann::ordered_json object = {{"report", visible(path)},
                                   {"shown", nlohmann::json::array()},
                                   {"not_shown", nlohmann::json::array()}};
  std::string text;
  std::size_t shown = 0;
  for (const RunFile& file : files) {
    const std::string name = shown_name(file.name);
    if (file.is_shown()) {
      ++shown;
      object["shown"].push_back({{"file", name}, {"has", content_of(file)}});
    }
    for (const std::string& why : file.left_out) {
      object["not_shown"].push_back({{"file", name}, {"why", visible(why)}});
      text += fmt::format("not shown: {}: {}\n", name, visible(why));
    }
  }
  if (json) {
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{}: {} of {} files\n{}", visible(path), shown, files.size(), text);
  }
}

}  // namespace

Result<std::vector<RunFile>> read_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(folder, error);
  if (!std::filesystem::exists(status)) {
    return Status(Code::kNotFound, folder + ": no such folder");
  }
  if (!std::filesystem::is_directory(status)) {
    return Status(Code::kInvalidArgument,
                  folder + " is no folder; give the folder in which a run's files lie");
  }
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error) return Status(Code::kInvalidArgument, folder + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<RunFile> files;
  for (const std::filesystem::path& path : paths) files.push_back(read_file(path));
  return files;
}

std::string html_of(const std::string& title, const std::vector<RunFile>& files) {
  std::size_t shown = 0;
  std::size_t reasons = 0;
  for (const RunFile& file : files) {
    if (file.is_shown()) ++shown;
    reasons += file.left_out.size();
  }
  std::string count = fmt::format("{} of {} shown", shown, files.size());
  if (reasons > 0) count += "; the end says what is not, and why";
  return page_of(
      title, {{"Files written", when(files)}, {"Processor", processors(files)}, {"Files", count}},
      sections_of(files), "Made by " + version_of("phub-bench"));
}

Status run_report(const ReportOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<RunFile> files, read_folder(options.folder));
  const bool has_any =
      std::any_of(files.begin(), files.end(), [](const RunFile& file) { return file.is_shown(); });
  if (!has_any) {
    std::string why = "is empty";
    if (!files.empty()) {
      why = fmt::format("has nothing to show ({}: {})", shown_name(files.front().name),
                        joined(files.front().left_out));
    }
    return {Code::kInvalidArgument,
            fmt::format("{} {}; put results there, as with: phub-bench exchange --json > "
                        "FOLDER/exchange.json",
                        options.folder, why)};
  }
  const std::filesystem::path folder(options.folder);
  const std::string path =
      options.output.empty() ? (folder / "report.html").string() : options.output;
  const std::string name = std::filesystem::weakly_canonical(folder).filename().string();
  PHUB_RETURN_IF_ERROR(write_page(path, html_of("Report of " + shown_name(name), files)));
  say(path, files, options.json);
  return {};
}

}  // namespace phub::bench::report
