// The two public layouts of layer traces; README.md describes them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "bench/base/statistics.h"
#include "bench/simulate/columns.h"
#include "bench/simulate/trace.h"

namespace phub::bench::simulate {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kElementBytes = 4.0;
constexpr double kMostMicroseconds = kMostSeconds / kMicrosecond;

// A layer, or a blob of one, in one iteration; times in microseconds.
struct Row {
  std::size_t line = 0;
  double id = 0.0;
  std::string name;
  double forward = 0.0;
  double backward = 0.0;
  double comm = 0.0;
  double bytes = 0.0;
};

using Rows = std::vector<Row>;

// Where a row of blobs begins, behind whatever the log writes in front: the "[" of several numbers
// with commas, to "]" or to where the line was cut. A time or an index in brackets is none.
std::size_t bracket_of(std::string_view line) {
  for (std::size_t at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
    const bool is_index = at > 0 && std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0;
    const std::size_t close = std::min(line.find(']', at), line.size());
    const auto fields = fields_of(line.substr(at + 1, close - at - 1), at + 2);
    const bool is_row = !is_index && fields.size() > 1 &&
                        line.substr(at, close - at).find(',') != std::string_view::npos &&
                        std::all_of(fields.begin(), fields.end(),
                                    [](const Field& field) { return is_numeric(field.text); });
    if (is_row) return at;
  }
  return std::string_view::npos;
}

Result<Rows> blob_rows(const std::vector<Line>& lines, const std::string& file) {
  constexpr std::array<const char*, 5> kNames = {"param_id", "elements", "backward_us", "comm_us",
                                                 "merged_comm_us"};
  constexpr std::array<double, 5> kMost = {kMostCount, kMostLayerBytes / kElementBytes,
                                           kMostMicroseconds, kMostMicroseconds, kMostMicroseconds};
  constexpr std::size_t kFewestColumns = 4;  // merged_comm_us is in newer logs
  Rows rows;
  std::size_t columns = 0;  // of the first row, so of all
  for (const Line& line : lines) {
    const std::size_t open = bracket_of(line.text);
    if (open == std::string_view::npos) continue;  // the log's other lines
    const std::size_t close = line.text.find(']', open);
    if (close == std::string_view::npos) {
      return error_at(file, line.number, open + 1, "'[' without ']'; was the line cut?");
    }
    const auto fields = fields_of(line.text.substr(open + 1, close - open - 1), open + 2);
    if (rows.empty()) columns = fields.size();
    if (fields.size() != columns || columns < kFewestColumns || columns > kNames.size()) {
      return error_at(file, line.number, open + 1,
                      fmt::format("{} columns; [param_id, elements, backward_us, comm_us] or these "
                                  "and merged_comm_us are wanted, the same in every row",
                                  fields.size()));
    }
    std::array<double, kNames.size()> values{};
    for (std::size_t i = 0; i < columns; ++i) {
      PHUB_ASSIGN_OR_RETURN(values[i],
                            number_at(file, line.number, fields[i], kNames[i], kMost[i]));
    }
    rows.push_back({.line = line.number,
                    .id = values[0],
                    .name = fmt::format("param{}", values[0]),
                    .backward = values[2],
                    .comm = values[3],
                    .bytes = kElementBytes * values[1]});
  }
  return rows;
}

std::string lower(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

// The columns of a table of layers, in the order of a file without a header.
constexpr std::array<const char*, 6> kColumns = {"id",       "name", "forward",
                                                 "backward", "comm", "size"};
constexpr std::array<double, kColumns.size()> kColumnMost = {
    kMostCount, 0.0, kMostMicroseconds, kMostMicroseconds, kMostMicroseconds, kMostLayerBytes};

struct Header {
  std::array<std::size_t, kColumns.size()> at = {0, 1, 2, 3, 4, 5};
  std::size_t columns = kColumns.size();
};

// "Forward(us)" is the column forward, as is "Forward (us)".
Result<Header> header_of(const Line& line, const std::vector<Field>& fields,
                         const std::string& file) {
  Header header{.at = {}, .columns = fields.size()};
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) {
      return lower(field.text.substr(0, field.text.find_first_of("(. "))) == kColumns[i];
    });
    if (found == fields.end()) {
      return error_at(file, line.number, 1,
                      fmt::format("no column '{}'; Id, Name, Forward, Backward, Comm, Size are "
                                  "wanted",
                                  kColumns[i]));
    }
    header.at[i] = static_cast<std::size_t>(found - fields.begin());
    const std::size_t unit = found->text.find('(');
    const bool is_ours = unit == std::string_view::npos || found->text.substr(unit) == "(us)" ||
                         found->text.substr(unit) == "(bytes)";
    if (!is_ours) {
      return error_at(file, line.number, found->column,
                      fmt::format("'{}': times are wanted in us, sizes in bytes", found->text));
    }
  }
  return header;
}

