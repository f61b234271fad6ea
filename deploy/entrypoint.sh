#!/bin/sh
# TF Serving's container conventions: MODEL_NAME under MODEL_BASE_PATH on ports 8500 (gRPC) and 8501 (REST); further arguments are passed on.
set -- --port=8500 --rest_api_port=8501 --state_dir=/var/lib/tensord "$@"
case " $* " in
*" --model_config_file"* | *" --model-repository"* | *" --model_repository"*) ;;
*) set -- --model_name="${MODEL_NAME:-model}" --model_base_path="${MODEL_BASE_PATH:-/models}/${MODEL_NAME:-model}" "$@" ;;
esac
exec /usr/local/bin/tensord "$@"
