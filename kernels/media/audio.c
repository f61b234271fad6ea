/* kernels/media/audio.c - WAV files, spectrograms and mel-frequency cepstra.
 *
 *     DecodeWav          bytes                         ->  audio [samples, channels] in [-1, 1), sample rate
 *     AudioSpectrogram   audio [samples, channels]     ->  [channels, slices, points / 2 + 1]
 *     Mfcc               spectrogram [channels, slices, bins], sample rate
 *                        -> [channels, slices, coefficients]
 *
 * WAV is read as a sequence of RIFF chunks of which "fmt " and "data" count; samples are 16-bit integers
 * (TensorFlow takes no others). Spectrogram slices are weighted with a periodic Hann window and padded to a
 * power of two.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/media/audio.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ DecodeWav */

struct wav {
    int channels;
    int64_t rate, bits, samples;
    const uint8_t *data;
};

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static int u16(const uint8_t *p)
{
    return p[0] | p[1] << 8;
}

static enum td_code read_format(const uint8_t *p, size_t n, struct wav *w, struct td_err *err)
{
    TD_FAIL_IF(n < 16, err, INVALID_ARGUMENT,
               "Bad format chunk for WAV: Expected at least 16 bytes, but got %zu", n);
    int format = u16(p), bits = u16(p + 14), align = u16(p + 12);
    w->channels = u16(p + 2);
    w->rate = u32(p + 4);
    w->bits = bits;
    TD_FAIL_IF(format != 1 && format != 0xFFFE, err, INVALID_ARGUMENT,
               "Bad audio format for WAV: Expected 1 (PCM), but got %d", format);
    TD_FAIL_IF(w->channels < 1, err, INVALID_ARGUMENT,
               "Bad number of channels for WAV: Expected at least 1, but got %d", w->channels);
    TD_FAIL_IF(bits != 16, err, INVALID_ARGUMENT, "Can only read 16-bit WAV files, but received %d", bits);
    TD_FAIL_IF(align != 2 * w->channels, err, INVALID_ARGUMENT,
               "Bad bytes per sample in WAV header: Expected %d but got %d", 2 * w->channels, align);
    return TD_OK;
}

static enum td_code read_wav(const uint8_t *p, size_t n, struct wav *w, struct td_err *err)
{
    TD_FAIL_IF(n < 12 || memcmp(p, "RIFF", 4) != 0 || memcmp(p + 8, "WAVE", 4) != 0, err, INVALID_ARGUMENT,
               "Header mismatch: Expected RIFF .. WAVE in %zu bytes", n);
    bool format = false, data = false;
    size_t at = 12;
    while (at + 8 <= n) {
        size_t size = u32(p + at + 4), left = n - at - 8;
        const uint8_t *body = p + at + 8;
        if (memcmp(p + at, "fmt ", 4) == 0) {
            TD_FAIL_IF(size > left, err, INVALID_ARGUMENT, "WAV format chunk of %zu bytes in the last %zu",
                       size, left);
            TD_TRY(read_format(body, size, w, err));
            format = true;
        } else if (memcmp(p + at, "data", 4) == 0) {
            TD_FAIL_IF(!format, err, INVALID_ARGUMENT, "WAV data chunk before its format chunk");
            TD_FAIL_IF(
                size > left, err, INVALID_ARGUMENT,
                "Data too short when trying to read string: WAV data chunk of %zu bytes in the last %zu",
                size, left);
            w->data = body;
            w->samples = (int64_t)(size / (2 * (size_t)w->channels));
            data = true;
        }
        TD_FAIL_IF(size > left, err, INVALID_ARGUMENT, "WAV chunk of %zu bytes in the last %zu", size, left);
        at += 8 + size + (size & 1);
    }
    TD_FAIL_IF(!data, err, INVALID_ARGUMENT, "WAV of %zu bytes: no %s chunk", n, format ? "data" : "format");
    TD_FAIL_IF(at < n, err, INVALID_ARGUMENT,
               "Data too short when trying to read string: a WAV chunk in the last %zu bytes", n - at);
    return TD_OK;
}

static enum td_code decode_wav_infer(struct td_infer *c, struct td_err *err)
{
    int64_t channels = td_attr_int(c->node, "desired_channels"),
            samples = td_attr_int(c->node, "desired_samples");
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT, "%s: contents must be scalar, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(channels != -1 && channels < 1, err, INVALID_ARGUMENT,
               "%s: desired_channels must be -1 or more than 0, got %lld", TD_NODE_STR(c->node),
               (long long)channels);
    TD_FAIL_IF(samples < -1, err, INVALID_ARGUMENT, "%s: desired_samples must be -1 or more, got %lld",
               TD_NODE_STR(c->node), (long long)samples);
    c->out[0] = td_shape_matrix(samples, channels);
    c->out[1] = td_shape_scalar();
    return TD_OK;
}

