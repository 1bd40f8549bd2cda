# The compiler whose names link/serving.profdata has: with another one the program is slower.
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
# Which processors it is for, on x86-64: x86-64 for all of them, x86-64-v3 (with AVX2) where this is empty.
ARG OJS_CPU=
# Dependencies in a layer of their own: they change seldom and take most of the time.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
# Dependencies are optimised by what the program does under load, too.
COPY link link
RUN mkdir src && touch src/lib.rs && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked \
    && rm -r src
COPY . .
# The stand-ins above are newer than the copied files' own times.
RUN touch src/lib.rs src/main.rs && cargo build --release --locked
# What the program needs to run and nothing else: the libraries that it is linked with, the system's trust roots for regions that have no
# `tls.ca` of their own, the order in which names are looked up, and a folder for the journal that the image's user may write.
RUN mkdir -p /image/usr/local/bin /image/etc/ssl/certs /image/etc/ojs-sidecar /image/var/lib/ojs-sidecar /image/tmp \
    && cp target/release/ojs-sidecar /image/usr/local/bin/ \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'hosts: files dns' > /image/etc/nsswitch.conf \
    && echo 'ojs-sidecar:x:65532:65532::/:/usr/sbin/nologin' > /image/etc/passwd \
    && ldd target/release/ojs-sidecar | grep -o '/[^ ]*' | xargs -I{} cp --parents --dereference {} /image \
    && chown 65532:65532 /image/var/lib/ojs-sidecar && chmod 1777 /image/tmp

# For several processors: docker buildx build --platform linux/amd64,linux/arm64 . Each one compiles and collects its own files.
FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ojs-sidecar" \
      org.opencontainers.image.description="Federates Open Job Spec traffic of one pod over regions" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image /
USER 65532:65532
# Metrics and probes. Clients are in the same pod and come by loopback, which no port mapping reaches: for the demo, which listens there,
# too, `docker run --network host ojs-sidecar:0.1.0 demo`.
EXPOSE 9464
# The image holds no other program to ask with.
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/usr/local/bin/ojs-sidecar", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/ojs-sidecar"]
CMD ["run", "--config", "/etc/ojs-sidecar/config.yaml"]
