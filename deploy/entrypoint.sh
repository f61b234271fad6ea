#!/bin/sh
# TF Serving's container conventions: MODEL_NAME under MODEL_BASE_PATH on ports 8500 (gRPC) and 8501 (REST); further arguments are passed on.
case " $* " in
*" --model_config_file"*) exec /usr/local/bin/tensord --port=8500 --rest_api_port=8501 "$@" ;;
esac
exec /usr/local/bin/tensord --port=8500 --rest_api_port=8501 --model_name="${MODEL_NAME:-model}" \
  --model_base_path="${MODEL_BASE_PATH:-/models}/${MODEL_NAME:-model}" "$@"
