# Two stages: build with the same scripts as everywhere else, then an image of the daemon, the libraries that it loads, and a shell.
#   docker build -t tensord . && docker run -p 8500:8500 -p 8501:8501 -v $PWD/models/my:/models/my -e MODEL_NAME=my tensord
# Without Docker, a registry or a base image: deploy/image.sh, which also tries what it has built.
# With --build-arg MPI=1 it can train over several processes (docs/fine-tuning.md): all of Debian's base then, with Open MPI, and an
# sshd that mpirun's workers run as. With --build-arg GPU=1 it holds the module for NVIDIA's GPUs, and no library of NVIDIA's: the
# driver's come from the host (docker run --gpus all, with NVIDIA's container toolkit); without one it serves on the CPU.
ARG BASE=debian:bookworm-slim
ARG MPI=
ARG GPU=

FROM $BASE AS build
ARG MPI
ARG GPU
WORKDIR /src
COPY deploy/packages.sh deploy/packages.sh
RUN deploy/packages.sh build run image grpc ${MPI:+mpi_build}
# gRPC's C core from its pinned source archive, linked statically: Debian's has known holes (docs/grpc.md).
COPY deploy/grpc.sh deploy/grpc.sh
COPY deploy/grpc deploy/grpc
ARG GRPC_ARCHIVE=
RUN GRPC_ARCHIVE="$GRPC_ARCHIVE" deploy/grpc.sh /opt/grpc
COPY deploy/cuda.sh deploy/cuda.sh
RUN test -z "$GPU" || deploy/cuda.sh /opt/cuda
COPY . .
RUN CUDA_HOME=/opt/cuda cmake --preset release -DTD_GRPC=source -DTD_GRPC_ROOT=/opt/grpc \
 && cmake --build build --target tensord tensorctl tensord_shared man ${MPI:+tensord_mpi} ${GPU:+tensord_cuda} \
 && cmake --install build --prefix /opt/tensord --strip
RUN deploy/image_root.sh /opt/tensord /image

FROM scratch AS serving
COPY --from=build /image /

FROM $BASE AS serving_mpi
ARG MPI
COPY deploy/packages.sh /tmp/packages.sh
RUN test -z "$MPI" || { /tmp/packages.sh run mpi_run && rm -rf /tmp/packages.sh /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --gid 0 --home-dir /var/lib/tensord --create-home tensord && mkdir -p /models; }
# As the mpi-operator has it: an sshd without root, on a port of its own; hosts are the job's own pods, whose names are new each time.
RUN test -z "$MPI" || { d=/var/lib/tensord \
 && printf 'PidFile %s/sshd.pid\nHostKey %s/.ssh/id_rsa\nStrictModes no\nPort 2222\n' "$d" "$d" >"$d/.sshd_config" && mkdir -p /run/sshd \
 && printf 'Host *\n  Port 2222\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n' >/etc/ssh/ssh_config.d/mpi.conf; }
COPY --from=build /opt/tensord /usr/local

FROM serving${MPI:+_mpi}
ARG GPU
COPY deploy/entrypoint.sh /usr/local/bin/tensord-entrypoint
COPY --from=build --chown=10001:0 /image/var/lib/tensord /var/lib/tensord
USER 10001:0
# Threads keep no blocks for themselves: what is free can be given back (docs/security.md).
ENV MODEL_NAME=model MODEL_BASE_PATH=/models GLIBC_TUNABLES=glibc.malloc.tcache_count=0
# What NVIDIA's container toolkit is asked for: nothing of an image for the CPU.
ENV NVIDIA_VISIBLE_DEVICES=${GPU:+all} NVIDIA_DRIVER_CAPABILITIES=${GPU:+compute,utility}
EXPOSE 8500 8501
# What the daemon writes: scratch files, uploads, jobs. All else may be mounted read-only.
VOLUME /var/lib/tensord
# Every configured model serves. A daemon with TLS or without the gRPC port needs a check of its own, or none (--no-healthcheck).
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/usr/local/bin/tensorctl", "health"]
ENTRYPOINT ["/usr/local/bin/tensord-entrypoint"]
