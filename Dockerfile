# The images of Hitless: `docker build --target agent .`, `--target controller`, and `--target cli` for `kubectl hitless` in a pod.
# `--build-arg HITLESS_COMMIT=$(git rev-parse --short=12 HEAD)` tells both programs their commit, which they say in their logs and to
# `kubectl hitless version`: the repository itself is not sent to the builder. Without it they say that they do not know it.
# The reference server of the demo: `docker build --target echo --build-arg VERSION=v1 .`
#
# Each is static binaries in an empty image. `cargo xtask` makes the same images from the stages below without a
# builder, so these may use only COPY --from, ENTRYPOINT, USER, ARG with a default, ENV, LABEL and WORKDIR.

FROM rust:1.95-slim-bookworm AS source
WORKDIR /src
COPY . .
# For glibc this flag makes static binaries. It needs --target: without it, build scripts and macros would get the flag.
ENV RUSTFLAGS="-C target-feature=+crt-static"

FROM source AS build
ARG HITLESS_COMMIT=
ENV HITLESS_COMMIT=${HITLESS_COMMIT}
RUN cargo build --locked --release --target x86_64-unknown-linux-gnu -p hitless-agent -p hitless-controller \
    && mkdir /out \
    && cp target/x86_64-unknown-linux-gnu/release/hitless-agent target/x86_64-unknown-linux-gnu/release/hitless-controller /out/

# Root, because it enters other pods' network namespaces; its manifest takes away the capabilities it does not need.
FROM scratch AS agent
COPY --from=build /out/hitless-agent /hitless-agent
# One heap for all threads. Each pod that is held has a thread, and with a heap for each the agent's memory would be in pieces.
ENV GLIBC_TUNABLES=glibc.malloc.arena_max=1
USER 0
ENTRYPOINT ["/hitless-agent"]

FROM scratch AS controller
COPY --from=build /out/hitless-controller /hitless-controller
USER 65532:65532
ENTRYPOINT ["/hitless-controller"]

# Apart, because cargo gives all packages of one build the features that any of them wishes of a library.
FROM source AS build-cli
RUN cargo build --locked --release --target x86_64-unknown-linux-gnu -p kubectl-hitless \
    && mkdir /out \
    && cp target/x86_64-unknown-linux-gnu/release/kubectl-hitless /out/

# What `helm test` runs.
FROM scratch AS cli
COPY --from=build-cli /out/kubectl-hitless /kubectl-hitless
USER 65532:65532
ENTRYPOINT ["/kubectl-hitless"]

FROM source AS build-load
RUN cargo build --locked --release --target x86_64-unknown-linux-gnu -p hitless-load \
    && mkdir /out \
    && cp target/x86_64-unknown-linux-gnu/release/echo-server target/x86_64-unknown-linux-gnu/release/load /out/

# The reference server, and the load client for a pod that sends requests to it. Tags differ in what the server answers.
FROM scratch AS echo
COPY --from=build-load /out/echo-server /echo-server
COPY --from=build-load /out/load /load
ARG VERSION=v1
ENV VERSION=${VERSION}
ENTRYPOINT ["/echo-server"]
