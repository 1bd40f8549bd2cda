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

FROM debian:bookworm-slim
# The system's trust roots, for regions that have no `tls.ca` of their own.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/release/ojs-sidecar /usr/local/bin/ojs-sidecar
USER 65532:65532
# Metrics and probes. Clients are in the same pod and come by loopback, which no port mapping reaches.
EXPOSE 9464
# The image holds no other program to ask with.
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/usr/local/bin/ojs-sidecar", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/ojs-sidecar"]
CMD ["run", "--config", "/etc/ojs-sidecar/config.yaml"]
