FROM rust:1.95.0-bookworm AS build
WORKDIR /src
# The processors that the program is for, on x86-64: x86-64 for all of them, x86-64-v3 for those with AVX2.
ARG CPU=x86-64
# Without the feature `demo`, which has regions in memory and the chaos run.
ARG FEATURES=--no-default-features
# The load that trains the build runs here, and so do the tools that read its counts.
RUN apt-get update && apt-get install -y --no-install-recommends llvm-19 valgrind && rm -rf /var/lib/apt/lists/*
COPY . .
RUN CPU=${CPU} FEATURES="${FEATURES}" SKIP=sbom make release && cp target/dist/ojs-sidecar-*-*-linux-gnu-* target/ojs-sidecar
# What the program needs to run and nothing else: the libraries that it is linked with, the system's trust roots for regions that have no
# `tls.ca` of their own, the order in which names are looked up, and a folder for the journal that the image's user may write.
RUN mkdir -p /image/usr/local/bin /image/etc/ssl/certs /image/etc/ojs-sidecar /image/var/lib/ojs-sidecar /image/tmp \
    && cp target/ojs-sidecar /image/usr/local/bin/ \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'hosts: files dns' > /image/etc/nsswitch.conf \
    && echo 'ojs-sidecar:x:65532:65532::/:/usr/sbin/nologin' > /image/etc/passwd \
    && ldd target/ojs-sidecar | grep -o '/[^ ]*' | xargs -I{} cp --parents --dereference {} /image \
    && chown 65532:65532 /image/var/lib/ojs-sidecar && chmod 1777 /image/tmp

# For several processors: docker buildx build --platform linux/amd64,linux/arm64 . Each one compiles and collects its own files.
FROM scratch
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ojs-sidecar" \
      org.opencontainers.image.description="Federates Open Job Spec traffic of one pod over regions" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image /
USER 65532:65532
# Metrics and probes. Clients are in the same pod and come by loopback, which no port mapping reaches.
EXPOSE 9464
# The image holds no other program to ask with.
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/usr/local/bin/ojs-sidecar", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/ojs-sidecar"]
CMD ["run", "--config", "/etc/ojs-sidecar/config.yaml"]
