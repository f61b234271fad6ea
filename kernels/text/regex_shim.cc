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
enum { MAX_GROUPS = 10 }; /* a rewrite names \0 to \9 */

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

namespace
{
/* Bytes of the character that begins at p: what an empty match steps over. 1 where there is no UTF-8. */
size_t step_bytes(const char *p, size_t left)
{
    const unsigned char c = (unsigned char)*p;
    const size_t n = c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 1;
    for (size_t i = 1; i < n; i++) {
        if (i >= left || ((unsigned char)p[i] & 0xc0) != 0x80) {
            return 1;
        }
    }
    return n;
}

/* RE2::Replace and RE2::GlobalReplace, with an eye on length and time. */
int rewrite_matches(const RE2 &re, re2::StringPiece text, const struct td_regex_rewrite *to, std::string *out)
{
    const re2::StringPiece rewrite(to->text, to->n);
    re2::StringPiece group[MAX_GROUPS];
    const int n_groups = 1 + RE2::MaxSubmatch(rewrite);
    const char *p = text.data(), *const end = p + text.size(), *last = nullptr;
    int count = 0;
    if (n_groups > MAX_GROUPS || n_groups > 1 + re.NumberOfCapturingGroups()) {
        return 0;
    }
    while (p <= end && (to->all || count == 0) &&
           re.Match(text, (size_t)(p - text.data()), text.size(), RE2::UNANCHORED, group, n_groups)) {
        const char *const at = group[0].data();
        if (out->size() + (size_t)(at - p) > to->most) {
            return TD_REGEX_TOO_LONG;
        }
        if (to->over()) {
            return TD_REGEX_OVER;
        }
        out->append(p, (size_t)(at - p));
        p = at;
        if (at == last && group[0].empty()) { /* not again where the last match ended: one character on */
            const size_t n = p < end ? step_bytes(p, (size_t)(end - p)) : 1;
            if (p < end) {
                out->append(p, n);
            }
            p += n;
            continue;
        }
        if (!re.Rewrite(out, rewrite, group, n_groups)) {
            return 0;
        }
        if (out->size() > to->most) {
            return TD_REGEX_TOO_LONG;
        }
        p = at + group[0].size();
        last = p;
        count++;
    }
    if (count > 0 && p < end) {
        out->append(p, (size_t)(end - p));
    }
    return count == 0 ? 0 : out->size() > to->most ? TD_REGEX_TOO_LONG : 1;
}
} /* namespace */

extern "C" int td_regex_replace(const struct td_regex *r, const char *s, size_t n,
                                const struct td_regex_rewrite *to, char **out, size_t *out_n)
{
    *out = nullptr;
    *out_n = 0;
    try {
        std::string text;
        const int hit = rewrite_matches(r->re, re2::StringPiece(s, n), to, &text);
        if (hit != 1) {
            return hit;
        }
        *out = new char[text.size() + 1];
        memcpy(*out, text.data(), text.size());
        *out_n = text.size();
        return 1;
    } catch (...) {
        return TD_REGEX_NO_MEMORY;
    }
}

extern "C" void td_regex_release(char *out)
{
    delete[] out;
}
