# The patched jaxlib (docs/patched-jaxlib.md) built in a container with what scripts/build_jaxlib.sh asks for:
#
#   docker build -f scripts/jaxlib.Dockerfile --target wheels --output wheels .
#
# It needs 60 GiB of disk and takes hours. No container was built; what ran: docs/patched-jaxlib.md, "What was checked".
FROM debian:bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git npm python3 && \
    npm install -g @bazel/bazelisk
RUN useradd --create-home builder
USER builder
WORKDIR /home/builder
COPY scripts scripts
COPY xla_patch xla_patch
RUN scripts/build_jaxlib.sh --jax jax-v0.10.2 --cuda 12 --python 3.12 --output /home/builder/wheels

FROM scratch AS wheels
COPY --from=build /home/builder/wheels /
