#pragma once

// Python's three ways to format: "%s" % x, "{}".format(x), and the specifications of the latter.

#include "chat/jinja/builtin.h"
#include "chat/jinja/value.h"

namespace martlet::jinja {

// `values`: a tuple, a dict for "%(name)s", or a single value.
Text printf_format(const Text& format, const Value& values);
Text string_format(Interpreter& interpreter, const Text& format, const Arguments& arguments);

}  // namespace martlet::jinja
