# One image for every role: its arguments are those of `gpushare` (controller, webhook, run, uninstall).
# Where Docker Hub is out of reach: the registry, and its folder, that holds a copy of the base image.
ARG BASE_REGISTRY=docker.io/library
# The digest names the index of all platforms; `make base-image` prints the tag's digest of today.
FROM $BASE_REGISTRY/python:3.11.16-slim-trixie@sha256:da047cb8f9d1d98e5c070f5300ba9f7274e33b8fc0e5be5ed88740aed1b95ba9 AS base

# A pod of this target shows how much GPU memory it gets (docs/isolation.md).
FROM base AS memory-test
WORKDIR /opt/memory-test
COPY memorytest/take_memory.py ./
# Without it the container runtime leaves the driver's library out of images that are not CUDA's.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
ENTRYPOINT ["python3", "/opt/memory-test/take_memory.py"]

FROM base AS build
# Where PyPI is out of reach: a mirror's index. What comes from there has to have the pinned hashes.
ARG PIP_INDEX_URL
ENV PREFIX=/opt/gpushare \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/build.txt requirements/runtime.txt requirements/
# The program's environment has no pip; the one that builds stays in this stage.
RUN python3 -m venv tools \
    && tools/bin/pip install --require-hashes --no-deps --requirement requirements/build.txt \
    && python3 -m venv --without-pip "$PREFIX" \
    && tools/bin/pip --python "$PREFIX" install --no-compile --require-hashes --no-deps \
        --only-binary=:all: --requirement requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
COPY templates templates
# A template is a link to it.
COPY chart/files/teardown.sh chart/files/
# kubernetes, which reads kubeconfigs, is left out: what every role imports is there (tests/image starts them).
RUN tools/bin/pip wheel --no-index --no-build-isolation --no-deps --wheel-dir dist . \
    && tools/bin/pip --python "$PREFIX" install --no-compile --no-index --no-deps dist/*.whl \
    && "$PREFIX/bin/python" -Bc "import gpushare.cli.main, gpushare.webhook.manager, \
        gpushare.controller.manager, gpushare.controller.uninstall"
# The root filesystem is read-only later.
RUN "$PREFIX/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$PREFIX/lib"

FROM base
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG SOURCE=""
LABEL org.opencontainers.image.title="gpushare-operator" \
    org.opencontainers.image.description="GPU-sharing node pools for Alibaba Cloud ACK, open-source gpushare and NVIDIA's device plugin" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.source="$SOURCE"
COPY --from=build /opt/gpushare /opt/gpushare
ENV PATH=/opt/gpushare/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["gpushare"]
