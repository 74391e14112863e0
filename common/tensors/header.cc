#include "common/tensors/header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

namespace phub {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kHeaderAlignment = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kFloat = "F32";
constexpr const char* kCounter = "I64";

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status lost(std::string what) { return {Code::kDataLoss, std::move(what)}; }

// What a header says of one tensor, as it says it.
struct Draft {
  std::string name;
  std::optional<std::string> dtype = {};
  std::optional<std::vector<std::uint64_t>> shape = {};
  std::optional<std::vector<std::uint64_t>> offsets = {};
  bool is_shape_numbers = true;
  bool are_offsets_numbers = true;
};

Status check_shape(const std::vector<std::uint64_t>& shape, std::uint64_t bytes,
                   std::uint64_t element_bytes) {
  const std::uint64_t elements = bytes / element_bytes;
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) {
    if (size != 0 && product > elements / size) return lost("shape is larger than the data");
    product *= size;
  }
  if (product * element_bytes != bytes) return lost("shape and data differ in size");
  return {};
}

Result<TensorEntry> entry_of(Draft draft, std::uint64_t data_bytes) {
  const auto& offsets = draft.offsets;
  if (!offsets || !draft.are_offsets_numbers || offsets->size() != 2) {
    return lost("data_offsets are not two numbers");
  }
  TensorEntry entry{.name = std::move(draft.name),
                    .shape = {},
                    .begin = (*offsets)[0],
                    .end = (*offsets)[1],
                    .is_counter = draft.dtype == kCounter};
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return lost("data_offsets lie outside of the file");
  }
  if (draft.dtype != kFloat && !entry.is_counter) {
    return lost("dtype is not F32; convert it (PyTorch: model.float())");
  }
  if (!draft.shape) return lost("shape is no list");
  if (!draft.is_shape_numbers) return lost("shape is no list of numbers");
  entry.shape = std::move(*draft.shape);
  PHUB_RETURN_IF_ERROR(check_shape(entry.shape, entry.end - entry.begin,
                                   entry.is_counter ? sizeof(std::int64_t) : sizeof(float)));
  return entry;
}

// Takes a header apart as it is parsed: a tree of a million tensors would be ten times its text.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  // `data_bytes` none: only the metadata is wanted.
  explicit HeaderReader(std::optional<std::uint64_t> data_bytes) : data_bytes_(data_bytes) {}

  Status status() const { return status_; }
  SafetensorsHeader& header() { return header_; }
  bool has_metadata() const { return has_metadata_; }

  bool null() override { return scalar(); }
  bool boolean(bool /*value*/) override { return scalar(); }
  bool number_integer(number_integer_t /*value*/) override { return scalar(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return scalar();
  }
  bool binary(binary_t& /*value*/) override { return scalar(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3 || list_ == nullptr) return scalar();
    list_->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (depth_ == 2 && key_ == "dtype") draft_.dtype = value;
    return scalar();
  }
  bool key(string_t& value) override {
    if (depth_ == 1) {
      in_metadata_ = value == kMetadata;
      draft_ = {.name = std::move(value)};
    } else if (depth_ == 2) {
      key_ = std::move(value);
    }
    return true;
  }
  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 2 && in_metadata_) return fail("metadata is no text");
    if (list_ != nullptr) bad_list();
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != 1) return true;
    if (!in_metadata_) return finish_tensor();
    has_metadata_ = true;
    return data_bytes_.has_value();  // else all that was wanted is there
  }
  bool start_array(std::size_t /*size*/) override {
    if (depth_ == 0) return no_object();
    if (depth_ == 1) return in_metadata_ ? fail("metadata is no object") : no_entry();
    if (depth_ == 2 && in_metadata_) return fail("metadata is no text");
    if (depth_ == 2 && key_ == "shape") list_ = &draft_.shape.emplace();
    if (depth_ == 2 && key_ == "data_offsets") list_ = &draft_.offsets.emplace();
    if (depth_ > 2 && list_ != nullptr) bad_list();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    if (depth_ == 2) list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return no_object();
  }

 private:
  bool fail(std::string what) {
    status_ = lost(std::move(what));
    return false;
  }
  bool no_object() { return fail("its header is no JSON object"); }
  bool no_entry() { return fail("entry \"" + draft_.name + "\" is no object"); }
  void bad_list() {
    if (draft_.shape && list_ == &*draft_.shape) draft_.is_shape_numbers = false;
    if (draft_.offsets && list_ == &*draft_.offsets) draft_.are_offsets_numbers = false;
  }
  // Any value that is neither expected nor a list or an object.
  bool scalar() {
    if (depth_ == 0) return no_object();
    if (depth_ == 1) return in_metadata_ ? fail("metadata is no object") : no_entry();
    if (depth_ == 2 && in_metadata_) return fail("metadata is no text");
    if (depth_ == 3 && list_ != nullptr) bad_list();
    return true;
  }
  bool finish_tensor() {
    if (!data_bytes_) return true;
    const std::string name = draft_.name;
    Result<TensorEntry> entry = entry_of(std::move(draft_), *data_bytes_);
    if (!entry) return fail(entry.error().with_context("tensor " + name).message());
    header_.tensors.push_back(std::move(*entry));
    return true;
  }

  const std::optional<std::uint64_t> data_bytes_;
  Status status_;
  SafetensorsHeader header_;
  bool has_metadata_ = false;
  std::size_t depth_ = 0;  // of open objects and lists
  bool in_metadata_ = false;
  std::string key_;  // at depth 2
  Draft draft_;
  std::vector<std::uint64_t>* list_ = nullptr;  // that numbers go to
};

// The format has no gaps and no overlaps; so what is allocated is as large as the file.
Status put_in_order(std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::unordered_set<std::string_view> names;
  std::uint64_t end = 0;
  for (const TensorEntry& tensor : tensors) {
    if (!names.insert(tensor.name).second) return lost("there are two tensors " + tensor.name);
    if (tensor.begin != end) {
      return lost("tensor " + tensor.name + " does not follow the one before");
    }
    end = tensor.end;
  }
  return end == data_bytes ? Status() : lost("there is data that no tensor owns");
}

}  // namespace

std::string safetensors_header(std::span<const TensorView> tensors,
                               const TensorMetadata& metadata) {
  std::string text = "{";
  const auto next = [&] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.empty()) {
    text += quoted(kMetadata) + ":" +
            Json(metadata).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const std::uint64_t end = offset + tensor.elements * sizeof(float);
    next();
    text += quoted(tensor.name) + R"(:{"dtype":"F32","shape":)" + Json(tensor.shape).dump() +
            R"(,"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  text += '}';
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                   std::uint64_t data_bytes) {
  HeaderReader reader(data_bytes);
  if (!Json::sax_parse(text, &reader)) return reader.status();
  PHUB_RETURN_IF_ERROR(put_in_order(reader.header().tensors, data_bytes));
  return std::move(reader.header());
}

Result<TensorMetadata> parse_safetensors_metadata(std::string_view text) {
  HeaderReader reader(std::nullopt);
  const bool is_whole = Json::sax_parse(text, &reader);
  if (!is_whole && !reader.has_metadata()) return reader.status();
  return std::move(reader.header().metadata);
}

}  // namespace phub