/* The file's channels and samples, or the wanted ones: the last channel is repeated, missing samples are
 * silence. */
static enum td_code decode_wav_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y, *rate;
    struct wav w = {0};
    size_t len;
    const char *bytes = td_tensor_str(c->in[0], 0, &len);
    if (read_wav((const uint8_t *)bytes, len, &w, err)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(c->node));
    }
    int64_t channels = td_attr_int(c->node, "desired_channels"),
            samples = td_attr_int(c->node, "desired_samples");
    channels = channels == -1 ? w.channels : channels;
    samples = samples == -1 ? w.samples : samples;
    struct td_shape shape = td_shape_matrix(samples, channels);
    TD_TRY(td_out(c, 0, &shape, &y, err));
    TD_TRY(td_out(c, 1, NULL, &rate, err));
    TD_DATA(rate, int32_t)[0] = (int32_t)w.rate;
    float *to = y->data;
    for (int64_t i = 0; i < samples; i++) {
        for (int64_t k = 0; k < channels; k++, to++) {
            int64_t from = k < w.channels ? k : w.channels - 1;
            const uint8_t *p = w.data + (i * w.channels + from) * 2;
            *to = i < w.samples ? (float)(int16_t)u16(p) / 32768.0f : 0;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ EncodeWav */

static enum td_code encode_wav_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank != 2, err, INVALID_ARGUMENT,
               "%s: audio must be 2-dimensional, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    TD_TRY(td_infer_rank(c, 1, 0, err));
    TD_FAIL_IF(c->in[0].rank == 2 &&
                   (c->in[0].dim[1] == 0 || c->in[0].dim[1] > 65535 || c->in[0].dim[0] > INT32_MAX / 4),
               err, INVALID_ARGUMENT, "%s: audio %s does not fit a WAV file", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

size_t td_wav_bytes(int64_t n)
{
    return 44 + 2 * (size_t)n;
}

void td_wav_encode(const float *x, int64_t n, int64_t channels, int64_t rate, uint8_t *p)
{
    memcpy(p, "RIFF....WAVEfmt ", 16);
    put32(p + 4, (uint32_t)td_wav_bytes(n) - 8);
    put32(p + 16, 16);
    put32(p + 20, 1 | (uint32_t)channels << 16);
    put32(p + 24, (uint32_t)rate);
    put32(p + 28, (uint32_t)(rate * channels * 2));
    put32(p + 32, (uint32_t)(channels * 2) | 16u << 16);
    memcpy(p + 36, "data", 4);
    put32(p + 40, 2 * (uint32_t)n);
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * 32768.0f;
        int32_t s = isnan(v) ? 0 : (int32_t)roundf(fminf(fmaxf(v, -32768), 32767));
        p[44 + 2 * i] = (uint8_t)s;
        p[45 + 2 * i] = (uint8_t)(s >> 8);
    }
}

static enum td_code encode_wav_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    int64_t n = td_tensor_count(c->in[0]), channels = c->in[0]->shape.dim[1],
            rate = td_tensor_int(c->in[1], 0);
    TD_FAIL_IF(n > INT32_MAX / 2 - 64, err, INVALID_ARGUMENT, "%s: %lld samples do not fit a WAV file",
               TD_NODE_STR(c->node), (long long)n);
    TD_FAIL_IF(rate <= 0, err, INVALID_ARGUMENT, "%s: sample_rate must be positive, got %lld",
               TD_NODE_STR(c->node), (long long)rate);
    void *room;
    size_t bytes = td_wav_bytes(n);
    TD_TRY(td_scratch(c, bytes, &room, err));
    td_wav_encode(TD_DATA(c->in[0], float), n, channels, rate, room);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    return td_tensor_set_str(y, 0, room, bytes, err);
}

/* ------------------------------------------------------------------ AudioSpectrogram */

static int64_t points_of(int64_t window)
{
    int64_t n = 1;
    while (n < window) {
        n *= 2;
    }
    return n;
}

static enum td_code spectrogram_infer(struct td_infer *c, struct td_err *err)
{
    int64_t window = td_attr_int(c->node, "window_size"), stride = td_attr_int(c->node, "stride");
    const struct td_shape *x = &c->in[0];
    TD_FAIL_IF(window < 2 || window > 1 << 24, err, INVALID_ARGUMENT,
               "%s: window size is %lld, want 2 to 2^24", TD_NODE_STR(c->node), (long long)window);
    TD_FAIL_IF(stride < 1, err, INVALID_ARGUMENT, "%s: stride must be strictly positive, got %lld",
               TD_NODE_STR(c->node), (long long)stride);
    TD_FAIL_IF(x->rank >= 0 && x->rank != 2, err, INVALID_ARGUMENT, "%s: input must be 2-dimensional, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    c->out[0] = td_shape_of_rank(3);
    c->out[0].dim[2] = points_of(window) / 2 + 1;
    if (x->rank == 2) {
        int64_t n = x->dim[0];
        c->out[0].dim[0] = x->dim[1];
        c->out[0].dim[1] = n < 0 ? -1 : n < window ? 0 : 1 + (n - window) / stride;
    }
    return TD_OK;
}

/* Transform of 2^k points in place, decimation in time; turns[j] = exp(-2 pi i j / n). */
static void transform(double _Complex *x, const double _Complex *transposes, int64_t n)
{
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1) {
            j ^= bit;
        }
        j ^= bit;
        if (i < j) {
            double _Complex t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int64_t half = 1; half < n; half *= 2) {
        for (int64_t from = 0; from < n; from += 2 * half) {
            for (int64_t k = 0; k < half; k++) {
                double _Complex a = x[from + k], b = x[from + k + half] * transposes[k * (n / (2 * half))];
                x[from + k] = a + b;
                x[from + k + half] = a - b;
            }
        }
    }
}

static enum td_code spectrogram_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t window = td_attr_int(c->node, "window_size"), stride = td_attr_int(c->node, "stride");
    int64_t n = points_of(window), channels = y->shape.dim[0], slices = y->shape.dim[1];
    bool squared = td_attr_bool(c->node, "magnitude_squared");
    void *room;
    TD_TRY(td_scratch(c, (size_t)n * 2 * sizeof(double _Complex), &room, err));
    double _Complex *x = room, *transposes = x + n;
    for (int64_t j = 0; j < n / 2; j++) {
        transposes[j] = cos(2 * M_PI * (double)j / (double)n) - I * sin(2 * M_PI * (double)j / (double)n);
    }
    float *to = y->data;
    for (int64_t k = 0; k < channels; k++) {
        for (int64_t s = 0; s < slices; s++) {
            if (td_stopped(c)) {
                return td_stop_error(c, err);
            }
            memset(x, 0, (size_t)n * sizeof *x);
            for (int64_t i = 0; i < window; i++) {
                double hann = 0.5 - 0.5 * cos(2 * M_PI * (double)i / (double)window);
                x[i] = TD_DATA(c->in[0], float)[(s * stride + i) * channels + k] * hann;
            }
            transform(x, transposes, n);
            for (int64_t i = 0; i <= n / 2; i++, to++) {
                double power = creal(x[i]) * creal(x[i]) + cimag(x[i]) * cimag(x[i]);
                *to = (float)(squared ? power : sqrt(power));
            }
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Mfcc */

static enum td_code mfcc_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0];
    TD_FAIL_IF(x->rank >= 0 && x->rank != 3, err, INVALID_ARGUMENT,
               "%s: spectrogram must be 3-dimensional, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_FAIL_IF(c->in[1].rank > 0, err, INVALID_ARGUMENT, "%s: Input sample_rate should be scalar, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    int64_t bands = td_attr_int(c->node, "filterbank_channel_count"),
            out = td_attr_int(c->node, "dct_coefficient_count");
    TD_FAIL_IF(bands < 1 || bands > 1 << 20 || out < 1 || out > bands, err, INVALID_ARGUMENT,
               "%s: %lld coefficients of %lld filterbank channels: want 1 <= coefficients <= channels",
               TD_NODE_STR(c->node), (long long)out, (long long)bands);
    c->out[0] = td_shape_of_rank(3);
    c->out[0].dim[2] = out;
    if (x->rank == 3) {
        c->out[0].dim[0] = x->dim[0];
        c->out[0].dim[1] = x->dim[1];
    }
    return TD_OK;
}

static double mel(double hz)
{
    return 1127.0 * log1p(hz / 700.0);
}

/* Triangular mel bands: bin i gives weight[i] of itself to band[i] and the rest to band[i] + 1. */
struct bank {
    int64_t bins, bands, from, to;
    double *weight;
    int64_t *band;
    double *centre;
};

static void make_bank(struct bank *b, double rate, double low, double high)
{
    double low_mel = mel(low), span = mel(high) - low_mel, spacing = span / (double)(b->bands + 1);
    double hz = 0.5 * rate / (double)(b->bins - 1);
    for (int64_t i = 0; i <= b->bands; i++) {
        b->centre[i] = low_mel + spacing * (double)(i + 1);
    }
    b->from = (int64_t)(1.5 + low / hz);
    b->to = (int64_t)(high / hz);
    int64_t band = 0;
    for (int64_t i = 0; i < b->bins; i++) {
        double m = mel((double)i * hz);
        if (i < b->from || i > b->to) {
            b->band[i] = -2;
            b->weight[i] = 0;
            continue;
        }
        while (band < b->bands && b->centre[band] < m) {
            band++;
        }
        b->band[i] = band - 1;
        double left = band > 0 ? b->centre[band - 1] : low_mel;
        b->weight[i] = (b->centre[band] - m) / (b->centre[band] - left);
    }
}

/* Log band energies of one slice, then their cosine transform. */
static void cepstrum(const struct bank *b, const float *x, double *energy, float *y, int64_t n_out)
{
    if (b->to >= b->bins) { /* bands beyond the spectrum: TensorFlow transforms nothing */
        memset(y, 0, (size_t)n_out * sizeof *y);
        return;
    }
    memset(energy, 0, (size_t)b->bands * sizeof *energy);
    for (int64_t i = b->from; i <= b->to; i++) {
        double v = sqrt(x[i]), part = v * b->weight[i];
        if (b->band[i] >= 0) {
            energy[b->band[i]] += part;
        }
        if (b->band[i] + 1 < b->bands) {
            energy[b->band[i] + 1] += v - part;
        }
    }
    for (int64_t i = 0; i < b->bands; i++) {
        energy[i] = log(energy[i] < 1e-12 ? 1e-12 : energy[i]);
    }
    double scale = sqrt(2.0 / (double)b->bands);
    for (int64_t k = 0; k < n_out; k++) {
        double sum = 0;
        for (int64_t i = 0; i < b->bands; i++) {
            sum += cos((double)k * M_PI / (double)b->bands * ((double)i + 0.5)) * energy[i];
        }
        y[k] = (float)(scale * sum);
    }
}

static enum td_code mfcc_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const struct td_node *n = c->node;
    struct bank b = {.bins = c->in[0]->shape.dim[2], .bands = td_attr_int(n, "filterbank_channel_count")};
    double rate = (double)td_tensor_int(c->in[1], 0), low = td_attr_float(n, "lower_frequency_limit");
    double high = td_attr_float(n, "upper_frequency_limit");
    TD_FAIL_IF(
        !(rate > 0) || !(low >= 0) || !(high > low) || b.bins < 2, err, INVALID_ARGUMENT,
        "%s: Mfcc initialization failed for spectrogram of %lld bins, sample rate %g, frequencies %g to %g",
        TD_NODE_STR(n), (long long)b.bins, rate, low, high);
    void *room;
    size_t doubles = (size_t)(2 * b.bins + 2 * b.bands + 2);
    TD_TRY(td_scratch(c, doubles * sizeof(double), &room, err));
    b.weight = room;
    b.band = (int64_t *)(b.weight + b.bins);
    b.centre = b.weight + 2 * b.bins;
    double *energy = b.centre + b.bands + 1;
    make_bank(&b, rate, low, high);
    int64_t slices = y->shape.dim[0] * y->shape.dim[1], n_out = y->shape.dim[2];
    for (int64_t s = 0; s < slices; s++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        cepstrum(&b, TD_DATA(c->in[0], float) + s * b.bins, energy, TD_DATA(y, float) + s * n_out, n_out);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ table */

const struct td_op td_ops_audio[] = {
    {.name = "DecodeWav",
     .sig = "(contents:string) -> (audio:float, sample_rate:int32) {desired_channels:int=-1; "
            "desired_samples:int=-1}",
     .infer = decode_wav_infer,
     .kernels = TD_KERNEL("decode_wav.cpu", decode_wav_run)},
    {.name = "EncodeWav",
     .sig = "(audio:float, sample_rate:int32) -> (contents:string) {}",
     .infer = encode_wav_infer,
     .kernels = TD_KERNEL("encode_wav.cpu", encode_wav_run)},
    {.name = "AudioSpectrogram",
     .sig =
         "(input:float) -> (spectrogram:float) {window_size:int; stride:int; magnitude_squared:bool=false}",
     .infer = spectrogram_infer,
     .kernels = TD_KERNEL("audio_spectrogram.cpu", spectrogram_run)},
    {.name = "Mfcc",
     .sig =
         "(spectrogram:float, sample_rate:int32) -> (output:float) {upper_frequency_limit:float=4000.0; "
         "lower_frequency_limit:float=20.0; filterbank_channel_count:int=40; dct_coefficient_count:int=13}",
     .host_in = 2,
     .infer = mfcc_infer,
     .kernels = TD_KERNEL("mfcc.cpu", mfcc_run)},
    {.name = NULL},
};
