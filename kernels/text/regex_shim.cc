/* kernels/text/regex_shim.cc - RE2 behind a C interface; the only C++ file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text/regex_shim.h"

#include <re2/re2.h>

#include <cstdio>
#include <cstring>
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

extern "C" int td_regex_replace(const struct td_regex *r, const char *s, size_t n,
                                const struct td_regex_rewrite *to, char **out, size_t *out_n)
{
    *out = nullptr;
    *out_n = 0;
    try {
        std::string text(s, n);
        re2::StringPiece rewrite(to->text, to->n);
        bool hit =
            to->all ? RE2::GlobalReplace(&text, r->re, rewrite) > 0 : RE2::Replace(&text, r->re, rewrite);
        if (!hit) {
            return 0;
        }
        *out = new char[text.size() + 1];
        memcpy(*out, text.data(), text.size());
        *out_n = text.size();
        return 1;
    } catch (...) {
        return -1;
    }
}

extern "C" void td_regex_release(char *out)
{
    delete[] out;
}
