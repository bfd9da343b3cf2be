// Fields as text, by their rows: what a flag, the help and a report read and write.
//
//   const Row& row = *FindRow(RecipeRows(), "prefetch");
//   RETURN_IF_ERROR(SetField(row, "2", &recipe));  // or "--prefetch=9: is out of range; use ..."
//   FieldText(row, recipe);                        // "2"
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {

// Parses `text` into the row's field; the row's word for absence clears it. An input error begins
// with `prefix`, the name and the text. It names what is expected, with an example: a text that is
// no number, a number outside the type or the range, a word that is none of the row's.
absl::Status SetField(const Row& row, std::string_view text, google::protobuf::Message* message,
                      std::string_view prefix = "--");

// A number in as few digits as give it back.
std::string ExactText(double number);

// The text that SetField takes for the field's value; "" where it is absent.
std::string FieldText(const Row& row, const google::protobuf::Message& message);

bool HasField(const Row& row, const google::protobuf::Message& message);
void ClearField(const Row& row, google::protobuf::Message* message);
void CopyField(const Row& row, const google::protobuf::Message& from,
               google::protobuf::Message* to);
// Those that `from` has.
void CopyFields(std::span<const Row> rows, const google::protobuf::Message& from,
                google::protobuf::Message* to);

// True if the flag needs no value: `--fuse`.
bool IsSwitch(const Row& row, const google::protobuf::Message& message);

// The rows whose fields differ: one is absent, or has another value.
std::vector<const Row*> DifferingRows(std::span<const Row> rows, const google::protobuf::Message& a,
                                      const google::protobuf::Message& b);

// "--batch=8", "--schedule=gpipe": the fields that are there, as flags; and the same in one text,
// as a shell takes it: "--blocks='a(window=4),b'".
std::vector<std::string> FlagWords(std::span<const Row> rows,
                                   const google::protobuf::Message& message);
std::string FlagsText(std::span<const Row> rows, const google::protobuf::Message& message);

// Parses such flags: the inverse of FlagsText. Errors: those of SetField, or a word that is no flag
// of `rows`.
absl::Status SetFields(std::span<const Row> rows, std::string_view flags,
                       google::protobuf::Message* message);
// The recipe of such flags, for tests and examples: requires that they are right.
proto::Recipe MakeRecipe(std::string_view flags);

// Gives each absent field that has a default its default. Not for recipes: WithDefaults.
void SetDefaults(std::span<const Row> rows, google::protobuf::Message* message);

// Checks that a value of each field that is there is one that SetField takes. `prefix` begins the
// error of a row's field.
absl::Status CheckFields(std::span<const Row> rows, const google::protobuf::Message& message,
                         const std::function<std::string(const Row&)>& prefix);

// An input error where a number is outside of the row's range.
absl::Status CheckRange(std::string_view where, const Row& row, double number);

// An input error where a text is no value of a type: "bool", "int32", "int64", "uint64" or
// "double". `flag`, as "--batch=", begins it; the default is shown as an example, where that is not
// 0.
absl::Status CheckScalar(std::string_view flag, std::string_view type, std::string_view text,
                         std::string_view default_text);

}  // namespace oneflow
