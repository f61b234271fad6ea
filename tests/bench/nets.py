"""The networks that gradients.py and finetune.py measure, up to what their last layer reads, by Keras and by seed; and what a process holds."""


def body(name, batch_norm=False):
    """(inputs, features) of mlp, cnn (batch_norm: after each convolution), lstm, transformer or recommender."""
    import keras
    from keras import layers as L
    if name == "mlp":
        x = y = keras.Input((784,), name="x")
        for n in (1024, 1024, 512):
            y = L.Dense(n, activation="relu")(y)
    elif name == "cnn":
        x = y = keras.Input((32, 32, 3), name="x")
        for n in (32, 64, 128):
            y = L.Conv2D(n, 3, padding="same")(y)
            y = L.MaxPooling2D()(L.Activation("relu")(L.BatchNormalization()(y) if batch_norm else y))
        y = L.Dense(128, activation="relu")(L.Flatten()(y))
    elif name == "lstm":
        x = keras.Input((50, 64), name="x")
        y = L.LSTM(128)(L.LSTM(128, return_sequences=True)(x))
    elif name == "transformer":
        x = keras.Input((64, 128), name="x")
        y = L.GlobalAveragePooling1D()(encoder(x, layers=4, heads=4, key=32, wide=512))
    elif name == "recommender":
        x = {"user": keras.Input((1,), dtype="int32", name="user"), "items": keras.Input((20,), dtype="int32", name="items"),
             "other": keras.Input((16,), name="other")}
        user = L.Flatten()(L.Embedding(20000, 32)(x["user"]))
        items = L.GlobalAveragePooling1D()(L.Embedding(50000, 32)(x["items"]))
        y = L.Concatenate()([user, items, x["other"]])
        for n in (128, 64):
            y = L.Dense(n, activation="relu")(y)
    else:
        raise ValueError(f"no network {name}")
    return x, y


def encoder(y, layers, heads, key, wide):
    """BERT's layers: y [N, T, heads * key], and of the same shape what comes out."""
    from keras import layers as L
    for _ in range(layers):
        y = L.LayerNormalization()(y + L.MultiHeadAttention(heads, key)(y, y))
        y = L.LayerNormalization()(y + L.Dense(heads * key)(L.Dense(wide, activation="gelu")(y)))
    return y


def held_mb(field):
    """A line of /proc/self/status: VmRSS, VmHWM, .."""
    with open("/proc/self/status") as f:
        return next((int(line.split()[1]) / 1024 for line in f if line.startswith(field + ":")), 0.0)
