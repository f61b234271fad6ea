"""Draws of pictures as bytes. PNG, GIF and BMP files are made here, of every kind their formats have that fits in a few lines; JPEG files are TensorFlow's own.

What is decoded from a JPEG may differ by the rounding of one libjpeg's transform from another's, so pixels of JPEGs are compared as floats. What is encoded is decoded again
before it is compared: a file's bytes are the library's business.
"""
import struct
import zlib

import numpy as np

from draw_source import program

JPEG_STEPS = 4   # of 255: what two libjpegs may differ by


# ---- files

def bits_row(s, width, bits):
    return bytes(s.r.integers(0, 256, (width * bits + 7) // 8).astype(np.uint8))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]   # x, y, and their steps


def png(s, height, width):
    """Noise of any colour type, depth and row filter; interlaced at times, with transparent colours at times."""
    kind = s.one([0, 2, 3, 4, 6])
    depth = s.one({0: [1, 2, 4, 8, 16], 3: [1, 2, 4, 8]}.get(kind, [8, 16]))
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    interlaced = s.chance(0.25)
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for x, y, dx, dy in passes:
        w, h = max(0, -(-(width - x) // dx)), max(0, -(-(height - y) // dy))
        rows += b"".join(bytes([s.int(0, 4)]) + bits_row(s, w, bits) for _ in range(h if w else 0))
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced)))
    if s.chance(0.1):
        out += chunk(b"gAMA", struct.pack(">I", s.one([45455, 100000])))
    if kind == 3:
        out += chunk(b"PLTE", bits_row(s, 3 << depth, 8))
    if kind in (0, 2, 3) and s.chance(0.3):
        out += chunk(b"tRNS", bits_row(s, s.int(1, 1 << depth), 8) if kind == 3 else struct.pack(">H", s.int(0, (1 << depth) - 1)) * (1 if kind == 0 else 3))
    return out + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def gif_pixels(s, n, depth):
    """LZW codes of n pixels that never let the table grow into wider codes."""
    clear, size, codes = 1 << depth, depth + 1, []
    for i in range(n):
        if i % max(1, clear - 2) == 0:
            codes.append(clear)
        codes.append(s.int(0, clear - 1))
    value = sum(c << (i * size) for i, c in enumerate(codes + [clear + 1]))
    data = value.to_bytes((size * (len(codes) + 1) + 7) // 8, "little")
    blocks = b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
    return bytes([depth]) + blocks + b"\0"


def gif(s, height, width):
    """A few frames, smaller than the picture or beside it at times, with transparent colours and maps of their own at times."""
    depth = s.int(2, 4)
    out = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80 | (depth - 1), 0, 0) + bits_row(s, 3 << depth, 8)
    for _ in range(s.one([1, 1, 2, 3])):
        if s.chance(0.5):
            out += b"\x21\xf9\x04" + bytes([s.one([0, 1, 4, 5, 9, 13]), 5, 0, s.int(0, (1 << depth) - 1), 0])
        whole = s.chance(0.5)
        h, w = (height, width) if whole else (s.int(1, height), s.int(1, width))
        top, left = (0, 0) if whole else (s.int(0, height - h), s.int(0, width - w))
        if s.chance(0.05):
            left += 2
        own = s.chance(0.2)
        out += b"," + struct.pack("<HHHHB", left, top, w, h, 0x80 | (depth - 1) if own else 0) + (bits_row(s, 3 << depth, 8) if own else b"")
        out += gif_pixels(s, h * w, depth)
    return out + b";"


def bmp(s, height, width):
    bits = s.one([8, 24, 32] if s.chance(0.95) else [1, 16])
    row = (width * bits // 8 + 3) // 4 * 4
    start = s.one([54, 54, 60])
    head = b"BM" + struct.pack("<IHHIIiiHHIIiiII", start + row * height, 0, 0, start, 40, width, s.one([height, -height]), 1, bits, 0, 0, 0, 0, 0, 0)
    return head + b"\0" * (start - 54) + bits_row(s, row * height, 8)


def smooth(s, height, width, channels):
    """A picture that JPEG is made for: waves, with a little noise."""
    y, x = np.mgrid[:height, :width][:, :, :, None]
    waves = 128 + 90 * np.sin(x * s.r.uniform(0, 0.5, channels) + s.r.uniform(0, 6)) * np.cos(y * s.r.uniform(0, 0.5, channels))
    return np.clip(waves + s.r.uniform(-25, 25, (height, width, channels)), 0, 255).astype(np.uint8)


def jpeg(s, height, width):
    import tensorflow as tf
    picture = smooth(s, height, width, s.one([1, 3, 3]))
    return tf.io.encode_jpeg(picture, quality=s.one([95, 75, 30, 100]), progressive=s.chance(0.3), optimize_size=s.chance(0.3), chroma_downsampling=s.chance(0.6)).numpy()


FILES = {"jpeg": jpeg, "png": png, "gif": gif, "bmp": bmp}


def file_of(s, kind):
    """A file, and what it is; of another format at times, cut short at times, not a picture at times."""
    if s.chance(0.15):
        kind = s.one(list(FILES))
    data = FILES[kind](s, s.int(1, 24), s.int(1, 24))
    if s.chance(0.1):
        data, kind = data[:s.int(0, len(data) - 1) if s.chance(0.7) else -s.int(1, 3)], kind + " cut"
    elif s.chance(0.02):
        data, kind = s.one([b"", b"not a picture", b"\xff\xd8\xff", b"BM"]), "none"
    return np.array(data, object), kind


# ---- decoding

def as_floats(op, attrs, options):
    """A program: the pixels of op as floats, so that they may differ a little."""
    def call(raw, **tensors):
        import tensorflow as tf
        return tf.cast(getattr(raw, op)(**tensors, **attrs), tf.float32)
    return program(call), {"rtol": 0, "atol": JPEG_STEPS, **options}


def decode(op, kind, **more):
    def draw(s):
        data, found = file_of(s, kind or s.one(list(FILES)))
        attrs = {name: s.one(values) for name, values in more.items()}
        if op != "DecodeGif":
            attrs["channels"] = s.one([0, 0, 1, 3, 4] if s.chance(0.97) else [2])
        if "dtype" in attrs or not found.startswith("jpeg"):
            scale = {"float32": 255, "uint16": 256}.get(attrs.get("dtype"), 1)
            if not found.startswith("jpeg"):
                return {"contents": data}, attrs

            def call(raw, contents):
                import tensorflow as tf
                return tf.cast(getattr(raw, op)(contents=contents, **attrs), tf.float32)
            return {"contents": data}, program(call), {"rtol": 0, "atol": JPEG_STEPS * (scale if scale == 256 else 1 / scale)}
        return ({"contents": data}, *as_floats(op, attrs, {}))
    return draw


JPEG_ATTRS = dict(ratio=[1, 1, 2, 4, 8, 1, 2, 4, 8, 3], fancy_upscaling=[True, False], try_recover_truncated=[True, False], dct_method=["", "INTEGER_FAST", "INTEGER_ACCURATE"],
                  acceptable_fraction=[1.0, 0.5])


def crop_jpeg(s):
    height, width = s.int(1, 40), s.int(1, 40)
    top, left = s.int(0, height - 1), s.int(0, width - 1)
    window = [top, left, s.int(1, height - top), s.int(1, width - left)]
    if s.chance(0.1):
        window[s.int(0, 3)] = s.one([-1, 0, 41])
    window = window[:3] if s.chance(0.03) else window
    attrs = {name: s.one(values) for name, values in JPEG_ATTRS.items()}
    attrs.update(ratio=1 if s.chance(0.8) else s.one([2, 4, 8]), channels=s.one([0, 1, 3]))
    return ({"contents": np.array(jpeg(s, height, width), object), "crop_window": np.array(window, "int32")}, *as_floats("DecodeAndCropJpeg", attrs, {}))


def jpeg_shape(s):
    data, _ = file_of(s, "jpeg")
    return {"contents": data}, {"output_type": s.one(["int32", "int64"])}


# ---- encoding

def encode_jpeg(s):
    channels = s.one([1, 3]) if s.chance(0.95) else s.one([2, 4])
    picture = smooth(s, s.int(1, 24), s.int(1, 24), channels)
    if s.chance(0.05):
        picture = picture[0]
    attrs = dict(format=s.one(["", "", "grayscale", "rgb"]) if s.chance(0.3) else "", quality=s.one([0, 1, 30, 75, 95, 100]) if s.chance(0.97) else 101, progressive=s.chance(0.3),
                 optimize_size=s.chance(0.3), chroma_downsampling=s.chance(0.6), density_unit=s.one(["in", "cm"]), x_density=s.one([300, 72]), y_density=300,
                 xmp_metadata=s.one(["", "", "<x:xmpmeta/>"]))

    def call(raw, image):
        import tensorflow as tf
        contents = raw.EncodeJpeg(image=image, **attrs)
        return [tf.cast(raw.DecodeJpeg(contents=contents, dct_method="INTEGER_ACCURATE"), tf.float32), raw.ExtractJpegShape(contents=contents)]
    return {"image": picture}, program(call), {"rtol": 0, "atol": JPEG_STEPS}


def encode_quality(s):
    picture = smooth(s, s.int(1, 24), s.int(1, 24), s.one([1, 3]))
    quality = np.int32(s.one([0, 1, 30, 75, 95, 100]) if s.chance(0.95) else s.one([-1, 101]))

    def call(raw, images, quality):
        import tensorflow as tf
        return tf.cast(raw.DecodeJpeg(contents=raw.EncodeJpegVariableQuality(images=images, quality=quality), dct_method="INTEGER_ACCURATE"), tf.float32)
    return {"images": picture, "quality": quality}, program(call), {"rtol": 0, "atol": JPEG_STEPS}


def encode_png(s):
    dtype = s.one(["uint8", "uint16"])
    shape = tuple(s.int(1, 6) for _ in range(s.int(0, 1) if s.chance(0.9) else 2)) + (s.int(1, 9), s.int(1, 9), s.int(1, 4))
    if s.chance(0.05):
        shape = s.one([shape[1:], shape[:-1] + (5,), shape[:-1] + (0,), (0,) + shape[-2:]])
    attrs = dict(compression=s.int(-1, 9) if s.chance(0.97) else 10)

    def call(raw, image):
        import tensorflow as tf
        files = raw.EncodePng(image=image, **attrs)
        one = lambda file: raw.DecodePng(contents=file, dtype=dtype, channels=0)
        return [tf.shape(files), tf.map_fn(one, tf.reshape(files, [-1]), fn_output_signature=tf.as_dtype(dtype))]
    return {"image": s.array(dtype, shape, 0, 65535 if dtype == "uint16" else 255)}, program(call)


DRAWS = {
    "DecodeJpeg": decode("DecodeJpeg", "jpeg", **JPEG_ATTRS), "DecodePng": decode("DecodePng", "png", dtype=["uint8", "uint16"]), "DecodeGif": decode("DecodeGif", "gif"),
    "DecodeBmp": decode("DecodeBmp", "bmp"), "DecodeImage": decode("DecodeImage", None, dtype=["uint8", "uint16", "float32"], expand_animations=[True, False]),
    "DecodeAndCropJpeg": crop_jpeg, "ExtractJpegShape": jpeg_shape, "EncodeJpeg": encode_jpeg, "EncodeJpegVariableQuality": encode_quality, "EncodePng": encode_png,
}
