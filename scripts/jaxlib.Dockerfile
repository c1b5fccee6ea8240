# Builds the patched jaxlib (docs/patched-jaxlib.md) in a container, with what scripts/build_jaxlib.sh asks for:
#
#   docker build -f scripts/jaxlib.Dockerfile --target wheels --output wheels .
#
# It needs 60 GiB of disk and takes hours. Nobody has built it yet.
FROM debian:bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git npm python3 && \
    npm install -g @bazel/bazelisk
# Bazel refuses to fetch a Python of its own as root.
RUN useradd --create-home builder
USER builder
COPY --chown=builder . /home/builder/xla-shmem
WORKDIR /home/builder/xla-shmem
RUN scripts/build_jaxlib.sh --jax jax-v0.10.2 --cuda 12 --python 3.12 --output /home/builder/wheels

FROM scratch AS wheels
COPY --from=build /home/builder/wheels /
