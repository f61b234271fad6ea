# Two stages: build with the same scripts as everywhere else, then a small image with the daemon and its libraries.
#   docker build -t tensord . && docker run -p 8500:8500 -p 8501:8501 -v $PWD/models/my:/models/my -e MODEL_NAME=my tensord
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY . .
RUN deploy/packages.sh build && cmake --preset release && cmake --build build --target tensord tensorctl tensord_shared man \
 && cmake --install build --prefix /opt/tensord --strip

FROM debian:bookworm-slim
COPY deploy/packages.sh /tmp/packages.sh
RUN /tmp/packages.sh run && rm -rf /tmp/packages.sh /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/tensord --create-home tensord && mkdir -p /models
COPY --from=build /opt/tensord /usr/local
COPY deploy/entrypoint.sh /usr/local/bin/tensord-entrypoint
USER tensord
ENV MODEL_NAME=model MODEL_BASE_PATH=/models
EXPOSE 8500 8501
ENTRYPOINT ["/usr/local/bin/tensord-entrypoint"]
