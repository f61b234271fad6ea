/* tests/bench/json_floats.cc
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_floats.h"

#include <simdjson.h>

namespace
{
using namespace simdjson;

static_assert(SIMDJSON_PADDING <= JSON_FLOATS_PADDING, "");

struct floats {
    float *out;
    size_t room;
    long n;
};

void read(ondemand::value value, floats &to)
{
    switch (value.type()) {
    case ondemand::json_type::array:
        for (auto item : value.get_array()) {
            read(item.value(), to);
        }
        break;
    case ondemand::json_type::object:
        for (auto field : value.get_object()) {
            read(field.value(), to);
        }
        break;
    case ondemand::json_type::number: {
        const double x = value.get_double();
        if (static_cast<size_t>(to.n) < to.room) {
            to.out[to.n] = static_cast<float>(x);
        }
        to.n++;
        break;
    }
    default:
        break;
    }
}
} // namespace

long json_floats(const char *text, size_t n, float *out, size_t room)
{
    static thread_local ondemand::parser parser;
    floats to{out, room, 0};
    try {
        ondemand::document document = parser.iterate(padded_string_view(text, n, n + JSON_FLOATS_PADDING));
        for (auto field : document.get_object()) {
            read(field.value(), to);
        }
    } catch (const simdjson_error &) {
        return -1;
    }
    return to.n;
}
