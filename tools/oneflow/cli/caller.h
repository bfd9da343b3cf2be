// Caller: a program that calls verbs as functions (call_verb.h), in place of a terminal. What a
// verb would write to standard output or standard error goes to it, and it alone handles signals.
//
//   if (const Caller* caller = CurrentCaller()) caller->print(text);
#pragma once

#include <functional>
#include <string>

namespace oneflow {

// None is null. Each may be called on any thread of the verb.
struct Caller {
  std::function<void(const std::string& text)> print;         // for standard output
  std::function<void(const std::string& sentence)> notice;    // what a user should know
  std::function<void(const std::string& sentence)> progress;  // of long work
  std::function<bool()> stopped;  // true once the verb is to end as by Ctrl-C
};

// The caller of the verb that runs now; null on the command line.
const Caller* CurrentCaller();

// Makes `caller` the current one as long as this object lives. One at a time in a process.
class CallerScope {
 public:
  explicit CallerScope(const Caller& caller);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;
};

}  // namespace oneflow
