"""Makes the models that gpu_saturation.sh asks for, with Keras and by seed: OUT/resnet50/1, OUT/transformer/1, OUT/mlp/1.

    python tests/bench/gpu_saturation_models.py OUT
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
from keras import layers as L

from nets import body, encoder


def main():
    out = sys.argv[1]
    keras.utils.set_random_seed(1)
    x, y = body("mlp")
    nets = {"mlp": keras.Model(x, L.Dense(10, activation="softmax")(y))}
    x = keras.Input((128, 768), name="x")
    y = L.GlobalAveragePooling1D()(encoder(x, layers=12, heads=12, key=64, wide=3072))
    nets["transformer"] = keras.Model(x, L.Dense(2, activation="softmax")(y))
    nets["resnet50"] = keras.applications.ResNet50(weights=None)
    for name, net in nets.items():
        path = os.path.join(out, name, "1")
        if not os.path.exists(path):
            net.export(path, verbose=False)


if __name__ == "__main__":
    main()
