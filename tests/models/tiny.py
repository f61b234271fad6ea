"""Makes tests/models/tiny/7, the model of tests/unit/server/test_grpc.c, with TensorFlow.      python tests/models/tiny.py

    serving_default(x) -> x        slow(x) -> x: after a loop that has no end        watch() -> started, turns: of the loops so far
    classify(inputs) -> classes (each example itself, twice), scores (0.5, 1.5, ...)             regress(inputs) -> outputs (0.5, 1.5, ...)
"""
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf  # noqa: E402

WHERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny", "7")


def signature(inputs, outputs, method="predict"):
    infos = lambda named: {k: tf.saved_model.build_tensor_info(t) for k, t in named.items()}
    return tf.saved_model.build_signature_def(infos(inputs), infos(outputs), "tensorflow/serving/" + method)


def main():
    tf.enable_control_flow_v2()
    shutil.rmtree(WHERE, True)
    with tf.Graph().as_default(), tf.Session() as session:
        count = lambda name: tf.get_variable(name, initializer=0, use_resource=True)
        started, turns = count("started"), count("turns")
        x = tf.placeholder(tf.float32, None, name="x")

        def turn(i):
            with tf.control_dependencies([turns.assign_add(1, read_value=False)]):
                return i + 1
        with tf.control_dependencies([started.assign_add(1, read_value=False)]):
            first = tf.identity(tf.constant(0))
        end = tf.while_loop(lambda i: i >= 0, turn, [first])
        inputs = tf.placeholder(tf.string, None, name="inputs")
        n = tf.size(inputs)
        scores = tf.reshape(tf.cast(tf.range(2 * n), tf.float32) + 0.5, [-1, 2])
        signatures = {
            "serving_default": signature({"x": x}, {"x": tf.identity(x)}),
            "slow": signature({"x": x}, {"x": x + tf.cast(end, tf.float32)}),
            "watch": signature({}, {"started": started.read_value(), "turns": turns.read_value()}),
            "classify": signature({"inputs": inputs}, {"classes": tf.reshape(tf.stack([inputs, inputs], 1), [-1, 2]), "scores": scores}, "classify"),
            "regress": signature({"inputs": inputs}, {"outputs": tf.cast(tf.range(n), tf.float32) + 0.5}, "regress"),
        }
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(WHERE)
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


if __name__ == "__main__":
    main()
