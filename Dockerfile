# The two images of Hitless: `docker build --target agent .` and `docker build --target controller .`
#
# Each is one static binary in an empty image. `cargo xtask` makes the same images from the stages below without a
# builder, so these may use only COPY --from, ENTRYPOINT, USER, ENV, LABEL and WORKDIR.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# For glibc this flag makes static binaries. It needs --target: without it, build scripts and macros would get the flag.
ENV RUSTFLAGS="-C target-feature=+crt-static"
RUN cargo build --locked --release --target x86_64-unknown-linux-gnu -p hitless-agent -p hitless-controller \
    && mkdir /out \
    && cp target/x86_64-unknown-linux-gnu/release/hitless-agent target/x86_64-unknown-linux-gnu/release/hitless-controller /out/

# Root, because it enters other pods' network namespaces; its manifest takes away the capabilities it does not need.
FROM scratch AS agent
COPY --from=build /out/hitless-agent /hitless-agent
USER 0
ENTRYPOINT ["/hitless-agent"]

FROM scratch AS controller
COPY --from=build /out/hitless-controller /hitless-controller
USER 65532:65532
ENTRYPOINT ["/hitless-controller"]
