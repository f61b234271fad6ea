# Two stages: build with the same scripts as everywhere else, then a small image with the daemon and its libraries.
#   docker build -t tensord . && docker run -p 8500:8500 -p 8501:8501 -v $PWD/models/my:/models/my -e MODEL_NAME=my tensord
# With --build-arg MPI=1 it can train over several processes (docs/fine-tuning.md): Open MPI, and an sshd that mpirun's workers run as.
FROM debian:bookworm-slim AS build
ARG MPI=
WORKDIR /src
COPY . .
RUN deploy/packages.sh build ${MPI:+mpi_build} && cmake --preset release \
 && cmake --build build --target tensord tensorctl tensord_shared man ${MPI:+tensord_mpi} \
 && cmake --install build --prefix /opt/tensord --strip

FROM debian:bookworm-slim
ARG MPI=
COPY deploy/packages.sh /tmp/packages.sh
RUN /tmp/packages.sh run ${MPI:+mpi_run} && rm -rf /tmp/packages.sh /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/tensord --create-home tensord && mkdir -p /models
# As the mpi-operator has it: an sshd without root, on a port of its own; hosts are the job's own pods, whose names are new each time.
RUN test -z "$MPI" || { d=/var/lib/tensord \
 && printf 'PidFile %s/sshd.pid\nHostKey %s/.ssh/id_rsa\nStrictModes no\nPort 2222\n' "$d" "$d" >"$d/.sshd_config" && mkdir -p /run/sshd \
 && printf 'Host *\n  Port 2222\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n' >/etc/ssh/ssh_config.d/mpi.conf; }
COPY --from=build /opt/tensord /usr/local
COPY deploy/entrypoint.sh /usr/local/bin/tensord-entrypoint
USER tensord
ENV MODEL_NAME=model MODEL_BASE_PATH=/models
EXPOSE 8500 8501
ENTRYPOINT ["/usr/local/bin/tensord-entrypoint"]
