/* kernels/text/regex_shim.cc - RE2 behind a C interface; the only C++ file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text/regex_shim.h"

#include <re2/re2.h>

#include <cstdio>
#include <new>
#include <string>

struct td_regex {
    RE2 re;
    td_regex(re2::StringPiece pattern, const RE2::Options &options) : re(pattern, options) {}
};

namespace
{
void say(char *why, size_t bytes, const char *text)
{
    snprintf(why, bytes, "%s", text);
}
} /* namespace */

extern "C" struct td_regex *td_regex_new(const char *pattern, size_t n, char *why, size_t why_bytes)
{
    try {
        RE2::Options options;
        options.set_log_errors(false);
        options.set_max_mem(TD_REGEX_BYTES);
        td_regex *r = new td_regex(re2::StringPiece(pattern, n), options);
        if (r->re.ok()) {
            return r;
        }
        say(why, why_bytes, r->re.error().c_str());
        delete r;
    } catch (...) {
        say(why, why_bytes, "out of memory");
    }
    return nullptr;
}

extern "C" void td_regex_free(struct td_regex *r)
{
    delete r;
}

extern "C" int td_regex_full_match(const struct td_regex *r, const char *s, size_t n)
{
    try {
        return RE2::FullMatch(re2::StringPiece(s, n), r->re) ? 1 : 0;
    } catch (...) {
        return -1;
    }
}

extern "C" size_t td_regex_program_bytes(const struct td_regex *r)
{
    enum { INSTRUCTION = 32 }; /* one of RE2's, and what it knows of the pattern */
    const int forth = r->re.ProgramSize(), back = r->re.ReverseProgramSize();
    return sizeof *r + r->re.pattern().size() +
           INSTRUCTION * (size_t)((forth > 0 ? forth : 0) + (back > 0 ? back : 0));
}

extern "C" int td_regex_groups(const struct td_regex *r)
{
    return r->re.NumberOfCapturingGroups();
}

extern "C" int td_regex_match(const struct td_regex *r, const char *s, size_t n, size_t from,
                              struct td_regex_span *group, int n_groups)
{
    re2::StringPiece found[TD_REGEX_GROUPS];
    try {
        if (!r->re.Match(re2::StringPiece(s, n), from, n, RE2::UNANCHORED, found, n_groups)) {
            return 0;
        }
    } catch (...) {
        return TD_REGEX_NO_MEMORY;
    }
    for (int i = 0; i < n_groups; i++) {
        group[i] = {found[i].data(), found[i].size()};
    }
    return 1;
}
