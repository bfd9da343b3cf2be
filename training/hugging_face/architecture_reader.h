// What readers of the types of config.json share. Internal to this folder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "training/hugging_face/architecture.h"
#include "training/hugging_face/config_fields.h"

namespace oneflow {

// Reads keys, by any of several names, and knows which were read.
class ArchitectureReader {
 public:
  using Json = ConfigFields::Json;
  using Names = std::initializer_list<const char*>;

  ArchitectureReader(const Json& object, const std::string& where, const std::string& prefix)
      : fields(object, where, prefix), json_(object) {}

  // The name among these that the object has; the first where it has none.
  const char* Name(Names names);
  bool Has(Names names) { return fields.Has(Name(names)); }
  int64_t Size(Names names, std::optional<int64_t> otherwise) {
    return fields.Size(Name(names), otherwise);
  }
  // As Size, but 0 is a size, too.
  int64_t Count(Names names, int64_t otherwise);
  double Number(Names names, double otherwise) { return fields.Number(Name(names), otherwise); }
  bool Bool(Names names, bool otherwise);
  std::string String(Names names, const std::string& otherwise) {
    return fields.String(Name(names), otherwise);
  }
  // The layers whose entry of a list, as "layer_types", is `value`; none where there is no list.
  std::optional<int64_t> CountInList(const char* key, const Json& value);

  // A difference that no field of an architecture tells.
  void Differ(std::string what, int64_t parameters = 0) {
    a.others.push_back({std::move(what), parameters, 0});
  }
  // If the number is there and is not `usual`: "WHAT of VALUE, here HERE".
  void DifferIfNot(const char* key, double usual, const std::string& what, const std::string& here);

  const std::set<std::string>& read() const { return read_; }

  ConfigFields fields;
  Architecture a;

 private:
  const Json& json_;
  std::set<std::string> read_;
};

// Sets what differs from Llama's defaults before the usual keys are read, and what they do not say
// after. False: the type is not known.
bool BeginType(const std::string& type, ArchitectureReader& reader);
void EndType(const std::string& type, ArchitectureReader& reader);

}  // namespace oneflow