Result<Rows> table_rows(const std::vector<Line>& lines, const std::string& file) {
  Rows rows;
  Header header;
  for (const Line& line : lines) {
    auto fields = fields_of(line.text, 1);
    if (rows.empty() && !number_of(fields.front().text)) {
      std::erase_if(fields, [](const Field& field) {  // behind a blank
        return field.text == "(us)" || field.text == "(bytes)";
      });
      PHUB_ASSIGN_OR_RETURN(header, header_of(line, fields, file));
      continue;
    }
    if (fields.size() != header.columns) {
      return error_at(file, line.number, 1,
                      fmt::format("{} columns; {} are wanted: Id, Name, Forward, Backward, Comm, "
                                  "Size",
                                  fields.size(), header.columns));
    }
    std::array<double, kColumns.size()> values{};
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      if (i == 1) continue;
      PHUB_ASSIGN_OR_RETURN(values[i], number_at(file, line.number, fields[header.at[i]],
                                                 kColumns[i], kColumnMost[i]));
    }
    rows.push_back({.line = line.number,
                    .id = values[0],
                    .name = std::string(fields[header.at[1]].text),
                    .forward = values[2],
                    .backward = values[3],
                    .comm = values[4],
                    .bytes = values[5]});
  }
  return rows;
}

// Cut where ids begin again. The last one is left out if the log ended in it.
Result<std::vector<Rows>> iterations_of(const Rows& rows, const std::string& file) {
  std::vector<Rows> iterations;
  for (const Row& row : rows) {
    if (iterations.empty() || row.id <= iterations.back().back().id) iterations.emplace_back();
    iterations.back().push_back(row);
  }
  const std::size_t count = iterations.front().size();
  if (iterations.size() > 1 && iterations.back().size() < count) iterations.pop_back();
  for (const Rows& iteration : iterations) {
    for (std::size_t i = 0; i < std::min(count, iteration.size()); ++i) {
      const Row& first = iterations.front()[i];
      const Row& row = iteration[i];
      if (row.id != first.id || row.bytes != first.bytes) {
        return error_at(file, row.line, 1,
                        fmt::format("id {} of {} bytes, but id {} of {} bytes in line {}: every "
                                    "iteration has the same rows",
                                    row.id, row.bytes, first.id, first.bytes, first.line));
      }
    }
    if (iteration.size() != count) {
      return error_at(file, iteration.back().line, 1,
                      fmt::format("an iteration of {} rows, where the first one has {}",
                                  iteration.size(), count));
    }
  }
  return iterations;
}

// A log may begin with an iteration that was not timed yet.
bool is_untimed(const Rows& iteration) {
  return std::all_of(iteration.begin(), iteration.end(), [](const Row& row) {
    return row.forward == 0.0 && row.backward == 0.0 && row.comm == 0.0;
  });
}

double median_of(const std::vector<Rows>& iterations, std::size_t row, double Row::*member) {
  std::vector<double> values;
  for (const Rows& iteration : iterations) values.push_back(iteration[row].*member);
  return kMicrosecond * median(values);
}

}  // namespace

Result<LayerTrace> parse_text_trace(std::string_view text, const std::string& name) {
  const std::vector<Line> lines = lines_of(text);
  const bool is_blobs = std::any_of(lines.begin(), lines.end(), [](const Line& line) {
    return bracket_of(line.text) != std::string_view::npos;
  });
  PHUB_ASSIGN_OR_RETURN(const Rows rows,
                        is_blobs ? blob_rows(lines, name) : table_rows(lines, name));
  if (rows.empty()) return Status(Code::kInvalidArgument, name + ": no row of a layer");
  PHUB_ASSIGN_OR_RETURN(std::vector<Rows> iterations, iterations_of(rows, name));
  if (iterations.size() > 1 && is_untimed(iterations.front())) iterations.erase(iterations.begin());
  LayerTrace trace;
  trace.name = name;
  trace.iterations = iterations.size();
  trace.has_forward = !is_blobs;
  for (std::size_t i = 0; i < iterations.front().size(); ++i) {
    const Row& row = iterations.front()[i];
    TraceLayer layer{.name = row.name,
                     .forward = median_of(iterations, i, &Row::forward),
                     .backward = median_of(iterations, i, &Row::backward),
                     .comm = median_of(iterations, i, &Row::comm),
                     .bytes = row.bytes};
    trace.has_comm = trace.has_comm || layer.comm > 0.0;
    // The blobs of one layer (weight, bias) have its one backward time.
    if (is_blobs && !trace.layers.empty() && trace.layers.back().backward == layer.backward) {
      trace.layers.back().bytes += layer.bytes;
      trace.layers.back().comm += layer.comm;
    } else if (!is_blobs && i == 0 && lower(row.name) == "data") {
      trace.input = layer.forward + layer.backward;
    } else {
      trace.layers.push_back(std::move(layer));
    }
  }
  return trace;
}

}  // namespace phub::bench::simulate
